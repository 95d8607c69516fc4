"""Counts: quality against XGBoost's count:poisson, held-out rows, the exported model, and bad labels."""

import numpy as np
import pytest
from sklearn import metrics

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBRegressor
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.exchange.xgboost import to_xgboost
from tests.secure_tree.exchange.test_plain_model import booster_margins
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import halves

xgboost = pytest.importorskip("xgboost")
COMMON = dict(
    objective="count:poisson", max_depth=3, learning_rate=0.3, max_bin=16, min_child_weight=1.0, base_score=1.0
)


def counts(n, seed, rate=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    return X, rng.poisson(rate * np.exp(0.7 * X[:, 0] - 0.5 * X[:, 1] * (X[:, 2] > 0))).astype(float)


def fit(tables, labels, weights=(None, None), held=(None, None), **parameters):
    def job(party):
        i = party.rank
        model = SecureXGBRegressor(**{"n_estimators": 10, **COMMON, **parameters})
        return model.fit(party, tables[i], labels[i], weights[i], eval_set=held[i])

    return run_both(job)[0]


def ask(models, question, rows):
    return np.concatenate(run_both(lambda party: getattr(models[party.rank], question)(party, rows[party.rank]))[0])


@pytest.mark.parametrize(
    ("rate", "weighted", "parameters"),
    [
        (1.0, False, {}),
        (40.0, False, {"base_score": 30.0}),
        (0.2, False, {"base_score": 0.2}),
        (2.0, True, {"partition": "vertical"}),
    ],
)
def test_quality_beside_xgboost(rate, weighted, parameters):
    (X, y), (fresh, truth) = counts(400, 81, rate), counts(400, 82, rate)
    weights = np.arange(400) % 3 + 0.5 if weighted else None
    by_rows = "partition" not in parameters
    tables, labels = halves(X, y, 180) if by_rows else columns(X, y, 2)
    models = fit(tables, labels, (weights, None) if weighted else (None, None), **parameters)
    predicted = ask(models, "predict", halves(fresh, truth, 100)[0] if by_rows else (fresh[:, :2], fresh[:, 2:]))
    theirs = {**COMMON, "tree_method": "hist", "base_score": parameters.get("base_score", 1.0)}
    booster = xgboost.train(theirs, xgboost.DMatrix(X, label=y, weight=weights), 10)
    reference = booster.predict(xgboost.DMatrix(fresh))
    ours, others, mean = (
        metrics.mean_poisson_deviance(truth, p) for p in (predicted, reference, np.full(400, y.mean()))
    )
    assert ours < mean and ours - others < 0.03 * mean, (ours, others, mean)


@pytest.mark.parametrize("metric", ["rmse", "mae"])
def test_held_out_rows(metric):
    (X, y), (fresh, truth) = counts(120, 83, 5.0), counts(80, 84, 5.0)
    tables, labels = halves(X, y, 50)
    rows = halves(fresh, truth, 30)
    models = fit(tables, labels, held=tuple(zip(*rows, strict=True)), n_estimators=4, eval_epochs=2, eval_metric=metric)
    evaluate = {"rmse": metrics.root_mean_squared_error, "mae": metrics.mean_absolute_error}[metric]
    assert abs(models[0].curve[-1][1] - evaluate(truth, ask(models, "predict", rows[0]))) < 1e-2


def test_the_exported_model():
    X, y = counts(120, 85, 7.0)
    models = fit(*halves(X, y, 50), n_estimators=5)
    (plain, _), _ = run_both(lambda party: reveal_model(party, models[party.rank].model, 0))
    fresh = counts(60, 86)[0]
    margins = ask(models, "predict_margin", (fresh[:20], fresh[20:]))
    thresholds = run_both(lambda p: models[p.rank].predict_margin(p, fresh if p.rank else fresh[:0], "thresholds"))[0][
        1
    ]
    assert np.abs(booster_margins(to_xgboost(plain), fresh, list(plain.names)) - thresholds).max() < 1e-4
    assert np.array_equal(ask(models, "predict", (fresh[:20], fresh[20:])), np.exp(margins))


def test_what_is_not_a_count():
    X, y = counts(40, 87)
    with pytest.raises(DataError, match="row 3: label must be at least 0 under count:poisson, got -2"):
        fit(*halves(X, np.where(np.arange(40) == 3, -2, y), 20))
    with pytest.raises(ConfigError, match="base_score must be a count above 0 under count:poisson, got 0"):
        SecureXGBRegressor(objective="count:poisson", base_score=0.0)
    with pytest.raises(ConfigError, match="eval_metric must suit count:poisson, got logloss"):
        SecureXGBRegressor(objective="count:poisson", eval_metric="logloss")
