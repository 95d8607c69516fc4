"""Models out of shares and into them, against xgboost.Booster."""

import json

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError
from secure_tree.estimator import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.exchange import NO_SPLIT, PlainModel, reveal_model, share_model
from secure_tree.xgboost_json import from_xgboost, to_xgboost
from tests.mpc.twoparty import run_both
from tests.secure_tree.test_layouts import columns, with_holes
from tests.secure_tree.test_predict import predict_both
from tests.secure_tree.test_twin import halves, table
from tests.secure_tree.training import train_both

xgboost = pytest.importorskip("xgboost")


def booster_margins(document, X, names=None):
    booster = xgboost.Booster(model_file=bytearray(json.dumps(document).encode()))
    return booster.predict(xgboost.DMatrix(X, feature_names=names), output_margin=True)


def rows_around(training, count, seed):
    """Rows of anybody's, and rows that lie on edges, where < and <= differ."""
    edges = training.data.bins[0].edges
    on_edges = np.random.default_rng(seed).choice(edges.T, size=count)
    anywhere = np.random.default_rng(seed).normal(size=(count, len(edges))) * 2
    return np.concatenate([on_edges, anywhere]).astype(np.float32)


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror"])
@pytest.mark.parametrize(("depth", "min_child_weight"), [(1, 0.5), (4, 0.5), (3, 40.0)])
def test_a_revealed_model_in_xgboost(objective, depth, min_child_weight):
    X, y = table(80, 3, seed=31)
    y = y if objective == "binary:logistic" else 7 * X[:, 0] - X[:, 1] + 3
    common = dict(n_estimators=4, max_depth=depth, max_bin=8, learning_rate=0.5, min_child_weight=min_child_weight)
    training = train_both(*halves(X, y, 30), objective=objective, **common)
    (plain, nothing), parties = run_both(lambda p: reveal_model(p, training.models[p.rank].model, 0))
    assert nothing is None and [len(p.revealed) for p in parties] == [1, 0]
    fresh = rows_around(training, 40, seed=5)
    ours = np.concatenate(predict_both(training.models, (fresh[:9], fresh[9:]), "thresholds"))
    theirs = booster_margins(to_xgboost(plain), fresh, list(plain.names))
    assert np.abs(ours - theirs).max() < 1e-4
    if min_child_weight == 40:
        assert (plain.features == NO_SPLIT).any()


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_missing_values_in_xgboost(partition):
    X, y = table(120, 4, seed=33)
    X = with_holes(X, 0.3).astype(np.float32)
    data = halves(X, y, 50) if partition == "horizontal" else columns(X, y, 2)
    training = train_both(*data, partition=partition, missing="all", n_estimators=5, max_bin=8, learning_rate=0.5)
    fresh = with_holes(table(60, 4, seed=34)[0], 0.4, seed=1).astype(np.float32)
    parts = (fresh[:20], fresh[20:]) if partition == "horizontal" else (fresh[:, :2], fresh[:, 2:])
    ours = np.concatenate(predict_both(training.models, parts, "thresholds"))
    (_, plain), _ = run_both(lambda p: reveal_model(p, training.models[p.rank].model, 1))
    cut = plain.features != NO_SPLIT
    assert plain.missing_left[cut].any() and not plain.missing_left[cut].all()
    document = to_xgboost(plain)
    names = list(plain.names) if partition == "horizontal" else None
    assert np.abs(ours - booster_margins(document, fresh, names)).max() < 1e-4
    again = from_xgboost(document, "model.json")
    assert np.abs(booster_margins(to_xgboost(again), fresh, list(again.names)) - ours).max() < 1e-4


