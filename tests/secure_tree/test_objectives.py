"""Objectives of numbers: their metrics beside XGBoost's, exported models, continued trainings, and odd labels."""

import json
import re

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError, RangeError
from protocols.testing.two_parties import made_by_both, run_both
from secure_tree.exchange.plain_model import reveal_model, share_model
from secure_tree.exchange.xgboost import from_xgboost, to_xgboost
from tests.secure_tree.exchange.test_plain_model import booster_margins
from tests.secure_tree.exchange.test_share import estimator_of
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_counts import ask, fit
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import check, halves, positive

xgboost = pytest.importorskip("xgboost")
COMMON = {"n_estimators": 8, "max_depth": 3, "learning_rate": 0.3, "max_bin": 16, "base_score": None}
GAMMA = {"objective": "reg:gamma"}
TWEEDIE = {"objective": "reg:tweedie", "tweedie_variance_power": 1.4}
SOFT = {"objective": "reg:logistic"}
# With few rows and small hessians, a leaf of either implementation overshoots.
HUBER = {"objective": "reg:pseudohubererror", "huber_slope": 2.5, "min_child_weight": 5}
OBJECTIVES = [GAMMA, TWEEDIE, SOFT, HUBER]
# Metrics by XGBoost's names.
METRICS = {
    "reg:logistic": ["rmse", "mae", "logloss"],
    "reg:gamma": ["gamma-deviance", "gamma-nloglik"],
    "reg:tweedie": ["tweedie-nloglik@1.4"],
    "reg:pseudohubererror": ["mphe"],
}
LINKS = {
    "reg:gamma": np.exp,
    "reg:tweedie": np.exp,
    "reg:logistic": lambda m: 1 / (1 + np.exp(-m)),
    "reg:pseudohubererror": lambda m: m,
}


def rows(parameters, n, seed):
    X = np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)
    if parameters["objective"] == "reg:logistic":
        noise = np.random.default_rng(seed + 100).normal(size=n)
        return X, np.clip(0.4 + 0.3 * X[:, 0] - 0.2 * X[:, 1] + 0.1 * noise, 0, 1)
    if parameters["objective"] == "reg:pseudohubererror":
        # Heavy tails: one of 20 rows is far off.
        noise = np.random.default_rng(seed + 100).standard_t(1.5, size=n)
        return X, 5 + 4 * X[:, 0] - 2 * X[:, 1] + noise
    return X, positive(X, seed, zeros=parameters["objective"] == "reg:tweedie")


def trained(parameters, X, y, rounds, weight=None, **more):
    """Train XGBoost alike."""
    theirs = {**COMMON, **parameters, "tree_method": "hist"}
    for name in ("n_estimators", *(["base_score"] if theirs["base_score"] is None else [])):
        theirs.pop(name)
    return xgboost.train(theirs, xgboost.DMatrix(X, y, weight=weight), rounds, **more)


def evaluate(parameters, metrics, data):
    """Evaluate margins, which are those of the rows, by XGBoost's metrics."""
    booster = xgboost.Booster({**parameters, "base_score": 0.5, "eval_metric": metrics}, [data])
    return {name.split("-", 1)[1]: float(value) for name, value in re.findall(r"(\S+):(\S+)", booster.eval(data))}


@pytest.mark.parametrize("parameters", OBJECTIVES, ids=str)
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_held_out_metrics_beside_xgboost(parameters, partition):
    (X, y), (fresh, truth) = rows(parameters, 500, 1), rows(parameters, 4000, 2)
    by_rows, named = partition == "horizontal", METRICS[parameters["objective"]]
    weights = None if by_rows else np.arange(500) % 3 + 0.5
    tables, labels = halves(X, y, 200) if by_rows else columns(X, y, 2)
    parts, truths = halves(fresh, truth, 150) if by_rows else columns(fresh, truth, 2)
    held = tuple(zip(parts, truths, strict=True))
    asked = {**COMMON, **parameters, "partition": partition, "eval_metric": named}
    models = fit(tables, labels, (weights, None), held, **asked)
    assert models[0].curves == models[1].curves
    margins, predicted = ask(models, "predict_margin", parts), ask(models, "predict", parts)
    booster = trained(parameters, X, y, COMMON["n_estimators"], weights)
    others = booster.predict(xgboost.DMatrix(fresh), output_margin=True)
    of_ours, of_others = (
        evaluate(parameters, named, xgboost.DMatrix(fresh, truth, base_margin=m)) for m in (margins, others)
    )
    for name in named:
        _, value = models[0].curves[name.split("@")[0]][-1]
        assert value == pytest.approx(of_ours[name], rel=2e-3)
        assert value == pytest.approx(of_others[name], rel=0.06)
    assert predicted == pytest.approx(LINKS[parameters["objective"]](margins))


