"""A planned exploration has the rounds and bytes of the real one."""

import numpy as np
import pytest

from protocols.testing.two_parties import dealt, made_by_both
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.cost import plan_exploration
from tests.secure_tree.explore.tables import CUT, FEATURES, ROWS, explored, parts, table
from tests.secure_tree.explore.test_owners import divided
from tests.secure_tree.explore.test_owners import explored as explored_with_owners

# Messages in the clear: facts and consent.
PUBLIC = 2
# Besides, the facts of a training, and what each of two owners has sent.
PUBLIC_WITH_OWNERS = 10


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize(
    "asked",
    [
        {"top": 3},
        {"top": 3, "rank": "auc", "reveal": "woe", "statistics": ("iv", "auc", "ks")},
        {"top": 2, "privacy": {"rho": 1.0}},
        {"classes": 3, "reveal": "numbers", "statistics": ("ks",)},
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_as_planned(source, partition, asked, weighted):
    X, y = table()
    y = y + (np.arange(ROWS) % 3 == 0) if "classes" in asked else y
    more = {"sample_weight": np.ones(ROWS)} if weighted else {}
    own = parts(X, y, partition, **more)
    _, parties = explored(own, source, partition=partition, **asked)
    rows = (ROWS, ROWS) if partition == "vertical" else (ROWS // 2, ROWS // 2)
    features = (CUT, FEATURES - CUT) if partition == "vertical" else (FEATURES, FEATURES)
    planned = plan_exploration(
        ExploreConfig.of(partition=partition, **asked), rows, features, weighted=weighted, dealer=source is dealt
    )
    total = parties[0].meter.total
    assert (total.rounds - PUBLIC, total.sent // 8, total.received // 8) == (
        planned.rounds,
        planned.sent,
        planned.received,
    )


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("asked", [{"top": 2}, {"reveal": "woe", "statistics": ("iv", "psi")}])
def test_as_planned_with_owners(source, weighted, asked):
    sizes = (1300, 1200, 1100, 1000)
    X, y = table(rows=sum(sizes), features=4)
    own, owners = divided(X, y, sizes, **({"sample_weight": np.ones(len(X))} if weighted else {}))
    _, parties = explored_with_owners(own, owners, source, **asked)
    planned = plan_exploration(
        ExploreConfig.of(**asked),
        sizes[:2],
        (4, 4),
        weighted=weighted,
        dealer=source is dealt,
        owner_rows=sizes[2:],
    )
    total = parties[0].meter.total
    assert (total.rounds - PUBLIC_WITH_OWNERS, total.sent // 8, total.received // 8) == (
        planned.rounds,
        planned.sent,
        planned.received,
    )
