"""multi:softprob: gradients, splits, base scores, metrics and log loss beside XGBoost's; its cost beside ova's."""

import json
import re

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError, RangeError
from mpc.words import decode_signed
from protocols.testing.two_parties import made_by_both, opened, ring_half, run_both
from secure_tree import SecureXGBClassifier
from secure_tree.exchange.plain_model import reveal_model, share_model
from secure_tree.exchange.xgboost import from_xgboost, to_xgboost
from secure_tree.public.config import TrainConfig
from secure_tree.public.numerics import MARGIN_SCALE, WEIGHT_INPUT_SCALE
from secure_tree.training.cost import Sizes, plan_training
from secure_tree.tree.gradients import Targets, softmax_gradients
from secure_tree.twin.losses import derivatives
from tests.secure_tree.exchange.test_plain_model import booster_margins
from tests.secure_tree.exchange.test_share import estimator_of
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_twin import check, halves

xgboost = pytest.importorskip("xgboost")
SOFTPROB = {"objective": "multi:softprob", "num_class": 3}
COMMON = {"n_estimators": 8, "max_depth": 3, "learning_rate": 0.3, "max_bin": 16, "min_split_loss": 0.0}


def rows(n, seed, classes=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    signal = X[:, 0] - 0.7 * X[:, 1] + 0.5 * rng.normal(size=n)
    return X, np.digitize(signal, np.linspace(-1.5, 1.5, classes - 1)).astype(float)


def fit(tables, labels, weights=(None, None), held=None, source=None, **parameters):
    def job(party):
        p = party.rank
        model = SecureXGBClassifier(**{**COMMON, **SOFTPROB, **parameters})
        return model.fit(party, tables[p], labels[p], weights[p], eval_set=held and held[p])

    return run_both(job, **({"source": source} if source else {}))[0]


def asked(models, name, tables):
    parts = [x for x in run_both(lambda p: getattr(models[p.rank], name)(p, tables[p.rank]))[0] if len(x)]
    return np.concatenate(parts)


def trained(X, y, rounds, weight=None, **parameters):
    theirs = {**COMMON, **SOFTPROB, "gamma": 0.0, "min_child_weight": 0.5, "tree_method": "hist", **parameters}
    for name in ("n_estimators", "min_split_loss"):
        theirs.pop(name, None)
    return xgboost.train(theirs, xgboost.DMatrix(X, y, weight=weight), rounds)


def logloss(margins, y):
    p = np.exp(margins - margins.max(axis=1, keepdims=True))
    return -np.log((p / p.sum(axis=1, keepdims=True))[np.arange(len(y)), y.astype(int)]).mean()


@pytest.mark.parametrize("weighted", [False, True])
def test_gradients(weighted):
    sizes = Sizes((1000, 1000), (("a",), ("a",)), largest_weight=4.0 if weighted else None)
    context = sizes.context(TrainConfig.of(**SOFTPROB))
    rng = np.random.default_rng(1)
    margin = rng.normal(size=(3, 4000)) * rng.choice([0.1, 2, 8], 4000)
    labels = (rng.integers(0, 3, 4000) == np.arange(3)[:, None]).astype(float)
    weights = rng.uniform(0, 1, 4000)

    def job(party):
        m = ring_half(np.round(margin * 2**MARGIN_SCALE), party.rank, scale=MARGIN_SCALE)
        w = ring_half(np.round(weights * 2**WEIGHT_INPUT_SCALE), party.rank, scale=WEIGHT_INPUT_SCALE)
        targets = Targets(ring_half(labels, party.rank), w if weighted else None)
        return party.run(softmax_gradients(party, context, targets, m))

    found = decode_signed(opened(run_both(job)[0]).astype(np.uint32)) / 2.0**context.numerics.histogram_scale
    exact = np.stack(derivatives(context.config, margin, labels), axis=1) * (weights if weighted else 1)
    unit = 2.0**-context.numerics.histogram_scale
    assert np.abs(found - exact).max() < 5 * unit + 6e-4
    assert np.abs((found - exact).mean(axis=(0, 2))).max() < 1e-4


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_held_out_metrics_beside_xgboost(partition):
    (X, y), (fresh, truth) = rows(600, 1), rows(400, 2)
    by_rows = partition == "horizontal"
    weights = None if by_rows else np.arange(600) % 3 + 0.5
    tables, labels = halves(X, y, 250) if by_rows else columns(X, y, 2)
    parts, truths = halves(fresh, truth, 150) if by_rows else columns(fresh, truth, 2)
    held = tuple(zip(parts, truths, strict=True))
    models = fit(
        tables,
        labels,
        (weights, None),
        held,
        partition=partition,
        eval_metric=["merror", "auc", "mlogloss"],
        edges="joint",
    )
    margins = asked(models, "predict_margin", parts)
    assert logloss(margins, truth) == pytest.approx(models[0].curves["logloss"][-1][1], abs=1e-3)
    named = {"error": "merror", "auc": "auc", "logloss": "mlogloss"}
    booster = xgboost.train({**SOFTPROB, "eval_metric": list(named.values()), "eta": 1e-9}, xgboost.DMatrix(X, y), 1)
    told = booster.eval(xgboost.DMatrix(fresh, truth, base_margin=margins.astype(np.float32)))
    values = {name.split("-", 1)[1]: float(value) for name, value in re.findall(r"(\S+):(\S+)", told)}
    for name, theirs in named.items():
        assert models[0].curves[name][-1][1] == pytest.approx(values[theirs], abs=2e-3)
    others = trained(X, y, COMMON["n_estimators"], weights).predict(xgboost.DMatrix(fresh), output_margin=True)
    assert logloss(margins, truth) == pytest.approx(logloss(others, truth), rel=0.05)
    p = asked(models, "predict_proba", parts)
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12 and (p.argmax(axis=1) == asked(models, "predict", parts)).all()


@pytest.mark.parametrize("classes", [3, 5])
def test_the_base_score_is_xgboosts(classes):
    X, y = rows(300, 3)
    weights = np.arange(300) % 4 + 0.25
    parameters = {**SOFTPROB, "num_class": classes}
    models = train_both(
        *halves(X, y, 120), weights=(weights[:120], weights[120:]), n_estimators=1, max_depth=1, **parameters
    )
    booster = xgboost.train(parameters, xgboost.DMatrix(X, y, weight=weights), 1)
    said = json.loads(booster.save_raw("json"))["learner"]["learner_model_param"]["base_score"]
    # With five classes, two have no row.
    assert models.base == pytest.approx(np.array(json.loads(said)), abs=6e-4)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"subsample": 0.7, "min_child_samples": 5}, {"reg_alpha": 0.5}, {"monotone_constraints": (1, 0, 0, 0)}],
)
def test_every_split_is_the_twins(parameters):
    X, y = rows(90, 4)
    training = train_both(*halves(X, y, 37), n_estimators=2, max_depth=2, max_bin=8, **SOFTPROB, **parameters)
    check(training, 2)
    # The gradients of a round are those of the margins at its start.
    if not parameters:
        before = np.repeat(training.base[:, None], 90, axis=1)
        g, h = derivatives(training.config, before, (y == np.arange(3)[:, None]).astype(float))
        unit = 2.0**-training.numerics.histogram_scale
        for seen, exact in zip(training.trees, zip(g, h, strict=True), strict=False):
            assert np.abs(seen.values * unit - np.stack(exact)).max() < 5 * unit + 5e-4