@pytest.mark.parametrize("parameters", OBJECTIVES, ids=str)
def test_the_base_score_is_xgboosts(parameters):
    X, y = rows(parameters, 300, 3)
    weights = np.arange(300) % 4 + 0.25
    models = train_both(
        *halves(X, y, 120), weights=(weights[:120], weights[120:]), n_estimators=1, max_depth=1, **parameters
    )
    booster = xgboost.train(parameters, xgboost.DMatrix(X, y, weight=weights), 1)
    said = json.loads(booster.save_raw("json"))["learner"]["learner_model_param"]["base_score"]
    link = {"reg:logistic": lambda p: np.log(p / (1 - p)), "reg:pseudohubererror": lambda m: m}.get(
        parameters["objective"], np.log
    )
    base = models.base[0] * models.facts.margin_unit
    assert base == pytest.approx(link(float(said.strip("[]"))), abs=5e-4)


@pytest.mark.parametrize("parameters", OBJECTIVES, ids=str)
def test_every_split_is_the_twins_without_a_third_party(parameters):
    X, y = rows(parameters, 90, 4)
    check(train_both(*halves(X, y, 37), source=made_by_both, n_estimators=2, max_depth=2, max_bin=8, **parameters), 2)


@pytest.mark.parametrize("parameters", OBJECTIVES, ids=str)
def test_out_of_and_into_xgboost(parameters):
    X, y = rows(parameters, 200, 5)
    models = fit(*halves(X, y, 90), **{**COMMON, **parameters})
    (plain, _), _ = run_both(lambda party: reveal_model(party, models[party.rank].model, 0))
    fresh = rows(parameters, 60, 6)[0]
    parts = fresh[:20], fresh[20:]
    asked = run_both(lambda p: models[p.rank].predict_margin(p, parts[p.rank], "thresholds"))[0]
    document = to_xgboost(plain)
    margins = booster_margins(document, fresh, list(plain.names))
    assert np.abs(margins - np.concatenate(asked)).max() < 1e-4 * models[0].model.facts.margin_unit
    again = from_xgboost(document, "the test")
    assert again.objective == {"reg:logistic": "binary:logistic"}.get(*2 * (parameters["objective"],))
    shared = run_both(lambda party: share_model(party, again if party.rank else None))[0]

    def predict(party):
        estimator = estimator_of(shared[party.rank])
        return estimator.predict_margin(party, parts[party.rank], "thresholds")

    assert np.abs(np.concatenate(run_both(predict)[0]) - margins).max() < 1e-4 * models[0].model.facts.margin_unit


@pytest.mark.parametrize("parameters", OBJECTIVES, ids=str)
def test_training_goes_on_with_larger_labels(parameters):
    X, y = rows(parameters, 200, 7)
    asked = {**COMMON, **parameters, "n_estimators": 3}
    before = fit(*halves(X, y, 90), **asked)
    more = np.where(np.arange(200) == 50, (1 if parameters is SOFT else 3) * y.max(), y)
    tables, labels = halves(X, more, 90)

    def job(party):
        model = type(before[0])(**asked)
        return model.fit(party, tables[party.rank], labels[party.rank], xgb_model=before[party.rank])

    after = run_both(job)[0]
    booster = trained(parameters, X, more, 3, xgb_model=trained(parameters, X, y, 3))
    ours, others = ask(after, "predict_margin", tables), booster.predict(xgboost.DMatrix(X), output_margin=True)
    metric = METRICS[parameters["objective"]][-1]
    first, second = (
        evaluate(parameters, [metric], xgboost.DMatrix(X, more, base_margin=m))[metric] for m in (ours, others)
    )
    assert first == pytest.approx(second, rel=0.03)


def odd(y, value, at=3):
    return np.where(np.arange(len(y)) == at, value, y)


