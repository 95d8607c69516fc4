"""Points of a model of stumps add up to its margins."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import run_both
from secure_tree.exchange.plain_model import NO_SPLIT, PlainModel, reveal_model
from secure_tree.exchange.scorecard import scorecard, scored
from secure_tree.exchange.xgboost import from_xgboost
from tests.secure_tree.opened import train_both
from tests.secure_tree.prediction.test_predict import predict_both
from tests.secure_tree.test_layouts import columns, with_holes
from tests.secure_tree.test_twin import halves, table


def stumps(features, thresholds, missing_left, leaves, names=("income", "age", "unused")):
    trees, leaves = len(features), np.array(leaves, float)
    split = np.array(features).reshape(trees, 1), np.array(thresholds, np.float32).reshape(trees, 1)
    left, worth = np.array(missing_left).reshape(trees, 1), (np.zeros((trees, 1)), np.zeros((trees, 3)))
    return PlainModel("binary:logistic", names, (0.25,), *split, left, leaves, *worth)


MODEL = stumps(
    [0, 1, 0, NO_SPLIT, 0],
    [3.5, 40, 1.25, 0, 3.5],
    [True, False, False, False, True],
    [[1, -2], [0.5, 0.25], [-0.125, 4], [7, -1], [0.5, 0]],
)


def margins_of(model, X):
    """Follow each tree by itself."""
    total = np.full(len(X), model.base_margins[0])
    for t, (feature, threshold) in enumerate(zip(model.features[:, 0], model.thresholds[:, 0], strict=True)):
        x = X[:, feature].astype(np.float32)
        left = np.where(np.isnan(x), model.missing_left[t, 0], x < threshold) & (feature != NO_SPLIT)
        total += np.where(left, *model.leaves[t])
    return total


def test_points_follow_every_tree():
    X = np.random.default_rng(3).choice([-1, 1.25, 2, 3.5, 3.5000005, 40, 39.99, np.nan, np.inf, -np.inf], (400, 3))
    scores = scored(scorecard(MODEL, 500, 30, 25), pd.DataFrame(X, columns=MODEL.names))
    assert np.abs(scores - (500 - 25 / math.log(2) * (margins_of(MODEL, X) + math.log(30)))).max() < 1e-9


def test_the_points_of_every_interval():
    card, factor = scorecard(MODEL), 20 / math.log(2)
    assert list(card["feature"]) == ["", *["income"] * 4, *["age"] * 3]
    assert card["from"][1:4].tolist() == [-np.inf, 1.25, 3.5] and card["to"][1:4].tolist() == [1.25, 3.5, np.inf]
    expected = [600 - factor * (0.25 - 1 + math.log(50)), *(-factor * w for w in (1.375, 5.5, 2, 5.5, 0.5, 0.25, 0.25))]
    assert np.allclose(card["points"], expected, rtol=0, atol=1e-9)


def test_the_scale_doubles_the_odds():
    model = stumps([0], [1], [False], [[0.0, -math.log(2)]])
    low, high = scored(scorecard(model, 500, math.exp(-0.25), 25), pd.DataFrame({"income": [0.0, 2.0]}))
    assert (round(low, 9), round(high, 9)) == (500, 525)


@pytest.mark.parametrize(("partition", "least"), [("horizontal", 0.0), ("vertical", 0.0), ("horizontal", 8.0)])
def test_stumps_that_were_trained_on_shares(partition, least):
    X, y = table(120, 4, seed=51)
    X = with_holes(X, 0.2).astype(np.float32)
    data = halves(X, y, 50) if partition == "horizontal" else columns(X, y, 2)
    if partition == "vertical":
        data = tuple(pd.DataFrame(x, columns=list(n)) for x, n in zip(data[0], ("ab", "cd"), strict=True)), data[1]
    else:
        data = tuple(pd.DataFrame(x, columns=list("abcd")) for x in data[0]), data[1]
    how = {"max_depth": 1, "partition": partition, "missing": "all", "learning_rate": 0.5, "max_bin": 8}
    training = train_both(*data, n_estimators=12, min_split_loss=least, base_score=0.2, **how)
    fresh = pd.DataFrame(with_holes(table(60, 4, seed=52)[0], 0.3, seed=1).astype(np.float32), columns=list("abcd"))
    parts = (fresh[:20], fresh[20:]) if partition == "horizontal" else (fresh[["a", "b"]], fresh[["c", "d"]])
    ours = np.concatenate(predict_both(training.models, parts, "thresholds"))
    (plain, _), _ = run_both(lambda p: reveal_model(p, training.models[p.rank].model, 0))
    assert (plain.features == NO_SPLIT).any() == (least > 0), "some trees have no split"
    expected = 600 - 20 / math.log(2) * (ours + math.log(50))
    assert np.abs(scored(scorecard(plain), fresh) - expected).max() < 1e-3


@pytest.mark.parametrize("scale", [{"double": 0}, {"odds": math.nan}, {"odds": -1}, {"points": math.inf}])
def test_a_scale_must_be_positive(scale):
    with pytest.raises(ConfigError, match="double and odds must be positive"):
        scorecard(MODEL, **scale)


def test_names_must_tell_features_apart():
    twice = stumps([0, 1], [1, 2], [False, False], [[0, 1], [1, 0]], names=("x", "x", "unused"))
    with pytest.raises(DataError, match="both parties have 'x'"):
        scorecard(twice)
    assert len(scorecard(stumps([0], [1], [False], [[0, 1]], names=("x", "y", "y")))) == 4
    with pytest.raises(DataError, match="no column 'age'"):
        scored(scorecard(MODEL), pd.DataFrame({"income": [1.0]}))


def booster(depth=1, objective="binary:logistic"):
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(500, 4)).astype(np.float32), columns=list("abcd"))
    y = (X["a"] + 2 * (X["b"] > 0.3) + rng.normal(size=500) > 1).astype(int)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    parameters = {"objective": objective, "max_depth": depth, "tree_method": "hist"}
    trained = xgboost.train(parameters, xgboost.DMatrix(X, label=y), 30)

    document = json.loads(bytes(trained.save_raw("json")))
    return X, trained.predict(xgboost.DMatrix(X), output_margin=True), from_xgboost(document, "the test")


def test_points_add_up():
    X, margins, model = booster()
    card = scorecard(model, points=600, odds=50, double=20)
    expected = 600 - 20 / math.log(2) * (margins + math.log(50))
    assert np.abs(scored(card, X) - expected).max() < 1e-3
    assert card["feature"].iloc[0] == "" and set(card["feature"][1:]) <= set("abcd")
    # One line per interval, and one for missing values.
    assert (card[1:].groupby("feature")["missing"].sum() == 1).all()


def test_other_models_are_refused():
    for model in (booster(depth=2)[2], booster(objective="reg:squarederror")[2]):
        with pytest.raises(ConfigError, match="must have stumps and two classes"):
            scorecard(model)