def test_every_split_is_the_twins_without_a_third_party():
    X, y = rows(90, 4)
    check(train_both(*halves(X, y, 37), source=made_by_both, n_estimators=2, max_depth=2, max_bin=8, **SOFTPROB), 2)


def test_with_workers_and_by_columns():
    X, y = rows(120, 5)
    check(train_both(*halves(X, y, 50), workers=2, n_estimators=2, max_depth=2, max_bin=8, **SOFTPROB), 2)
    training = train_both(*columns(X, y, 2), partition="vertical", n_estimators=2, max_depth=2, max_bin=8, **SOFTPROB)
    check(training, 2)


def test_out_of_and_into_xgboost():
    X, y = rows(200, 5)
    models = fit(*halves(X, y, 90))
    (plain, _), _ = run_both(lambda party: reveal_model(party, models[party.rank].model, 0))
    fresh = rows(60, 6)[0]
    parts = fresh[:20], fresh[20:]
    mine = np.concatenate(run_both(lambda p: models[p.rank].predict_margin(p, parts[p.rank], "thresholds"))[0])
    document = to_xgboost(plain)
    assert document["learner"]["objective"]["name"] == "multi:softprob"
    margins = booster_margins(document, fresh, list(plain.names))
    assert np.abs(margins - mine).max() < 1e-4
    again = from_xgboost(document, "the test")
    shared = run_both(lambda party: share_model(party, again if party.rank else None))[0]
    estimators = [estimator_of(half) for half in shared]
    found = run_both(lambda p: estimators[p.rank].predict_margin(p, parts[p.rank], "thresholds"))[0]
    assert np.abs(np.concatenate(found) - margins).max() < 1e-4


def test_contributions_add_up_to_margins():
    X, y = rows(200, 8)
    tables, labels = halves(X, y, 90)
    models = fit(tables, labels, n_estimators=3)
    numbers = run_both(lambda p: models[p.rank].contributions(p, tables[p.rank], show="numbers"))[0]
    margins = run_both(lambda p: models[p.rank].predict_margin(p, tables[p.rank]))[0]
    for told, own in zip(numbers, margins, strict=True):
        total = np.asarray(told.values).sum(axis=-1) + np.asarray(told.mean)
        assert np.abs(total - own).max() < 2e-3


