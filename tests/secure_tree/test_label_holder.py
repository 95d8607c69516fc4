"""By columns, a party may have the labels only: all candidates are the other party's, in every use of the model."""

import numpy as np
import pytest

from mpc.errors import DataError
from protocols.testing.two_parties import made_by_both, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.exchange.xgboost import to_xgboost
from tests.secure_tree.exchange.test_plain_model import booster_margins
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_layouts import with_holes
from tests.secure_tree.test_twin import check

RNG = np.random.default_rng(11)
X = RNG.normal(size=(120, 3)).astype(np.float32)
NONE = np.zeros((120, 0))
SIGNAL = X[:, 0] - X[:, 2] * (X[:, 1] > 0)
SHAPE = {"partition": "vertical", "n_estimators": 3, "max_depth": 2, "max_bin": 8, "learning_rate": 0.5}


def sides(holder, features, other):
    """Return what the two parties have, if `holder` has `other` and the other one the features."""
    return (other, features) if holder == 0 else (features, other)


@pytest.mark.parametrize("holder", [0, 1])
@pytest.mark.parametrize(
    ("parameters", "source"),
    [
        ({}, {}),
        ({"missing": "all", "min_child_samples": 4}, {}),
        ({"objective": "reg:squarederror"}, {}),
        ({"max_bin": "exact"}, {"source": made_by_both}),
    ],
)
def test_every_split_is_the_twins(holder, parameters, source):
    features = with_holes(X, 0.2) if "missing" in parameters else X
    labels = SIGNAL if "objective" in parameters else (SIGNAL > 0).astype(float)
    tables = sides(holder, features, NONE)
    training = train_both(tables, sides(holder, None, labels), **{**SHAPE, **parameters}, **source)
    assert len(check(training, 3)) > 1
    assert training.models[0].model.facts.names == ("f0", "f1", "f2")


@pytest.mark.parametrize("holder", [0, 1])
def test_the_model_is_used_as_any_other(holder):
    y = (SIGNAL > 0).astype(float)

    def job(party):
        mine = sides(holder, X, NONE)[party.rank]
        model = SecureXGBClassifier(**SHAPE, test_size=0.2, eval_metric="auc")
        model.fit(party, mine, y if party.rank == holder else None)
        margins = [model.predict_margin(party, mine, method) for method in ("bins", "thresholds")]
        more = SecureXGBClassifier(**SHAPE).fit(party, mine, y if party.rank == holder else None, xgb_model=model)
        plain = reveal_model(party, model.model, holder)
        return margins, plain, model.feature_importance(party), more.predict(party, mine)

    margins, plain, importance, classes = run_both(job)[0][holder]
    assert np.array_equal(*margins) and np.mean((margins[0] > 0) == y) > 0.85
    assert np.abs(booster_margins(to_xgboost(plain), X, list(plain.names)) - margins[0]).max() < 1e-5
    assert importance.shape == (3,) and importance.sum() > 0 and np.mean(classes == y) > 0.85


def test_one_party_must_have_features():
    def job(party):
        SecureXGBRegressor(**SHAPE).fit(party, NONE, SIGNAL if party.rank == 0 else None)

    with pytest.raises(DataError, match="X: neither party has features"):
        run_both(job)
