"""Errors that both parties raise before the first share is made."""

from dataclasses import replace

import numpy as np
import pytest

from mpc.errors import DataError, RangeError
from protocols.testing.two_parties import run_both
from secure_tree.data.table import held_rows
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes
from tests.secure_tree.opened import train_both
from tests.secure_tree.public.test_sampling import SMALL
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import table


@pytest.mark.parametrize(
    ("parameters", "rows", "sentence"),
    [
        (
            {"partition": "vertical"},
            (70_000, 70_000),
            'above 65533 rows per party, got "exact" for 70000',
        ),
        ({}, (70_000, 10), 'above 65533 rows per party, got "exact" for 70000'),
        ({}, (30_000, 30_000), "2 features with 30000 and 30000 edges make more than .* pairs of an edge and a bin"),
    ],
)
def test_more_bins_than_can_be_numbered_or_compared(parameters, rows, sentence):
    names = (("a",), ("b",)) if parameters else (("a", "b"), ("a", "b"))
    with pytest.raises(RangeError, match=sentence):
        Sizes(rows, names).context(TrainConfig.of(max_bin="exact", **parameters))


def test_parties_by_columns_hold_out_the_same_rows():
    X, y = table(40, 2, seed=61)
    training = train_both(*columns(X, y, 1), partition="vertical", test_size=0.25, random_state=3, **SMALL)
    held = held_rows(training.config, 40)
    assert training.facts.validation_rows == (10, 10) and held.size == 10 and not np.array_equal(held, np.arange(10))
    kept = np.delete(X, held, axis=0)
    # A party's cuts are values of its training rows.
    for p in (0, 1):
        assert np.isin(training.models[p].model.cuts, kept[:, p].astype(np.float32)).all()


def test_both_halves_of_a_model_have_the_same_public_facts():
    X, y = table(40, 2, seed=62)
    training = train_both(*columns(X, y, 1), partition="vertical", **SMALL)
    model = training.models[1].model
    training.models[1].model = replace(model, facts=replace(model.facts, label_scale=2.0))
    with pytest.raises(DataError, match="differ in their public facts: one of them has been altered since training"):
        run_both(lambda party: training.models[party.rank].predict_margin(party, X[:, [party.rank]]))
