"""Feature importance against XGBoost's: for the exported model, and for XGBoost's training on the same rows."""

import json

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import run_both
from secure_tree.estimator import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.exchange.plain_model import reveal_model, share_model
from secure_tree.exchange.xgboost import to_xgboost
from secure_tree.prediction.importance import KINDS
from tests.secure_tree.exchange.test_share import estimator_of, plain_of, train
from tests.secure_tree.opened import train_both
from tests.secure_tree.public.test_sampling import three_classes
from tests.secure_tree.test_layouts import columns, with_holes
from tests.secure_tree.test_twin import halves, table

xgboost = pytest.importorskip("xgboost")


def exported(models):
    (plain, _), _ = run_both(lambda party: reveal_model(party, models[party.rank].model, 0))
    return xgboost.Booster(model_file=bytearray(json.dumps(to_xgboost(plain)).encode()))


def scores(booster, kind, names):
    found = booster.get_score(importance_type=kind)
    return np.array([found.get(name, 0.0) for name in names])


def importance(models, kind="weight"):
    (first, second), parties = run_both(lambda party: models[party.rank].feature_importance(party, kind))
    assert np.array_equal(first, second)
    return first, parties[0].revealed


@pytest.mark.parametrize(
    ("data", "parameters"),
    [
        ("halves", {"min_split_loss": 0.5}),
        ("halves", {"min_child_samples": 9}),
        ("halves", {"objective": "squarederror"}),
        ("holes", {"missing": "all", "subsample": 0.8}),
        ("columns", {"partition": "vertical"}),
        ("classes", {"objective": "multi:ova", "num_class": 3}),
        ("weights", {}),
        ("weights", {"edges": "joint"}),
    ],
)
def test_importance_is_that_of_the_exported_model(tmp_path, data, parameters):
    X, y = table(90, 4, seed=71)
    weights = (None, None)
    if data == "classes":
        X, y = three_classes(90, seed=71)
    elif data == "holes":
        X = with_holes(X, 0.2)
    elif data == "weights":
        weights = np.arange(40) % 5 + 0.5, np.full(50, 3.0)
    elif "objective" in parameters:
        y = (X[:, 0] - X[:, 2]) * 30 - 7
    tables, labels = columns(X, y, 2) if data == "columns" else halves(X, y, 40)
    if data == "columns":
        tables = pd.DataFrame(X[:, :2], columns=["a", "b"]), pd.DataFrame(X[:, 2:], columns=["c", "d"])
    asked = dict(n_estimators=3, max_depth=3, max_bin=8, learning_rate=0.5) | parameters
    estimator = SecureXGBRegressor if parameters.get("objective") == "squarederror" else SecureXGBClassifier

    def job(party):
        i = party.rank
        estimator(**asked).fit(party, tables[i], labels[i], weights[i]).save(tmp_path / f"{i}.json")

    run_both(job)
    models = [estimator.load(tmp_path / f"{rank}.json") for rank in (0, 1)]
    booster, names = exported(models), models[0].model.facts.names
    for kind in KINDS:
        ours, revealed = importance(models, kind)
        theirs = scores(booster, kind, names)
        assert np.abs(ours - theirs).max() < 1e-3 * max(1, theirs.max()), kind
        assert (ours > 0).sum() > 1 and len(revealed) == 1 + (kind in ("gain", "cover"))


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror", "count:poisson"])
def test_gains_and_covers_are_those_of_xgboosts_own_training(objective):
    X, y = table(200, 3, seed=72, levels=6)
    if objective != "binary:logistic":
        y = (
            9 * (X[:, 0] > 1) - 5 * (X[:, 1] > 3) + 3
            if objective == "reg:squarederror"
            else np.floor(np.exp(X[:, 0] - 1))
        )
    common = dict(objective=objective, max_depth=2, learning_rate=0.3, min_child_weight=1.0, base_score=0.5)
    training = train_both(
        *halves(X.astype(np.float32), y, 90), n_estimators=1, max_bin="exact", min_split_loss=0.0, **common
    )
    names = ["f0", "f1", "f2"]
    theirs = xgboost.train(
        {**common, "tree_method": "exact"}, xgboost.DMatrix(X.astype(np.float32), label=y, feature_names=names), 1
    )
    for kind in KINDS:
        expected = scores(theirs, kind, names)
        assert np.abs(importance(training.models, kind)[0] - expected).max() < 0.01 * expected.max(), kind
    rows = xgboost.DMatrix(X.astype(np.float32), feature_names=names)
    ours, reference = (booster.predict(rows, pred_contribs=True) for booster in (exported(training.models), theirs))
    assert np.abs(ours - reference).max() < 0.01 * np.abs(reference).max()


def test_both_ask_for_the_same():
    X, y = table(60, 3, seed=56)
    first, second = (train_both(*halves(X, y, 30), n_estimators=1).models for _ in range(2))
    with pytest.raises(ConfigError, match=r"disagree on kind: (weight|gain) here, (weight|gain) at the other"):
        run_both(lambda party: first[party.rank].feature_importance(party, ("weight", "gain")[party.rank]))
    with pytest.raises(DataError, match="different trainings"):
        run_both(lambda party: (first, second)[party.rank][party.rank].feature_importance(party))
    with pytest.raises(ConfigError, match="got 'fame'"):
        run_both(lambda party: first[party.rank].feature_importance(party, "fame"))


def test_a_model_that_was_brought_in_has_weights_alone():
    booster = train("binary:logistic", rounds=2, max_depth=2)
    plain = plain_of(booster)

    def job(party):
        model = estimator_of(share_model(party, plain if party.rank == 0 else None))
        weight = model.feature_importance(party)
        with pytest.raises(DataError, match="no gains and covers"):
            model.feature_importance(party, "gain")
        return weight

    (weight, _), _ = run_both(job)
    assert np.array_equal(weight, scores(booster, "weight", ["f0", "f1", "f2", "f3"]))
