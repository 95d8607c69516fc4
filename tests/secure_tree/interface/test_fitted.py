"""What users of scikit-learn and XGBoost ask of a fitted estimator."""

import numpy as np
import pandas as pd
import pytest

import sharewood
from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.exchange.xgboost import to_xgboost
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_twin import halves, table

xgboost = pytest.importorskip("xgboost")


def test_names_classes_and_evaluations_of_early_stopping():
    X, y = table(80, 3, seed=5)
    frames = [
        pd.DataFrame(half, columns=["age", "income", "debt"]).assign(
            colour=pd.Categorical(np.arange(len(half)) % 2, categories=[0, 1]).rename_categories(["red", "blue"])
        )
        for half in halves(X, y, 40)[0]
    ]
    asked = dict(n_estimators=12, eval_epochs=1, early_stopping_rounds=2, test_size=0.25, max_depth=2)
    metrics = ["logloss", "error"]

    def job(party):
        labels = halves(X, y, 40)[1][party.rank]
        model = SecureXGBClassifier(**asked, eval_metric=metrics).fit(party, frames[party.rank], labels)
        model.feature_importance(party, "gain")
        return model

    (model, other), _ = run_both(job)
    assert list(model.feature_names_in_) == ["age", "income", "debt", "colour"] and model.n_features_in_ == 4
    assert list(model.classes_) == [0, 1]
    found = model.evals_result()["validation_0"]
    assert list(found) == metrics and all(len(found[m]) == len(model.curve) for m in metrics)
    assert found["error"] == [value for _, value in model.curve]
    best = int(np.argmin(found["error"]))
    assert model.best_iteration == best == model.model.rounds - 1 and model.best_score == found["error"][best]
    importances = model.feature_importances_
    assert list(importances.index) == ["age", "income", "debt", "colour=red", "colour=blue"]
    assert importances.sum() == pytest.approx(1) and importances.equals(other.feature_importances_)
    assert "feature_importances_" in dir(model)


def test_importances_are_those_of_xgboost_on_the_exported_model():
    X, y = table(90, 3, seed=6)
    training = train_both(*halves(X, y, 45), n_estimators=3)

    def job(party):
        own = training.models[party.rank]
        own.feature_importance(party, "gain")
        return own.feature_importances_, reveal_model(party, own.model, 0)

    ((importances, plain), _), _ = run_both(job)
    import json

    booster = xgboost.Booster(model_file=bytearray(json.dumps(to_xgboost(plain)).encode()))
    theirs = pd.Series(booster.get_score(importance_type="gain")).reindex(importances.index).fillna(0.0)
    assert np.allclose(importances, theirs / theirs.sum(), rtol=1e-5)


def test_columns_of_one_party_of_vertical_data():
    X, y = table(40, 4, seed=7)
    tables = [X[:, :1], X[:, 1:]]
    training = train_both(tables, [y, None], partition="vertical", n_estimators=1)
    assert [list(m.feature_names_in_) for m in training.models] == [["f0"], ["f0", "f1", "f2"]]


@pytest.mark.parametrize(
    "name", ["feature_names_in_", "n_features_in_", "classes_", "best_iteration", "best_score", "feature_importances_"]
)
def test_no_attribute_before_it_is_known(name):
    assert not hasattr(SecureXGBClassifier(), name)
    X, y = table(40, 2, seed=8)
    model = (
        train_both(*halves(X, y, 20), n_estimators=1).models[0] if name.startswith(("best", "feature_imp")) else None
    )
    assert model is None or not hasattr(model, name)


def test_no_evaluations_without_held_out_rows():
    with pytest.raises(DataError, match="not fitted"):
        SecureXGBRegressor().evals_result()
    X, y = table(40, 2, seed=9)
    with pytest.raises(DataError, match="fit with an eval_set, or with test_size"):
        train_both(*halves(X, y, 20), n_estimators=1).models[0].evals_result()


def test_completion_offers_the_public_names():
    assert dir(sharewood) == sorted(sharewood.__all__) and "run_local" in dir(sharewood)


@pytest.mark.parametrize(
    ("verbose", "held_out", "rounds"),
    [(True, 0.25, [2, 4, 6, 7]), (True, 0.0, [1, 2, 3, 4, 5, 6, 7]), (3, 0.25, [3, 6, 7])],
)
def test_a_training_prints_its_rounds_and_metrics(capfd, verbose, held_out, rounds):
    X, y = table(60, 2, seed=10)
    seen = []

    def job(party):
        own = halves(X, y, 30)
        model = SecureXGBClassifier(n_estimators=7, max_depth=1, max_bin=4, eval_epochs=2, test_size=held_out)
        model.fit(
            party,
            own[0][party.rank],
            own[1][party.rank],
            verbose=verbose if party.rank == 0 else False,
            observer=lambda number, *_: seen.append(number),
        )
        return dict(model.curve)

    (curve, _), _ = run_both(job)
    lines = capfd.readouterr().out.splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["party 0", f"[{number}]"] for number in rounds]
    for number, line in zip(rounds, lines, strict=True):
        assert ("logloss" in line) == (number in curve)
        assert number not in curve or f"\tlogloss:{curve[number]:.5f}\t" in line
    assert sorted(seen) == sorted([*range(7)] * 2)


@pytest.mark.parametrize("verbose", [-1, 2.5, "yes"])
def test_an_odd_verbose_is_refused(verbose):
    with pytest.raises(ConfigError, match=f"verbose must be True, False or a number of rounds, got {verbose!r}"):
        run_both(lambda party: SecureXGBClassifier().fit(party, np.ones((4, 2)), np.ones(4), verbose=verbose))


def test_columns_of_a_frame_may_be_in_another_order():
    X, y = table(40, 3, seed=12)
    frames = [pd.DataFrame(half, columns=["age", "income", "debt"]) for half in halves(X, y, 20)[0]]

    def job(party):
        own, labels = frames[party.rank], halves(X, y, 20)[1][party.rank]
        model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=4).fit(party, own, labels)
        turned = own[["debt", "age", "income"]] if party.rank else own
        return model.predict_margin(party, own), model.predict_margin(party, turned)

    for expected, turned in run_both(job)[0]:
        assert np.array_equal(expected, turned)
