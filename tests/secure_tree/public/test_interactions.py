"""Groups of interaction constraints: how they are given, and XGBoost's rule of which features may follow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc.errors import ConfigError
from secure_tree.public.config import TrainConfig
from secure_tree.public.interactions import interactions
from secure_tree.twin.search import followers

NAMES = [("a", "kind=x", "kind=y", "b"), ("c",)]


def groups(given, tables=NAMES):
    """Return the features of each group."""
    found = interactions(TrainConfig.of(interaction_constraints=given), tables)
    return found and sorted(np.flatnonzero(of_kinds[found.kind]).tolist() for of_kinds in found.groups.T)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ([], [[0], [1, 2], [3], [4]]),
        ("[]", [[0], [1, 2], [3], [4]]),
        ([["a", "kind"]], [[0, 1, 2], [3], [4]]),
        ([[0, 1], ["b", 3]], [[0, 1, 2], [3, 4]]),
        ((("a", "b"), ("b", "c", "c"), (), ("b", "a")), [[0, 3], [1, 2], [3, 4]]),
        ('[["a", 1], [1, 2, 3]]', [[0, 1, 2], [1, 2, 3, 4]]),
        ([[0, 1, 2, 3], [0, 1]], None),
    ],
)
def test_groups_are_of_columns(given, expected):
    assert groups(given) == expected


def test_columns_of_the_same_name_have_numbers():
    tables = [("f0", "f1"), ("f0",)]
    assert groups([[0, 2]], tables) == [[0, 2], [1]]
    with pytest.raises(ConfigError, match="'f0' names columns of several tables: give its number"):
        groups([["f0", "f1"]], tables)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([["a", "z"]], "interaction_constraints: no party has a column 'z'"),
        ([["kind=x", "a"]], "no party has a column 'kind=x'"),
        ([[0, 4]], "the columns of both parties are numbers 0 to 3, got 4"),
        *(
            (given, 'must be a list of lists of names or numbers, or text such as "\\[\\[0, 1\\], \\[2, 3\\]\\]"')
            for given in (["a", "b"], [[0, -1]], [[True, 1]], [[0.5]], "a, b", '["a"]', {"a": ["b"]}, 3)
        ),
    ],
)
def test_groups_are_checked(given, sentence):
    with pytest.raises(ConfigError, match=sentence):
        groups(given)


@settings(max_examples=100, deadline=None, database=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=6), st.data())
def test_what_may_follow_is_xgboosts_rule(given, data):
    """A node may split on the features above it, and on those of all groups that contain all of these."""
    tables = [tuple("abcdef")]
    found = interactions(TrainConfig.of(interaction_constraints=given), tables)
    winners, above = [], [frozenset()]
    for node in range(7):
        used = above[node]
        whole = [set(group) for group in given if used <= set(group)] if used else [set(range(6))]
        allowed = used.union(*whole)
        if found:
            assert set(np.flatnonzero(followers(found, winners)[node])) == allowed
        winners.append(data.draw(st.sampled_from(sorted(allowed))))
        above += [used | {winners[-1]}] * 2