def test_several_classes_in_xgboost():
    X, _ = table(90, 2, seed=35)
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    parameters = dict(objective="multi:ova", num_class=3, n_estimators=2, max_bin=8, base_score=0.3)
    training = train_both(*halves(X, labels, 30), **parameters)
    (plain, _), _ = run_both(lambda p: reveal_model(p, training.models[p.rank].model, 0))
    assert len(plain.leaves) == 6
    fresh = rows_around(training, 30, seed=6)
    ours = np.concatenate(predict_both(training.models, (fresh[:9], fresh[9:]), "thresholds"))
    document = to_xgboost(plain)
    assert np.abs(ours - booster_margins(document, fresh, list(plain.names))).max() < 1e-4
    booster = xgboost.Booster(model_file=bytearray(json.dumps(document).encode()))
    classes = booster.predict(xgboost.DMatrix(fresh, feature_names=list(plain.names)))
    # Equal margins may be decided differently in float32.
    clear = np.diff(np.sort(ours, axis=1)[:, -2:], axis=1)[:, 0] > 1e-4
    assert clear.mean() > 0.5 and (classes == ours.argmax(axis=1))[clear].all()


def test_names_that_xgboost_refuses_are_left_out():
    names = ("a[0]", "b")
    tree = (np.zeros((1, 1), int), np.zeros((1, 1), np.float32), np.zeros((1, 1), bool), np.array([[0.5, -0.5]]))
    document = to_xgboost(PlainModel("binary:logistic", names, 0.0, 1, *tree))
    assert booster_margins(document, np.array([[-1.0, 0], [1, 0]])).tolist() == [0.5, -0.5]


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror"])
@pytest.mark.parametrize("depth", [1, 6])
def test_a_plain_model_shared(objective, depth):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(float) if objective == "binary:logistic" else 50 * X[:, 0] + 100
    parameters = {"objective": objective, "max_depth": depth, "base_score": 0.3, "gamma": 0.1}
    booster = xgboost.train(parameters, xgboost.DMatrix(X, label=y), 12)
    plain = from_xgboost(json.loads(booster.save_raw("json")), "model.json")

    def job(party):
        half = share_model(party, plain if party.rank == 1 else None)
        kind = SecureXGBClassifier if half.config.logistic else SecureXGBRegressor
        model = kind(**half.config.model_dump())
        model.model = half
        opened = reveal_model(party, half, 1)
        return model.predict_margin(party, X[:50] if party.rank == 0 else X[:0], "thresholds"), opened

    ((margins, _), (_, opened)), parties = run_both(job)
    truth = booster.predict(xgboost.DMatrix(X), output_margin=True)
    assert np.abs(margins - truth[:50]).max() < 1e-3
    assert np.abs(booster_margins(to_xgboost(opened), X, list(opened.names)) - truth).max() < 1e-3
    assert parties[0].revealed == ["predictions of its own rows"]


@pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
def test_a_plain_model_of_several_classes_shared(objective):
    rng = np.random.default_rng(10)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = np.where(X[:, 0] > 1, 2, (X[:, 1] > 0).astype(int))
    data = xgboost.DMatrix(X, label=y)
    booster = xgboost.train({"objective": objective, "num_class": 3, "max_depth": 3}, data, 4)
    plain = from_xgboost(json.loads(booster.save_raw("json")), "model.json")
    assert plain.classes == 3 and len(plain.leaves) == 12

    def job(party):
        half = share_model(party, plain if party.rank == 0 else None)
        model = SecureXGBClassifier(**half.config.model_dump())
        model.model = half
        rows = X[:0] if party.rank == 0 else X[:80]
        return model.predict_margin(party, rows, "thresholds"), model.predict_proba(party, rows, "thresholds"), half

    results, _ = run_both(job)
    margins, proba, _ = results[1]
    truth = booster.predict(xgboost.DMatrix(X[:80]), output_margin=True)
    assert np.abs(margins - truth).max() < 1e-3
    each = np.exp(truth)
    assert np.abs(proba - each / each.sum(axis=1, keepdims=True)).max() < 1e-3
    (opened, _), _ = run_both(lambda party: reveal_model(party, results[party.rank][2], 0))
    document = to_xgboost(opened)
    assert document["learner"]["objective"]["name"] == "multi:softprob"
    assert np.abs(booster_margins(document, X[:80], list(opened.names)) - truth).max() < 1e-3
    with pytest.raises(ConfigError, match="train with multi:ova"):
        SecureXGBClassifier(**results[0][2].config.model_dump()).fit(None, X, y)


