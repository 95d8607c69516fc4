"""Revealed models and their export to XGBoost's JSON, against xgboost.Booster. test_share.py tests the other way."""

import json

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import run_both
from secure_tree.exchange.plain_model import NO_SPLIT, PlainModel, reveal_model
from secure_tree.exchange.xgboost import from_xgboost, to_xgboost
from tests.secure_tree.opened import train_both
from tests.secure_tree.prediction.test_predict import predict_both
from tests.secure_tree.public.test_sampling import three_classes
from tests.secure_tree.test_layouts import columns, with_holes
from tests.secure_tree.test_twin import halves, table

xgboost = pytest.importorskip("xgboost")


def booster_margins(document, X, names=None):
    booster = xgboost.Booster(model_file=bytearray(json.dumps(document).encode()))
    data = xgboost.DMatrix(X, feature_names=names)
    margins = booster.predict(data, output_margin=True)
    if any(tree["sum_hessian"][0] for tree in document["learner"]["gradient_booster"]["model"]["trees"]):
        contributions = booster.predict(data, pred_contribs=True)
        assert np.abs(contributions.sum(axis=-1) - margins).max() < 1e-4
    return margins


def rows_around(training, count, seed):
    """Return random rows, and rows exactly on edges, where < and <= differ."""
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


@pytest.mark.parametrize(
    ("partition", "edges"), [("horizontal", "joint"), ("horizontal", "private"), ("vertical", "private")]
)
def test_missing_values_in_xgboost(partition, edges):
    X, y = table(120, 4, seed=33)
    X = with_holes(X, 0.3).astype(np.float32)
    data = halves(X, y, 50) if partition == "horizontal" else columns(X, y, 2)
    how = {"partition": partition, "edges": edges, "missing": "all", "learning_rate": 0.5}
    training = train_both(*data, n_estimators=5, max_bin=8, **how)
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


def test_the_base_score_has_the_digits_of_a_float32():
    nothing = np.zeros((3, 1)), np.zeros((3, 2)), np.zeros((3, 1)), np.zeros((3, 3))
    for objective, margins in (("binary:logistic", (np.log(3 / 7),)), ("multi:ova", (-0.8472978603872036,) * 3)):
        model = PlainModel(objective, ("a",), margins, nothing[0].astype(int), nothing[0], nothing[0] > 0, *nothing[1:])
        written = to_xgboost(model)["learner"]["learner_model_param"]["base_score"]
        assert written == {"binary:logistic": "3e-1", "multi:ova": "-8.4729785e-1"}[objective]


@pytest.mark.parametrize(
    ("objective", "margin"),
    [
        ("binary:logistic", 13.8155),
        ("binary:logistic", -9.3),
        ("reg:squarederror", 1e6 + 1 / 3),
        ("count:poisson", -7.1),
    ],
)
def test_a_base_margin_is_not_rounded_with_the_base_score(objective, margin):
    leaves = np.array([[0.25, -0.5]])
    split = np.zeros((1, 1), int), np.zeros((1, 1), np.float32), np.zeros((1, 1), bool)
    model = PlainModel(objective, ("a",), (margin,), *split, leaves, np.zeros((1, 1)), np.zeros((1, 3)))
    margins = booster_margins(to_xgboost(model), np.array([[-1.0], [1.0]], np.float32), ["a"])
    assert np.abs(margins - margin - leaves[0]).max() <= 3e-7 * max(abs(margin), 5)


def test_several_classes_in_xgboost():
    X, labels = three_classes(90, seed=35)
    parameters = dict(objective="multi:ova", num_class=3, n_estimators=3, max_bin=8, base_score=0.3)
    training = train_both(*halves(X, labels, 30), **parameters)
    (plain, _), _ = run_both(lambda p: reveal_model(p, training.models[p.rank].model, 0))
    fresh = three_classes(60, seed=36)[0].astype(np.float32)
    ours = np.concatenate(predict_both(training.models, (fresh[:9], fresh[9:]), "thresholds"))
    theirs = booster_margins(to_xgboost(plain), fresh, list(plain.names))
    assert ours.shape == (60, 3) and np.abs(ours - theirs).max() < 1e-4
    booster = xgboost.Booster(model_file=bytearray(json.dumps(to_xgboost(plain)).encode()))
    assert np.array_equal(booster.predict(xgboost.DMatrix(fresh, feature_names=list(plain.names))), ours.argmax(axis=1))


def test_names_that_xgboost_refuses_are_left_out():
    names = ("a[0]", "b")
    split = np.zeros((1, 1), int), np.zeros((1, 1), np.float32), np.zeros((1, 1), bool)
    worth = np.zeros((1, 1)), np.zeros((1, 3))
    document = to_xgboost(PlainModel("binary:logistic", names, (0.0,), *split, np.array([[0.5, -0.5]]), *worth))
    assert booster_margins(document, np.array([[-1.0, 0], [1, 0]])).tolist() == [0.5, -0.5]


def test_reveal_needs_the_same_receiver_and_the_same_training():
    X, y = table(40, 2, seed=32)
    first, second = (train_both(*halves(X, y, 20), n_estimators=1).models for _ in range(2))
    with pytest.raises(ConfigError, match="receiver of the model"):
        run_both(lambda p: reveal_model(p, first[p.rank].model, p.rank))
    with pytest.raises(DataError, match="different trainings"):
        run_both(lambda p: reveal_model(p, (first, second)[p.rank][p.rank].model, 0))
