"""Vertical data and missing values: every split is the twin's; both methods of prediction; quality; errors."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mpc.errors import ConfigError, DataError
from protocols.runtime import run_local
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from tests.secure_tree.conftest import read_joined
from tests.secure_tree.opened import train_both
from tests.secure_tree.prediction.test_predict import twin_of
from tests.secure_tree.test_twin import check, halves, table


def columns(X, y, cut, holder=0):
    """Divide X by columns, with the labels at one party."""
    return (X[:, :cut], X[:, cut:]), (y, None) if holder == 0 else (None, y)


def with_holes(X, share, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def predict(training, rows, **how):
    return run_both(lambda party: training.models[party.rank].predict_margin(party, rows[party.rank], **how))


@pytest.mark.parametrize(
    ("cut", "holder", "parameters"),
    [
        (2, 0, {"max_depth": 3, "max_bin": 8}),
        (1, 1, {"max_depth": 2, "max_bin": 16, "min_child_samples": 9}),
        (3, 1, {"max_depth": 2, "max_bin": "exact", "min_child_weight": 0.0}),
        (1, 0, {"max_depth": 3, "max_bin": 8, "objective": "squarederror", "reg_alpha": 3.0}),
    ],
)
def test_columns(cut, holder, parameters):
    X, y = table(70, 4, seed=21)
    y = y if "objective" not in parameters else (X[:, 0] - X[:, 1]) * 30 - 7
    data = columns(X, y, cut, holder)
    training = train_both(*data, partition="vertical", n_estimators=3, learning_rate=0.3, **parameters)
    used = check(training, 3)
    features = training.data.candidates.features
    assert {bool(features[w] < cut) for w in used if w < len(features)} == {False, True}, (
        "both parties' features are used"
    )
    fresh, _ = table(30, 4, seed=22)
    for method in ("bins", "thresholds"):
        results, parties = predict(training, (fresh[:, :cut], fresh[:, cut:]), method=method)
        expected = twin_of(training).predict_margin(fresh) if training.config.logistic else None
        assert results[1 - holder].shape == (0,) and parties[1 - holder].revealed == []
        assert expected is None or np.abs(results[holder] - expected).max() < 1e-3


def test_predictions_go_to_the_party_that_is_named():
    X, y = table(40, 2, seed=23)
    training = train_both(*columns(X, y, 1), partition="vertical", n_estimators=2, max_bin=8)
    (first, second), _ = predict(training, (X[:, :1], X[:, 1:]), to=1)
    assert first.shape == (0,) and np.abs(second - training.trees[-1].margins).max() < 1e-5
    with pytest.raises(ConfigError, match="`to` must be 0 or 1 for vertical data"):
        predict(training, (X[:, :1], X[:, 1:]), to=2)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"missing": "all", "max_depth": 3, "max_bin": 8},
        {"missing": ("f0",), "max_depth": 3, "max_bin": 8, "min_child_samples": 5},
        {"missing": "all", "max_depth": 2, "max_bin": "exact", "min_child_weight": 0.1},
    ],
)
def test_missing_values(partition, parameters):
    X, y = table(70, 4, seed=24)
    # For vertical data, both parties call their first feature f0.
    some = [0, 1, 2, 3] if parameters["missing"] == "all" else [0] if partition == "horizontal" else [0, 2]
    X[:, some] = with_holes(X, 0.3)[:, some]
    y[np.isnan(X[:, 0])] = 0  # as if the first feature were small, so that sending its missing values left has a gain
    data = halves(X, y, 30) if partition == "horizontal" else columns(X, y, 2)
    training = train_both(*data, partition=partition, n_estimators=3, learning_rate=0.3, **parameters)
    used = check(training, 3)
    candidates = training.data.candidates
    splits = [w for w in used if w < len(candidates.thresholds)]
    assert any(candidates.missing_left[w] for w in splits) and not all(candidates.missing_left[w] for w in splits)
    fresh = with_holes(table(40, 4, seed=25)[0], 0.3, seed=1)
    fresh[:, [f for f in range(4) if f not in some]] = 0.0
    rows = (fresh[:15], fresh[15:]) if partition == "horizontal" else (fresh[:, :2], fresh[:, 2:])
    results, _ = predict(training, rows, method="thresholds")
    assert np.abs(np.concatenate(results) - twin_of(training).predict_margin(fresh)).max() < 1e-3
    results, _ = predict(training, data[0])
    assert np.abs(np.concatenate(results) - training.trees[-1].margins).max() < 1e-5


def test_the_wire_does_not_depend_on_the_data():
    def traffic(X, y):
        training = train_both(
            *columns(X, y, 2), n_estimators=2, max_depth=2, max_bin=8, partition="vertical", missing="all",
            subsample=0.5, colsample_bytree=0.5,
        )  # fmt: skip
        return [(p.meter.total, {name: vars(t) for name, t in p.meter.by_protocol.items()}) for p in training.parties]

    X, y = table(50, 4, seed=27)
    assert traffic(with_holes(X, 0.5), y) == traffic(np.zeros((50, 4)), np.ones(50))


def test_a_feature_that_is_missing_throughout():
    X, y = table(40, 3, seed=26)
    X[:20, 1] = np.nan
    check(train_both(*halves(X, y, 20), n_estimators=2, max_bin=8, missing="all"), 2)


@pytest.mark.parametrize(
    ("tables", "labels", "parameters", "sentence"),
    [
        ((np.ones((4, 1)), np.ones((5, 1))), (np.ones(4), None), {}, "4|5 rows"),
        ((np.ones((4, 1)), np.ones((4, 1))), (None, None), {}, "neither party has labels"),
        ((np.ones((4, 1)), np.ones((4, 1))), (np.ones(4), np.ones(4)), {}, "both parties have labels"),
        ((np.ones((4, 1)), np.ones((4, 1))), (np.ones(4), None), {"partition": "horizontal"}, "y must be given"),
        ((np.ones((4, 1)), np.full((4, 1), np.nan)), (np.ones(4), None), {}, "value is missing"),
        ((np.ones((4, 1)), np.full((4, 1), np.inf)), (np.ones(4), None), {"missing": "all"}, "value is infinite"),
    ],
)
def test_bad_tables(tables, labels, parameters, sentence):
    def job(party):
        estimator = SecureXGBClassifier(**{"partition": "vertical", "n_estimators": 1, **parameters})
        estimator.fit(party, tables[party.rank], labels[party.rank])

    with pytest.raises(DataError, match=sentence):
        run_both(job)


def test_a_missing_feature_that_nobody_has():
    with pytest.raises(ConfigError, match="no party has a feature 'age'"):
        train_both((np.ones((4, 1)),) * 2, (np.ones(4),) * 2, missing=("age",))


def auc_beside_xgboost(tables, X, y, **parameters):
    """Return the AUC on the training rows: ours by bins, and XGBoost's on the joined table."""
    import xgboost

    common = dict(max_depth=4, learning_rate=0.3, max_bin=32, min_child_weight=1.0, reg_lambda=1.0)

    def job(party):
        model = SecureXGBClassifier(n_estimators=20, min_split_loss=0.0, **common, **parameters)
        model.fit(party, *tables[party.rank])
        return model.predict_margin(party, tables[party.rank][0])

    ours = np.concatenate(run_local(job))
    booster = xgboost.train(
        dict(objective="binary:logistic", tree_method="hist", base_score=0.5, **common), xgboost.DMatrix(X, label=y), 20
    )
    return roc_auc_score(y, ours), roc_auc_score(y, booster.predict(xgboost.DMatrix(X)))


@pytest.mark.long
def test_quality_with_missing_values():
    own, foreign, y = read_joined("default_credit")
    X = with_holes(np.concatenate([own, foreign], axis=1), 0.1)
    half = len(y) // 2
    ours, theirs = auc_beside_xgboost(((X[:half], y[:half]), (X[half:], y[half:])), X, y, missing="all")
    assert abs(ours - theirs) < 0.005, f"{ours} beside {theirs}"


@pytest.mark.parametrize("name", ["breast", pytest.param("default_credit", marks=pytest.mark.long)])
def test_quality_by_columns(name):
    own, foreign, y = read_joined(name)
    tables = (own, y), (foreign, None)
    X = np.concatenate([own, foreign], axis=1)
    ours, theirs = auc_beside_xgboost(tables, X, y, partition="vertical")
    assert abs(ours - theirs) < 0.003, f"{ours} beside {theirs}"
