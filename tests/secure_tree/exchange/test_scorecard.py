"""Points of a model of stumps add up to its margins."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpc.errors import ConfigError
from secure_tree.exchange.scorecard import scorecard, scored
from secure_tree.exchange.xgboost import from_xgboost


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
