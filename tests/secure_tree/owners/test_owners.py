"""Owners who are no party: every split is the twin's on all rows, and contributions that lie are refused by name."""

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError
from protocols.runtime import run_local
from secure_tree import SecureXGBClassifier
from secure_tree.owners import contributing
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_twin import check, table

PARAMETERS = {"n_estimators": 2, "max_depth": 3, "max_bin": 8, "edges": "joint", "edge_bits": 16, "learning_rate": 0.3}


def tables(counts, d=4, classes=2, missing=False):
    """Tables of owners, the first two of parties, with the class shifted by owner."""
    made = []
    for seed, n in enumerate(counts):
        X, y = table(n, d, seed=seed + 7)
        y = np.digitize(X[:, 0] + 0.2 * seed, np.linspace(-0.6, 0.6, classes - 1)).astype(float) if classes > 2 else y
        if missing:
            X[::3, 1] = np.nan
        made.append((X, y))
    return made


def trained(made, **parameters):
    (a, ya), (b, yb), *others = made
    owners = {f"bank_{k:02}": each for k, each in enumerate(others)}
    return train_both((a, b), (ya, yb), owners=owners, **{**PARAMETERS, **parameters})


@pytest.mark.parametrize("counts", [(40, 30, 50), (33, 1, 2, 60, 17), (20,) * 13])
def test_every_split_is_the_twins_on_all_rows(counts):
    assert len(check(trained(tables(counts)), 2)) > 1


@pytest.mark.parametrize(
    ("parameters", "shape"),
    [
        ({"missing": "all"}, {"missing": True}),
        ({"objective": "multi:ova", "num_class": 3}, {"classes": 3}),
        ({"min_child_samples": 9, "reg_alpha": 0.4}, {}),
        ({"subsample": 0.7, "colsample_bytree": 0.5, "random_state": 3}, {}),
        ({"monotone_constraints": (1, 0, 0, -1)}, {}),
        ({"scale_pos_weight": 1.0, "base_score": 0.3}, {}),
    ],
)
def test_whatever_is_trained(parameters, shape):
    check(trained(tables((40, 30, 35, 25), **shape), **parameters), 2)
