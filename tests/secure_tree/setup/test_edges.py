"""Edges: joint edges are those of the pooled rows, however divided, and with either kind every split is the twin's."""

import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss, mean_squared_error

from mpc.errors import ConfigError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.data.bins import bin_rows, make_bins
from secure_tree.public.config import TrainConfig
from secure_tree.public.layout import lay_out
from secure_tree.setup.edges import EDGES
from secure_tree.twin.boost import train
from secure_tree.twin.joint import pooled_edges
from tests.secure_tree.conftest import read_joined
from tests.secure_tree.opened import train_both
from tests.secure_tree.prediction.test_predict import predict_both, twin_of
from tests.secure_tree.test_twin import check, halves, table

JOINT = {"edges": "joint", "n_estimators": 3, "max_bin": 8, "learning_rate": 0.3}


def with_holes(X, rng):
    return np.where(rng.random(X.shape) < 0.2, np.nan, X)


@pytest.mark.parametrize(
    "parameters",
    [
        {"edges": "joint"},
        {"edges": "joint", "missing": "all", "edge_bits": 12},
        {"edges": "joint", "objective": "squarederror"},
        {"edges": "joint", "max_depth": 2, "subsample": 0.7, "colsample_bytree": 0.5},
        {"edges": "private", "max_bin": 4, "local_bins": 12},
        {"edges": "private", "max_bin": 4, "missing": ("f0", "f2")},
        {"edges": "private", "max_bin": 4, "local_bins": 4, "min_child_samples": 5},
    ],
)
def test_every_split_is_the_twins(parameters):
    X, y = table(90, 4, seed=1)
    X[:, 3] = np.round(X[:, 3])
    if "missing" in parameters:
        X[:, [0, 2]] = with_holes(X[:, [0, 2]], np.random.default_rng(2))
    training = train_both(*halves(X, y, 37), **{**JOINT, **parameters})
    assert len(check(training, 3)) > 1


@pytest.mark.parametrize(("missing", "bits"), [("none", 32), ("all", 32), ("all", 12)])
def test_joint_edges_are_those_of_the_pooled_rows_and_all_that_is_revealed(missing, bits):
    rng = np.random.default_rng(3)
    X, y = table(200, 3, seed=3)
    X[:, 1] = rng.geometric(0.5, 200)
    X[:, 2] = np.where(rng.random(200) < 0.9, 0, X[:, 2])
    X = X if missing == "none" else with_holes(X, rng)
    weights = rng.integers(1, 9, 200) / 8
    by_label = np.argsort(y, kind="stable")
    for order, cut, own in ((np.arange(200), 60, None), (by_label, int((y == 0).sum()), None), (by_label, 7, weights)):
        tables, labels = halves(X[order], y[order], cut)
        given = (None, None) if own is None else (own[order][:cut], own[order][cut:])
        training = train_both(tables, labels, weights=given, missing=missing, edge_bits=bits, **JOINT)
        masses = np.ones(200, np.int64) if own is None else (own * 8).astype(np.int64)
        expected = pooled_edges([X.astype(np.float32)], [masses], 8, bits)
        for model, party in zip(training.models, training.parties, strict=True):
            assert np.array_equal(model.model.cuts, expected)
            assert party.revealed == [EDGES]


def test_a_column_of_few_values_has_an_edge_at_each_however_rare():
    rng = np.random.default_rng(9)
    rare = np.append(rng.geometric(0.5, 2000), np.arange(12, 19)) * -1.5
    counts = np.append(rng.poisson(3, 2000), np.full(7, 40))
    X = np.stack([rare, counts, rng.normal(size=2007)], axis=1).astype(np.float32)
    edges = pooled_edges([X[:900], X[900:]], [np.ones(900, np.int64), np.ones(1107, np.int64)], 32, 32)
    for f in (0, 1):
        assert np.unique(X[:, f]).size < 32 and np.isin(X[:, f], edges[f]).all()
    assert np.unique(edges[2]).size == 32


