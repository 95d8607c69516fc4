"""Monotone constraints: predictions along a grid of the feature, splits of the twin, and what XGBoost makes of them."""

import numpy as np
import pytest

from mpc.errors import ConfigError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.config import TrainConfig
from secure_tree.layout import place
from secure_tree.plain.search import hold as plain_hold
from tests.secure_tree.training import train_both

pandas = pytest.importorskip("pandas")
CONSTRAINTS = {"f0": 1, "f1": -1}
GRID = np.linspace(-3, 3, 25)


def table(n, seed, missing=False):
    """A label that f0 raises and f1 lowers on the whole, and not everywhere."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X[:, 0] - X[:, 1] + 2 * np.sin(4 * X[:, 0]) + 2 * np.sin(3 * X[:, 1]) + X[:, 2] + rng.normal(size=n)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def along(feature, count, seed):
    """Rows of random other features, each at all points of the grid, [count * points, 3]."""
    rows = np.repeat(np.random.default_rng(seed).normal(size=(count, 3)), len(GRID), axis=0)
    rows[:, feature] = np.tile(GRID, count)
    return rows


def rises(margins):
    return np.diff(margins.reshape(-1, len(GRID)), axis=1)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize("kind", [SecureXGBClassifier, SecureXGBRegressor])
def test_predictions_are_monotone(kind, partition):
    X, y = table(240, 1, missing=True)
    y = (y > 0).astype(float) if kind is SecureXGBClassifier else y
    grids = [along(feature, 12, 2) for feature in (0, 1)]
    parameters = {"n_estimators": 4, "max_depth": 3, "max_bin": 8, "learning_rate": 0.5, "missing": "all"}

    def job(party, constraints):
        if partition == "horizontal":
            rows = place(party.rank, (110, 130))
            own, labels, tables = X[rows], y[rows], grids
        else:
            columns = place(party.rank, (1, 2))
            own, labels = X[:, columns], y if party.rank == 0 else None
            tables = [grid[:, columns] for grid in grids]
        names = ["f0", "f1", "f2"]
        if partition == "vertical":
            names = names[columns]
        model = kind(partition=partition, monotone_constraints=constraints, **parameters)
        model.fit(party, pandas.DataFrame(own, columns=names), labels)
        margins = []
        for grid in tables:
            for method in ("bins", "thresholds"):
                margins.append(model.predict_margin(party, pandas.DataFrame(grid, columns=names), method))
        return margins

    held = run_both(lambda party: job(party, CONSTRAINTS))[0][0]
    free = run_both(lambda party: job(party, None))[0][0]
    for k, way in enumerate((1, 1, -1, -1)):
        assert (way * rises(held[k])).min() >= 0, "exactly: leaves add up as integers"
        assert (way * rises(free[k])).min() < -0.05, "without constraints it is not so"
        assert np.ptp(held[k]) > 0.3


def test_leaves_are_held_as_the_twins():
    X, y = table(300, 3)
    labels = (y > 0).astype(float)
    parameters = {"n_estimators": 3, "max_depth": 4, "max_bin": 8, "learning_rate": 0.5, "missing": "all"}
    training = train_both(
        (X[:140], X[140:]), (labels[:140], labels[140:]), monotone_constraints=(1, -1, 0), **parameters
    )
    ways = 0
    for seen, twin in zip(training.trees, training.twins(), strict=True):
        assert np.array_equal(seen.winner, twin.winner)
        assert np.abs(seen.leaves - twin.leaves).max() < 1e-4
        of_split = np.append(training.data.directions, 0)[twin.winner]
        ways += np.abs(of_split).sum()
    assert ways > 5


def test_bounds_halve_at_constrained_splits():
    values = np.array([0.0, 1, 5, 0, 9, -2, 8])
    assert plain_hold(np.array([1, 1, 0]), values).tolist() == [0, 1, 5, 0, 3, 3, 8]
    assert plain_hold(np.array([0, -1, 0]), values).tolist() == [0, 1, 5, 4.5, 4.5, -2, 8]


def test_accuracy_is_near_xgboosts():
    xgboost = pytest.importorskip("xgboost")
    metrics = pytest.importorskip("sklearn.metrics")
    X, y = table(1200, 5)
    y = (y > 0).astype(float)
    parameters = {"n_estimators": 10, "max_depth": 3, "learning_rate": 0.3, "max_bin": 32}
    rows, later = (slice(0, 400), slice(400, 800)), slice(800, None)

    def job(party):
        model = SecureXGBClassifier(monotone_constraints=[1, -1, 0], edges="joint", **parameters)
        model.fit(party, X[rows[party.rank]], y[rows[party.rank]])
        return model.predict_margin(party, X[later] if party.rank == 0 else X[:0])

    ours = metrics.roc_auc_score(y[later], run_both(job)[0][0])
    theirs = xgboost.XGBClassifier(monotone_constraints=(1, -1, 0), min_child_weight=0.5, **parameters)
    theirs = metrics.roc_auc_score(y[later], theirs.fit(X[:800], y[:800]).predict_proba(X[later])[:, 1])
    assert ours > theirs - 0.015


def test_constraints_are_checked():
    config = TrainConfig.of(monotone_constraints=[1, 0])
    assert config.directions(["a", "b"]) == (1, 0)
    with pytest.raises(ConfigError, match="a direction for each of the 3 features of the whole table, got 2"):
        config.directions(["a", "b", "c"])
    with pytest.raises(ConfigError, match="no party has a feature 'z'"):
        TrainConfig.of(monotone_constraints={"z": 1}).directions(["a"])
    with pytest.raises(ConfigError, match="reg_alpha must be 0 beside monotone_constraints"):
        TrainConfig.of(monotone_constraints=[1, 0], reg_alpha=0.1)
    with pytest.raises(ConfigError, match="monotone_constraints"):
        SecureXGBClassifier(monotone_constraints=[2])