def test_softmax_is_softprob_and_training_goes_on():
    X, y = rows(200, 7)
    tables, labels = halves(X, y, 90)
    before = fit(tables, labels, n_estimators=2, objective="multi:softmax")
    assert before[0].config.objective == "multi:softprob"

    def job(party):
        model = SecureXGBClassifier(**{**COMMON, **SOFTPROB, "n_estimators": 2})
        return model.fit(party, tables[party.rank], labels[party.rank], xgb_model=before[party.rank])

    margins = asked(run_both(job)[0], "predict_margin", tables)
    others = trained(X, y, 4).predict(xgboost.DMatrix(X), output_margin=True)
    assert logloss(margins, y) == pytest.approx(logloss(others, y), rel=0.05)


@pytest.mark.parametrize("dealer", [True, False])
def test_the_cost_beside_one_against_the_others(dealer):
    """A round of trees for 10 classes and 10,000 x 20 at depth 4."""
    plans = [
        plan_training(
            TrainConfig.of(objective=objective, num_class=10, n_estimators=1, max_depth=4),
            Sizes.numeric((5000, 5000), 20),
            dealer,
        )[1]
        for objective in ("multi:ova", "multi:softprob")
    ]
    assert [plan.rounds for plan in plans] == ([101, 120] if dealer else [113, 130])
    assert plans[1].sent < (1.40 if dealer else 1.41) * plans[0].sent


@pytest.mark.parametrize(
    ("labels", "parameters", "error", "sentence"),
    [
        (lambda y: np.where(np.arange(len(y)) == 3, -1, y), {}, DataError, "row 3: label must be one of 0 .. 2 under"),
        (lambda y: np.where(np.arange(len(y)) == 3, 1e9, y), {}, DataError, "row 3: label must be one of 0 .. 2 under"),
        (lambda y: np.where(np.arange(len(y)) == 3, 0.5, y), {}, DataError, "row 3: label must be one of 0 .. 2 under"),
        (lambda y: np.where(np.arange(len(y)) == 3, np.nan, y), {}, DataError, "row 3"),
        (lambda y: y, {"num_class": None}, ConfigError, "num_class must be set for multi:ova and multi:softprob"),
        (lambda y: y, {"num_class": 1}, ConfigError, "num_class must be at least 2, got 1"),
        (lambda y: y, {"reg_lambda": 0, "min_child_weight": 0}, RangeError, "reg_lambda or min_child_weight must be"),
        (lambda y: y, {"eval_metric": "ks"}, ConfigError, "eval_metric must suit multi:softprob, got ks"),
        (lambda y: y, {"base_score": np.nan}, ConfigError, "base_score must be a finite number, got nan"),
    ],
)
def test_what_does_not_suit(labels, parameters, error, sentence):
    X, y = rows(60, 10)
    with pytest.raises(error, match=sentence):
        fit(*halves(X, labels(y), 30), **parameters)


@pytest.mark.parametrize(
    ("labels", "parameters"),
    [
        (np.zeros_like, {}),
        (lambda y: np.full(len(y), 2.0), {}),
        (lambda y: (y > 1).astype(float), {}),
        (lambda y: y, {"base_score": 0.5}),
        (lambda y: y, {"base_score": -30.0}),
        (lambda y: y, {"num_class": 40, "n_estimators": 1}),
        (lambda y: (y > 1).astype(float), {"num_class": 2}),
        (lambda y: y, {"learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.01}),
        (lambda y: y, {"max_delta_step": 0.3}),
    ],
)
def test_odd_labels_and_parameters(labels, parameters):
    X, y = rows(200, 11)
    y = labels(y)
    tables, parts = halves(X, y, 90)
    asked_for = {"n_estimators": 3, "edges": "joint", **parameters}
    margins = asked(fit(tables, parts, **asked_for), "predict_margin", tables)
    theirs = {name: value for name, value in asked_for.items() if name not in ("n_estimators", "edges")}
    others = trained(X, y, asked_for["n_estimators"], **theirs).predict(xgboost.DMatrix(X), output_margin=True)
    assert logloss(margins, y) == pytest.approx(logloss(others, y), rel=0.06, abs=2e-3)


def test_one_row_and_no_weight():
    X, y = rows(2, 12)
    fit(*halves(X, y, 1), n_estimators=1)
    X, y = rows(40, 12)
    models = fit(*halves(X, y, 20), (np.zeros(20), np.zeros(20)), n_estimators=1)
    assert np.isfinite(asked(models, "predict_margin", halves(X, y, 20)[0])).all()
