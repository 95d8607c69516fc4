"""Offsets of margins (`base_margin`) beside XGBoost's, by objective and partition, and what is refused."""

import json

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError, SharewoodError
from protocols.testing.two_parties import made_by_both, run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.exchange.xgboost import to_xgboost
from tests.secure_tree.exchange.test_plain_model import booster_margins
from tests.secure_tree.test_layouts import columns
from tests.secure_tree.test_objectives import evaluate
from tests.secure_tree.test_twin import halves

xgboost = pytest.importorskip("xgboost")
COMMON = {"n_estimators": 6, "max_depth": 3, "learning_rate": 0.3, "max_bin": 16, "min_child_weight": 1.0}
CASES = {
    "binary:logistic": ({}, "logloss"),
    "multi:softprob": ({"num_class": 3}, "mlogloss"),
    "reg:squarederror": ({}, "rmse"),
    "reg:logistic": ({}, "logloss"),
    "count:poisson": ({}, "rmse"),
    "reg:gamma": ({}, "gamma-nloglik"),
    "reg:tweedie": ({"tweedie_variance_power": 1.4}, "tweedie-nloglik@1.4"),
    "reg:pseudohubererror": ({"huber_slope": 2.0}, "mphe"),
}


def rows(objective, n, seed):
    """Return features, labels and offsets; the latter have a signal of their own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    offset = rng.uniform(-1.5, 1.5, n)
    margin = offset + X[:, 0] - 0.5 * X[:, 1]
    match objective:
        case "binary:logistic":
            return X, (margin + rng.logistic(size=n) > 0).astype(float), offset
        case "multi:softprob":
            offset = rng.normal(size=(n, 3))
            away = offset + np.stack([X[:, 0], X[:, 1], -X[:, 0]], axis=1)
            return X, (away + rng.gumbel(size=(n, 3))).argmax(axis=1).astype(float), offset
        case "reg:logistic":
            return X, 1 / (1 + np.exp(-margin)), offset
        case "count:poisson":
            return X, rng.poisson(np.exp(margin)).astype(float), offset
        case "reg:gamma":
            return X, rng.gamma(2, np.exp(margin) / 2), offset
        case "reg:tweedie":
            return X, rng.gamma(2, np.exp(margin) / 2) * (rng.random(n) < 0.7), offset
    return X, 40 * offset + 3 * X[:, 0] + rng.normal(size=n), 40 * offset


def kind(objective):
    return SecureXGBClassifier if objective in ("binary:logistic", "multi:softprob") else SecureXGBRegressor


def trained(objective, X, y, offset, rounds=6, weight=None, **more):
    theirs = {**COMMON, "objective": objective, **CASES[objective][0], "tree_method": "hist", "gamma": 0.0, **more}
    theirs.pop("n_estimators")
    return xgboost.train(theirs, xgboost.DMatrix(X, y, weight=weight, base_margin=offset), rounds)


def fit(objective, tables, labels, offsets, weights=(None, None), held=None, source=None, **parameters):
    asked = {**COMMON, "objective": objective, **CASES[objective][0], "min_split_loss": 0.0, **parameters}

    def job(party):
        p = party.rank
        more = {} if held is None else {"eval_set": held[0][p], "base_margin_eval_set": held[1][p]}
        return kind(objective)(**asked).fit(party, tables[p], labels[p], weights[p], base_margin=offsets[p], **more)

    return run_both(job, **({"source": source} if source else {}))[0]


def margins_of(models, tables, offsets, method="bins"):
    each = run_both(lambda p: models[p.rank].predict_margin(p, tables[p.rank], method, base_margin=offsets[p.rank]))[0]
    return np.concatenate([x for x in each if len(x)])


@pytest.mark.parametrize("objective", CASES)
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_beside_xgboost(objective, partition):
    metric = CASES[objective][1]
    (X, y, o), (fresh, truth, of_fresh) = rows(objective, 500, 1), rows(objective, 300, 2)
    by_rows = partition == "horizontal"
    weights = None if by_rows else np.arange(500) % 3 + 0.5
    if by_rows:
        (tables, labels), offsets = halves(X, y, 200), (o[:200], o[200:])
        (parts, truths), of_parts = halves(fresh, truth, 150), (of_fresh[:150], of_fresh[150:])
    else:
        (tables, labels), offsets = columns(X, y, 2), (o, None)
        (parts, truths), of_parts = columns(fresh, truth, 2), (of_fresh, None)
    held = tuple(zip(parts, truths, strict=True)), of_parts
    names = {"mlogloss": "logloss"}
    named = names.get(metric, metric).split("@")[0]
    models = fit(
        objective, tables, labels, offsets, (weights, None), held, partition=partition, edges="joint", eval_metric=named
    )
    ours = margins_of(models, parts, of_parts)
    booster = trained(objective, X, y, o, weight=weights)
    others = booster.predict(xgboost.DMatrix(fresh, base_margin=of_fresh), output_margin=True)
    parameters = {"objective": objective, **CASES[objective][0]}
    if objective == "multi:softprob":

        def loss(m):
            p = np.exp(m - m.max(axis=1, keepdims=True))
            return -np.log((p / p.sum(axis=1, keepdims=True))[np.arange(len(m)), truth.astype(int)]).mean()
    else:

        def loss(m):
            return evaluate(parameters, [metric], xgboost.DMatrix(fresh, truth, base_margin=m))[metric]

    without = loss(booster.predict(xgboost.DMatrix(fresh), output_margin=True))
    assert loss(ours) == pytest.approx(loss(others), rel=0.05)
    assert models[0].curves[named][-1][1] == pytest.approx(loss(ours), rel=5e-3)
    # The offsets matter.
    assert abs(without - loss(others)) > 0.05 * abs(loss(others)) or objective == "reg:gamma"


@pytest.mark.parametrize("objective", ["multi:softprob", "count:poisson", "binary:logistic"])
def test_without_a_third_party_by_thresholds_and_exported(objective):
    X, y, o = rows(objective, 120, 3)
    (tables, labels), offsets = halves(X, y, 50), (o[:50], o[50:])
    models = fit(objective, tables, labels, offsets, source=made_by_both, n_estimators=2, max_depth=2)
    ours = margins_of(models, tables, offsets, "thresholds")
    (plain, _), _ = run_both(lambda party: reveal_model(party, models[party.rank].model, 0))
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(to_xgboost(plain)).encode()))
    theirs = booster.predict(xgboost.DMatrix(X, base_margin=o, feature_names=list(plain.names)), output_margin=True)
    assert np.abs(theirs - ours).max() < 1e-4
    assert np.abs(booster_margins(to_xgboost(plain), X, list(plain.names)) + o - ours).max() < 1e-4


@pytest.mark.parametrize(
    ("objective", "offset"),
    [
        ("reg:squarederror", lambda o: o + 1e6),
        ("reg:squarederror", lambda o: o * 1e6),
        ("reg:pseudohubererror", lambda o: o * 1e3),
        ("count:poisson", lambda o: o - 8),
        ("binary:logistic", lambda o: o * 300),
        ("multi:softprob", lambda o: o * 200),
        ("reg:tweedie", lambda o: o - 2),
    ],
)
def test_offsets_of_any_magnitude(objective, offset):
    X, y, o = rows(objective, 200, 4)
    o, y = offset(o), y + (offset(o) - o if objective.startswith("reg:s") or objective.startswith("reg:p") else 0)
    (tables, labels), offsets = halves(X, y, 90), (o[:90], o[90:])
    ours = margins_of(fit(objective, tables, labels, offsets, n_estimators=2, edges="joint"), tables, offsets) - o
    others = trained(objective, X, y, o, 2).predict(
        xgboost.DMatrix(X, base_margin=np.zeros_like(o)), output_margin=True
    )
    # XGBoost's margins are float32 numbers, offsets included.
    assert np.abs(ours - others).mean() < 0.15 * np.abs(others).max() + 1e-7 * np.abs(o).max() + 1e-3


@pytest.mark.parametrize(
    ("objective", "change", "error", "sentence"),
    [
        (
            "count:poisson",
            lambda o: o + 1e6,
            DataError,
            "row 0: an offset, a logarithm, as of an exposure, must be at most",
        ),
        ("reg:gamma", lambda o: o - 1e6, DataError, "row 0: an offset, a logarithm, .* under reg:gamma, got -1e\\+06"),
        ("reg:tweedie", lambda o: o - 50, SharewoodError, "sample_weight|y: .*label"),
        ("binary:logistic", lambda o: o + 1e6, DataError, "row 0: an offset must be at most 1000 in magnitude under"),
        ("multi:softprob", lambda o: o + 1e6, DataError, "row 0: an offset must be at most 1000 in magnitude under"),
        ("multi:softprob", lambda o: o[:, 0], DataError, r"base_margin: must have the shape \(90, 3\)"),
        ("binary:logistic", lambda o: o[:5], DataError, r"base_margin: must have the shape \(90,\), an offset of the"),
        ("reg:squarederror", lambda o: o * np.nan, DataError, "row 0: an offset must be a finite number under"),
        ("reg:pseudohubererror", lambda o: o + 1e9, DataError, "labels and base_score must be at most .* in"),
    ],
)
def test_offsets_that_do_not_suit(objective, change, error, sentence):
    X, y, o = rows(objective, 180, 5)
    tables, labels = halves(X, y, 90)
    with pytest.raises(error, match=sentence):
        fit(objective, tables, labels, (change(o[:90]), change(o[90:])), n_estimators=1)


def test_who_gives_offsets():
    X, y, o = rows("count:poisson", 60, 6)
    (tables, labels), offsets = halves(X, y, 30), (o[:30], o[30:])
    with pytest.raises(ConfigError, match="one party gives base_margin and the other does not: both must, or neither"):
        fit("count:poisson", tables, labels, (o[:30], None), n_estimators=1)
    with pytest.raises(DataError, match="base_margin must be given only at the party with the labels"):
        fit("count:poisson", *columns(X, y, 2), (None, o), n_estimators=1, partition="vertical")
    with pytest.raises(ConfigError, match="base_score must not be set with base_margin, which takes its place"):
        fit("count:poisson", tables, labels, offsets, n_estimators=1, base_score=1.0)
    with pytest.raises(ConfigError, match="base_margin and base_margin_eval_set must both be given with an eval_set"):
        held = tuple(zip(tables, labels, strict=True)), (None, None)
        fit("count:poisson", tables, labels, offsets, held=held, n_estimators=1)
    models = fit("count:poisson", tables, labels, offsets, n_estimators=1)
    with pytest.raises(ConfigError, match="the model was trained with base_margin: pass base_margin for the rows to"):
        margins_of(models, tables, (None, None))
    with pytest.raises(ConfigError, match="which only predictions of parties' own rows can have"):
        run_both(lambda party: models[party.rank].predict_for(party, {}))
    with pytest.raises(ConfigError, match="base_margin cannot be combined with xgb_model yet"):
        run_both(
            lambda p: SecureXGBRegressor(objective="count:poisson").fit(
                p, tables[p.rank], labels[p.rank], base_margin=offsets[p.rank], xgb_model=models[p.rank]
            )
        )
    plain = fit("count:poisson", tables, labels, (None, None), n_estimators=1)
    with pytest.raises(ConfigError, match="the model was trained without base_margin, and has a base score: leave"):
        margins_of(plain, tables, offsets)
