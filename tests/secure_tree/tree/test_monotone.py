"""Monotone constraints: predictions along a grid of the feature, splits of the twin, and comparison with XGBoost."""

import json

import numpy as np
import pytest

from mpc.errors import ConfigError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.exchange.xgboost import to_xgboost
from secure_tree.public.config import TrainConfig
from secure_tree.public.layout import place
from secure_tree.training.cost import Sizes, plan_training
from secure_tree.twin.search import hold as plain_hold
from tests.secure_tree.opened import train_both

pandas = pytest.importorskip("pandas")
CONSTRAINTS = {"f0": 1, "f1": -1}
GRID = np.linspace(-3, 3, 25)


def table(n, seed, missing=False):
    """Return a table with labels that rise with f0 and fall with f1 on the whole, but not everywhere."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X[:, 0] - X[:, 1] + 2 * np.sin(4 * X[:, 0]) + 2 * np.sin(3 * X[:, 1]) + X[:, 2] + rng.normal(size=n)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def along(feature, count, seed):
    """Return rows with random other features, each at all points of the feature's grid, [count * points, 3]."""
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
        assert (way * rises(free[k])).min() < -0.05, "without constraints they are not monotone"
        assert np.ptp(held[k]) > 0.3


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_depth": 4, "missing": "all"},
        {"max_depth": 5, "missing": "all", "partition": "vertical"},
        {"max_depth": 3, "scale_pos_weight": 3.0, "max_delta_step": 0.5, "min_child_samples": 9},
        {"max_depth": 2, "objective": "multi:ova", "num_class": 3, "subsample": 0.7},
        {"max_depth": 3, "objective": "count:poisson", "colsample_bytree": 0.7, "n_estimators": 6},
        {"max_depth": 3, "objective": "reg:squarederror", "weighted": True},
    ],
)
def test_splits_and_leaves_are_the_twins(parameters):
    X, y = table(300, 3)
    parameters = {"n_estimators": 3, "max_bin": 8, "learning_rate": 0.5} | parameters
    objective = parameters.get("objective", "binary:logistic")
    labels = {
        "binary:logistic": y > 0,
        "multi:ova": np.digitize(y, [-1, 1]),
        "count:poisson": np.round(np.exp(y / 3)),
        "reg:squarederror": y,
    }[objective].astype(float)
    weights = np.random.default_rng(4).uniform(0.2, 5, 300) if parameters.pop("weighted", False) else None
    if parameters.get("partition") == "vertical":
        parts = ((X[:, :1], X[:, 1:]), (labels, None))
    else:
        parts = ((X[:140], X[140:]), (labels[:140], labels[140:]))
    divided = (None, None) if weights is None else (weights[:140], weights[140:])
    training = train_both(*parts, weights=divided, monotone_constraints=(1, -1, 0), **parameters)
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
    with pytest.raises(ConfigError, match="a direction for each of the 3 features of both parties, got 2"):
        config.directions(["a", "b", "c"])
    with pytest.raises(ConfigError, match="no party has a feature 'z'"):
        TrainConfig.of(monotone_constraints={"z": 1}).directions(["a"])
    with pytest.raises(ConfigError, match="reg_alpha must be 0 with monotone_constraints"):
        TrainConfig.of(monotone_constraints=[1, 0], reg_alpha=0.1)
    with pytest.raises(ConfigError, match="monotone_constraints"):
        SecureXGBClassifier(monotone_constraints=[2])


@pytest.mark.parametrize(
    ("partition", "rounds", "sent"),
    [
        ("horizontal", [5, 8, 9, 10], [2113, 6041, 13895, 29603]),
        ("vertical", [4, 6, 6, 6], [1063, 3157, 7343, 15715]),
    ],
)
def test_what_constraints_cost(partition, rounds, sent):
    names = ("a", "b", "c")
    own = (names[:1], names[1:]) if partition == "vertical" else (names, names)
    shared = {"max_bin": 8, "partition": partition}

    def of_trees(depth, count, constraints):
        config = TrainConfig.of(max_depth=depth, monotone_constraints=constraints, **shared)
        setup, trees, finish = plan_training(config, Sizes((count, count), own))
        return trees, setup, finish

    found = []
    for depth in (1, 2, 3, 4):
        more = []
        for count in (90, 900):
            free, constrained = of_trees(depth, count, None), of_trees(depth, count, (0, 1, -1))
            assert of_trees(depth, count, (0, 0, 0)) == of_trees(depth, count, {"a": 0}) == free, (
                "no constraint, no cost"
            )
            assert constrained[1:] == free[1:], "only trees cost more"
            more.append((constrained[0].rounds - free[0].rounds, constrained[0].sent - free[0].sent))
        (few, bytes_of_few), (many, bytes_of_many) = more
        # Sums of more rows have more bits.
        assert few == many and bytes_of_few <= bytes_of_many < 1.06 * bytes_of_few, "nothing per row"
        found.append(more[0])
    assert found == list(zip(rounds, sent, strict=True))


def test_constraints_have_the_forms_of_xgboost():
    for given in ((1, 0, -1), [1, 0, -1], "(1,0,-1)", " (1, 0,-1,)".strip()):
        assert TrainConfig.of(monotone_constraints=given).directions(["a", "b", "c"]) == (1, 0, -1)
    assert TrainConfig.of(monotone_constraints={"c": -1, "a": 1}).directions(["a", "b", "c"]) == (1, 0, -1)
    for given in ("1,0", "(2,0)", "()", [2], {"a": "up"}, 1, False):
        with pytest.raises(ConfigError, match="monotone_constraints: must be a list of 1, 0 or -1, a dict of names"):
            TrainConfig.of(monotone_constraints=given)


def test_the_exported_model_is_monotone():
    xgboost = pytest.importorskip("xgboost")
    X, y = table(300, 8)

    def job(party):
        rows = slice(0, 140) if party.rank == 0 else slice(140, None)
        model = SecureXGBRegressor(monotone_constraints=[1, -1, 0], n_estimators=4, max_depth=3, learning_rate=0.5)
        model.fit(party, X[rows], y[rows])
        return reveal_model(party, model.model, to=0)

    plain = run_both(job)[0][0]
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(to_xgboost(plain)).encode()))
    for feature, way in ((0, 1), (1, -1)):
        margins = booster.inplace_predict(along(feature, 12, 2), predict_type="margin")
        assert (way * rises(margins)).min() > -1e-4, "XGBoost adds in float32"
        assert np.ptp(margins) > 0.3
