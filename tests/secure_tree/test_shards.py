"""Rows divided among workers: every split is the twin's on the same gradients, however many workers there are."""

import numpy as np
import pytest

from tests.secure_tree.test_twin import check, halves, table
from tests.secure_tree.training import train_both


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "parameters",
    [
        {"max_depth": 3, "max_bin": 8},
        {"max_depth": 2, "max_bin": 8, "min_child_samples": 12, "edges": "joint"},
        {"max_depth": 2, "max_bin": 8, "objective": "squarederror"},
        {"max_depth": 2, "max_bin": 8, "objective": "multi:ova", "num_class": 3},
    ],
)
def test_every_split_is_the_twins(count, parameters):
    X, y = table(90, 3, 1)
    if parameters.get("num_class"):
        y = y + (X[:, 1] > 0.5)
    config = {"n_estimators": 2, "missing": "all", **parameters}
    X[::7, 1] = np.nan
    training = train_both(*halves(X, y, 41), workers=count, **config)
    assert len(check(training, 2)) > 1