@pytest.mark.parametrize("missing", ["all", ("f0", "f2")])
def test_a_plain_model_shared_for_rows_with_missing_values(missing):
    rng = np.random.default_rng(11)
    X = with_holes(rng.normal(size=(400, 4)), 0.3).astype(np.float32)
    y = (np.nan_to_num(X[:, 0], nan=2.0) + np.nan_to_num(X[:, 2], nan=-1.0) > 0).astype(float)
    if missing != "all":
        X[:, [1, 3]] = np.nan_to_num(X[:, [1, 3]])
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 4}, xgboost.DMatrix(X, label=y), 6)
    plain = from_xgboost(json.loads(booster.save_raw("json")), "model.json")
    cut = plain.features != NO_SPLIT
    assert plain.missing_left[cut].any() and not plain.missing_left[cut].all()

    def job(party):
        half = share_model(party, plain if party.rank == 1 else None, missing)
        model = SecureXGBClassifier(**half.config.model_dump())
        model.model = half
        opened = reveal_model(party, half, 0)
        return model.predict_margin(party, X[:60] if party.rank == 0 else X[60:70], "thresholds"), opened

    ((first, opened), (second, _)), _ = run_both(job)
    truth = booster.predict(xgboost.DMatrix(X[:70]), output_margin=True)
    assert np.abs(np.concatenate([first, second]) - truth).max() < 1e-3
    assert np.abs(booster_margins(to_xgboost(opened), X[:70], list(opened.names)) - truth).max() < 1e-3


def test_sharing_needs_one_mind_about_missing_values():
    X = np.random.default_rng(1).normal(size=(30, 2)).astype(np.float32)
    booster = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, label=X[:, 0]), 1)
    plain = from_xgboost(json.loads(booster.save_raw("json")), "model.json")
    with pytest.raises(ConfigError, match="disagree on missing"):
        run_both(lambda party: share_model(party, plain if party.rank else None, ("all", "none")[party.rank]))
    with pytest.raises(ConfigError, match="no party has a feature 'age'"):
        run_both(lambda party: share_model(party, plain if party.rank else None, ("age",)))


def test_a_shared_model_has_no_bins():
    X = np.random.default_rng(1).normal(size=(30, 2)).astype(np.float32)
    booster = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, label=X[:, 0]), 1)
    plain = from_xgboost(json.loads(booster.save_raw("json")), "model.json")

    def job(party):
        model = SecureXGBRegressor()
        model.model = share_model(party, plain if party.rank == 0 else None)
        model.predict_margin(party, X, "bins")

    with pytest.raises(ConfigError, match="predict by thresholds"):
        run_both(job)
    with pytest.raises(ConfigError, match="one party brings a model"):
        run_both(lambda party: share_model(party, None))


def test_models_that_cannot_be_shared():
    X = np.random.default_rng(1).normal(size=(30, 2)).astype(np.float32)
    data = xgboost.DMatrix(X, label=np.arange(30) % 3)
    counts = xgboost.train({"objective": "count:poisson"}, data, 1)
    with pytest.raises(DataError, match=r"m\.json: only gbtree"):
        from_xgboost(json.loads(counts.save_raw("json")), "m.json")
    forests = xgboost.train({"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2}, data, 1)
    with pytest.raises(DataError, match=r"m\.json: the model has several trees for a round and class"):
        from_xgboost(json.loads(forests.save_raw("json")), "m.json")
    with pytest.raises(DataError, match=r"m\.json: not an XGBoost model"):
        from_xgboost({"hello": 1}, "m.json")


def test_reveal_needs_the_same_receiver_and_the_same_training():
    X, y = table(40, 2, seed=32)
    first, second = (train_both(*halves(X, y, 20), n_estimators=1).models for _ in range(2))
    with pytest.raises(ConfigError, match="who is to see"):
        run_both(lambda p: reveal_model(p, first[p.rank].model, p.rank))
    with pytest.raises(DataError, match="different trainings"):
        run_both(lambda p: reveal_model(p, (first, second)[p.rank][p.rank].model, 0))