@settings(max_examples=200, deadline=None, database=None)
@given(
    n=st.integers(1, 40), levels=st.integers(1, 50), bins=st.sampled_from([2, 5, 32, 64]), seed=st.integers(0, 2**32)
)
def test_few_rows_have_an_edge_at_each_value_as_with_private_edges(n, levels, bins, seed):
    column = np.random.default_rng(seed).integers(-levels, levels, (n, 1)).astype(np.float32)
    tables = column[: n // 2], column[n // 2 :]
    size = lay_out(TrainConfig.of(edges="joint", max_bin=bins), (("x",), ("x",)), (n // 2, n - n // 2)).sizes[0]
    edges = pooled_edges(tables, [np.ones(len(x), np.int64) for x in tables], size, 32)
    values = np.unique(column)
    if values.size < bins:
        assert np.array_equal(np.unique(edges)[1:], values)
        # The first private edge is the minimum; as a candidate it sends no row left, like the lowest float.
        assert np.array_equal(np.unique(make_bins(column, bins).edges), values)
    else:
        assert np.unique(edges).size == bins and np.isin(edges[0, 1:], values).all()


@pytest.mark.parametrize("n", [2, 3, 4, 10])
def test_few_rows_are_learned_as_by_xgboost(n):
    rng = np.random.default_rng(n)
    X = rng.permutation(n).astype(np.float32)[:, None]
    y = np.where(X[:, 0] == n - 1, 3.0, 0.1 * rng.normal(size=n))
    config = TrainConfig.of(
        objective="reg:squarederror", edges="joint", n_estimators=10, learning_rate=0.3, base_score=0.5
    )
    twin = train(*halves(X, y, n // 2), config, np.random.default_rng(1))
    parameters = {"learning_rate": 0.3, "max_depth": 3, "base_score": 0.5, "tree_method": "hist", "nthread": 1}
    theirs = xgboost.train(parameters, xgboost.DMatrix(X, label=y), 10).predict(xgboost.DMatrix(X))
    assert np.abs(twin.margins[-1] - theirs).max() < 1e-3


def test_every_split_of_four_rows_is_the_twins():
    X = np.array([[1.0], [2.0], [3.0], [4.0]])
    training = train_both(*halves(X, np.array([0.0, 0.0, 0.0, 9.0]), 2), **{**JOINT, "objective": "squarederror"})
    # The largest value is split off.
    assert 4 in training.models[0].model.cuts and len(check(training, 3)) > 1


def test_sixteen_bits_merge_the_years_that_the_table_of_parameters_names():
    years = np.arange(2010, 2030, dtype=np.float32)[:, None]
    edges = pooled_edges([years], [np.ones(20, np.int64)], 32, 16)
    assert np.array_equal(np.unique(edges)[1:], [2008, 2016, 2024])


def test_a_warning_where_joint_edges_are_most_of_the_values(caplog):
    X, y = table(60, 2, seed=10)
    train_both(*halves(X, y, 30), **JOINT)
    (said,) = {r.message for r in caplog.records if "joint edges" in r.message}
    assert "up to 7 values of each feature public, from only 60 rows" in said
    caplog.clear()
    X, y = table(64, 2, seed=10)
    train_both(*halves(X, y, 30), **JOINT)
    assert not [r for r in caplog.records if "joint edges" in r.message]


def test_edges_of_an_indicator_are_known_and_not_asked_for():
    colour = pd.Categorical(np.random.default_rng(4).choice(["red", "green"], 60, p=[0.05, 0.95]))
    X = pd.DataFrame({"colour": colour})
    y = (colour == "red").astype(float)
    training = train_both((X[:30], X[30:]), (y[:30], y[30:]), plain=(np.eye(2)[:1],) * 2, **JOINT)
    least = -np.finfo(np.float32).max
    assert np.array_equal(training.models[0].model.cuts, np.tile([least] + [1] * 7, (2, 1)).astype(np.float32))


@pytest.mark.parametrize("missing", ["none", "all"])
def test_by_joint_edges_both_ways_of_prediction_agree_on_any_rows(missing):
    X, y = table(80, 3, seed=5)
    fresh = np.concatenate([X, 3 * np.random.default_rng(6).normal(size=(60, 3)), [[-3e38, 3e38, 0.0]]])
    if missing == "all":
        X, fresh = (with_holes(rows, np.random.default_rng(7)) for rows in (X, fresh))
    training = train_both(*halves(X, y, 50), missing=missing, **JOINT)
    by_bins, by_thresholds = (
        np.concatenate(predict_both(training.models, (fresh[:70], fresh[70:]), method))
        for method in ("bins", "thresholds")
    )
    assert np.array_equal(by_bins, by_thresholds)
    assert np.abs(by_bins - twin_of(training).predict_margin(fresh)).max() < 1e-3


def test_by_private_edges_they_differ_only_in_bins_that_a_foreign_threshold_cuts():
    X, y = table(400, 2, seed=8)
    tables, labels = halves(X, y, 150)
    training = train_both(tables, labels, n_estimators=2, max_depth=2, max_bin=8, local_bins=32)
    twin = twin_of(training)
    used = [w for tree in twin.trees for w in tree.winner if w < len(twin.data.candidates.thresholds)]
    cut = []
    for p, bins in enumerate(twin.data.bins):
        between = np.zeros(len(tables[p]), bool)
        for w in used:
            f, t = twin.data.candidates.features[w], twin.data.candidates.thresholds[w]
            mine = np.searchsorted(bins.cuts[f], t, side="right") - 1
            between |= (bins.numbers[:, f] == mine) & (t not in bins.edges[f])
        cut.append(between)
    by_bins, by_thresholds = (
        np.concatenate(predict_both(training.models, tables, method)) for method in ("bins", "thresholds")
    )
    differ = by_bins != by_thresholds
    assert differ.any() and not (differ & ~np.concatenate(cut)).any()
    # At most one bin of 32 for each of up to six splits, if all edges were the other party's.
    assert differ.mean() < 6 / 32


def on_the_same_cuts(edges, tables, y, config):
    """Train XGBoost's `hist` on bin numbers, which gives it the same cuts: margins after every tree, float32[T, n]."""
    rows = xgboost.DMatrix(np.concatenate([bin_rows(x, edges) for x in tables]).astype(np.float32), label=y)
    parameters = dict(
        objective=config.objective, tree_method="hist", max_bin=1024, max_depth=config.max_depth, nthread=1,
        learning_rate=config.learning_rate, min_child_weight=config.min_child_weight, base_score=config.base_score,
    )  # fmt: skip
    booster = xgboost.train(parameters, rows, config.n_estimators)
    spans = [(0, count) for count in range(1, config.n_estimators + 1)]
    return np.array([booster.predict(rows, output_margin=True, iteration_range=span) for span in spans])


@pytest.mark.parametrize(
    ("name", "rows"), [("breast", 569), ("default_credit", 4000), ("student", 400), ("made up", 3000)]
)
def test_by_joint_edges_trees_are_as_good_as_those_of_xgboost_on_the_same_cuts(name, rows):
    if name == "made up":
        X, y = table(rows, 5, seed=9)
    else:
        guest, host, y = read_joined(name)
        X, y = np.concatenate([guest, host], axis=1)[:rows], y[:rows].astype(float)
    numbers = np.unique(y).size > 2
    config = TrainConfig.of(
        objective="reg:squarederror" if numbers else "binary:logistic", edges="joint", n_estimators=10, max_depth=4,
        learning_rate=0.3, base_score=float(np.round(y.mean())) if numbers else 0.5, min_child_weight=1.0,
        min_split_loss=0.0,
    )  # fmt: skip
    by = np.argsort(X[:, 0], kind="stable")
    tables, labels = halves(X[by].astype(np.float32), y[by], len(y) // 3)
    twin = train(tables, labels, config, np.random.default_rng(1))
    theirs = on_the_same_cuts(twin.data.bins[0].edges, tables, np.concatenate(labels), config)
    # Two splits of nearly equal gains may be swapped, but the remaining loss is the same.
    y = np.concatenate(labels)
    losses = [[mean_squared_error(y, m) if numbers else log_loss(y, 1 / (1 + np.exp(-m))) for m in margins]
              for margins in (twin.margins, theirs)]  # fmt: skip
    assert (np.array(losses[0]) < 1.02 * np.array(losses[1])).all(), losses
    off = np.abs(twin.margins - theirs).mean(axis=1) / theirs.std(axis=1)
    assert off.max() < 0.25, off


def test_a_thousand_bins():
    X, y = table(1500, 1, seed=10)
    for edges in ("joint", "private"):
        parameters = {**JOINT, "edges": edges, "max_bin": 1024, "local_bins": 1024, "n_estimators": 1, "max_depth": 1}
        check(train_both(*halves(X, y, 700), **parameters), 1)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"max_bin": 1025}, "max_bin must be a number from 2 to 1024"),
        ({"local_bins": 40}, "local_bins must be a multiple of max_bin, got 40 and 32"),
        ({"local_bins": 64, "max_bin": "exact"}, "local_bins must be a multiple of max_bin"),
        ({"edges": "public"}, "edges must be 'joint' or 'private', got 'public'"),
    ],
)
def test_what_is_refused(parameters, sentence):
    with pytest.raises(ConfigError, match=sentence):
        SecureXGBClassifier(**parameters)


def test_parties_that_disagree_on_edges():
    def job(party):
        SecureXGBClassifier(edges=("joint", "private")[party.rank]).fit(party, np.ones((5, 1)), np.ones(5))

    with pytest.raises(ConfigError, match="disagree on edges: joint here, 'private' at the other"):
        run_both(job)


def test_joint_edges_over_shards_are_those_of_all_rows():
    rng = np.random.default_rng(6)
    X, y = table(300, 3, seed=6)
    X[:, 1] = np.where(rng.random(300) < 0.7, 0, X[:, 1])
    X = with_holes(X, rng)
    tables, labels = halves(X, y, 130)
    whole = train_both(tables, labels, missing="all", **JOINT).models[0].model.cuts

    divided = train_both(tables, labels, missing="all", workers=4, **JOINT)
    assert np.array_equal(divided.models[0].model.cuts, whole)