@pytest.mark.parametrize(
    ("parameters", "change", "sentence"),
    [
        (GAMMA, lambda y: odd(y, 0), "row 3: label must be above 0 under reg:gamma, got 0"),
        (GAMMA, lambda y: odd(y, -1), "row 3: label must be above 0 under reg:gamma, got -1"),
        (TWEEDIE, lambda y: odd(y, -1e-9), "row 3: label must be at least 0 under reg:tweedie, got -1e-09"),
        (GAMMA, lambda y: odd(y, np.nan), "row 3"),
        (SOFT, lambda y: odd(y, -1e-9), "row 3: label must be between 0 and 1 under reg:logistic, got -1e-09"),
        (SOFT, lambda y: odd(y, 1e9), "row 3: label must be between 0 and 1 under reg:logistic, got 1e\\+09"),
        (GAMMA, lambda y: odd(y / 1e3, 1e9), "y: the largest label must be at most .*, since the mean of this"),
        (TWEEDIE, lambda y: odd(y / 1e3, 1e9), "y: the largest label must be at most .*: clip it"),
        (HUBER, lambda y: odd(y, np.inf), "row 3"),
        (HUBER, lambda y: odd(y, 1e9), "row 3: labels and base_score must be at most 1.31072e\\+06 in magnitude with"),
        (HUBER, lambda y: y + 1e5, "base_score must be set, for example to the median of the labels: half of this"),
        (HUBER, lambda y: y / 1e9, "huber_slope must be at most .*, since half of this party's labels are within"),
        (GAMMA, lambda y: y * 1e30, "the largest label must be between 1e-30 and 1e\\+30"),
        ({**GAMMA, "base_score": 0.5}, lambda y: y, "the largest label must be at most 1024, since base_score is 0.5"),
    ],
)
def test_labels_that_do_not_suit(parameters, change, sentence):
    X, y = rows(parameters, 400, 8)
    with pytest.raises(DataError, match=sentence):
        fit(*halves(X, change(y), 200), **{**COMMON, "n_estimators": 1, **parameters})


@pytest.mark.parametrize(
    ("parameters", "labels"),
    [
        (GAMMA, lambda y: y * 1e6),
        (GAMMA, lambda y: y * 1e-20),
        (GAMMA, lambda y: np.full(len(y), 7.0)),
        (GAMMA, lambda y: odd(y, 1e-37)),
        (TWEEDIE, lambda y: y * 1e6),
        (TWEEDIE, lambda y: y * 1e-6),
        (TWEEDIE, lambda y: np.full(len(y), 7.0)),
        (HUBER, lambda y: odd(y, 1e6)),
        (HUBER, lambda y: odd(y, -1e6)),
        (HUBER, np.zeros_like),
        (HUBER, lambda y: np.full(len(y), 7.0)),
        ({**HUBER, "base_score": 1e5 + 5}, lambda y: y + 1e5),
        ({**HUBER, "huber_slope": 1e-3, "base_score": 5.0}, lambda y: y),
        ({**HUBER, "huber_slope": 1e3, "learning_rate": 0.1}, lambda y: y),
        (SOFT, np.zeros_like),
        (SOFT, np.ones_like),
        (SOFT, np.round),
    ],
)
def test_labels_of_any_magnitude(parameters, labels):
    X, y = rows(parameters, 300, 9)
    y = labels(y)
    tables, parts = halves(X, y, 100)
    models = fit(tables, parts, **{**COMMON, **parameters, "n_estimators": 3})
    margins = ask(models, "predict_margin", tables)
    others = trained(parameters, X, y, 3).predict(xgboost.DMatrix(X), output_margin=True)
    metric = METRICS[parameters["objective"]][-1]
    ours, theirs = (
        evaluate(parameters, [metric], xgboost.DMatrix(X, y, base_margin=m))[metric] for m in (margins, others)
    )
    assert ours == pytest.approx(theirs, rel=0.03, abs=0.03)


def test_no_label_above_zero():
    X, _ = rows(TWEEDIE, 60, 10)
    predicted = ask(fit(*halves(X, np.zeros(60), 30), **{**COMMON, **TWEEDIE}), "predict", halves(X, X[:, 0], 30)[0])
    assert (predicted < 1e-5).all()


def test_owners_cannot_contribute_yet():
    tables, labels = halves(*rows(GAMMA, 20, 12), 10)
    with pytest.raises(ConfigError, match="owners cannot contribute under reg:gamma yet: use binary:logistic, multi:"):
        train_both(tables, labels, given=lambda rank: {"a clinic": None}, n_estimators=1, **GAMMA)


def test_parameters_that_do_not_suit():
    for parameters, sentence in (
        ({**GAMMA, "base_score": 0.0}, "base_score must be a number above 0 under reg:gamma, got 0"),
        ({**GAMMA, "eval_metric": "rmse"}, "eval_metric must suit reg:gamma, got rmse"),
        ({**TWEEDIE, "tweedie_variance_power": 2.0}, "tweedie_variance_power must be at most 1.999, got 2"),
        ({**TWEEDIE, "tweedie_variance_power": 1.0}, "tweedie_variance_power must be at least 1.001, got 1"),
        ({**GAMMA, "scale_pos_weight": 2.0}, "scale_pos_weight must be 1 under reg:gamma"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            fit(*halves(*rows(GAMMA, 20, 11), 10), **{**COMMON, **parameters})
    with pytest.raises(RangeError, match="reg_lambda or min_child_weight must be above 0 under reg:gamma, got 0"):
        fit(*halves(*rows(GAMMA, 20, 11), 10), **{**COMMON, **GAMMA, "reg_lambda": 0, "min_child_weight": 0})
