"""Several classes, samples of rows and features, and weights: splits are the twin's, and gradients are correct."""

import os

import numpy as np
import pytest

from mpc.errors import ConfigError, DataError
from protocols.runtime import run_local
from protocols.testing.two_parties import opened, run_both
from secure_tree import SecureXGBClassifier
from secure_tree.public.sampling import column_samples, row_mask
from tests.secure_tree.conftest import read_joined, read_shared
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_layouts import auc_beside_xgboost, columns
from tests.secure_tree.test_twin import check, halves, table

SMALL = dict(n_estimators=2, max_depth=2, max_bin=8, learning_rate=0.3)


def three_classes(n, seed):
    X, _ = table(n, 3, seed)
    return X, np.digitize(X[:, 0] - X[:, 2], [-0.7, 0.7]).astype(float)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_one_tree_a_class(partition):
    X, y = three_classes(70, seed=31)
    data = halves(X, y, 30) if partition == "horizontal" else columns(X, y, 2)
    training = train_both(*data, objective="multi:ova", num_class=3, partition=partition, **SMALL)
    check(training, 2)
    binary = train_both(
        *(halves(X, y == 1, 30) if partition == "horizontal" else columns(X, y == 1, 2)), partition=partition, **SMALL
    )
    assert training.parties[0].stages["online"].rounds == binary.parties[0].stages["online"].rounds
    expected = np.stack([training.trees[-3 + k].margins for k in range(3)], axis=1)
    for method in ("bins", "thresholds"):
        margins = run_both(
            lambda party, method=method: training.models[party.rank].predict_margin(party, data[0][party.rank], method)
        )[0]
        assert [m.shape for m in margins] == [(30, 3), (40, 3)] if partition == "horizontal" else [(70, 3), (0, 3)]
        if method == "bins":
            assert np.abs(np.concatenate(margins) - expected).max() < 1e-5

    def ask(party):
        model, rows = training.models[party.rank], data[0][party.rank]
        return model.predict_proba(party, rows), model.predict(party, rows)

    (proba, classes), _ = run_both(ask)[0]
    assert np.allclose(proba.sum(axis=1), 1) and np.array_equal(classes, proba.argmax(axis=1))
    assert (classes == y[: len(classes)]).mean() > 0.6


@pytest.mark.parametrize("parameters", [{}, {"min_child_samples": 5}, {"objective": "squarederror"}])
def test_rows_are_left_out(parameters):
    X, y = table(400, 3, seed=32)
    training = train_both(*halves(X, y, 170), subsample=0.25, **SMALL, **parameters)
    check(training, 2)
    kept = np.array([(seen.values != 0).any(axis=0) for seen in training.trees])
    assert (np.abs(kept.mean(axis=1) - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 400)).all()
    assert 0 < (kept[0] & kept[1]).mean() < 0.15, "each tree has its own sample"
    if "min_child_samples" in parameters:
        assert np.array_equal(training.trees[0].values[2] == 1, kept[0])


def kept_rows(seeds=(b"a" * 16, b"b" * 16), draws=(os.urandom, os.urandom), rows=2000, share=0.3):
    """Return the opened mask of one tree, dealt from these seeds."""

    def job(party):
        party.draw = draws[party.rank]
        return party.run(row_mask(party, share, rows))

    return opened(run_both(job, seeds)[0])


def test_the_dealer_does_not_know_which_rows_are_left_out():
    # The dealer knows only its seeds. With the same seeds, another training leaves out other rows.
    assert 0.35 < (kept_rows() != kept_rows()).mean() < 0.5
    draws = tuple((lambda n, r=r: np.random.default_rng(r).bytes(n)) for r in (1, 2))
    same = kept_rows(draws=draws)
    assert np.array_equal(same, kept_rows((b"c" * 16, b"d" * 16), draws))
    assert abs(same.mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 2000)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_features_are_left_out(partition):
    X, y = table(70, 5, seed=33)
    X[::9, 0] = np.nan
    data = halves(X, y, 30) if partition == "horizontal" else columns(X, y, 2)
    parameters = {**SMALL, "n_estimators": 8, "missing": ("f0",), "partition": partition}
    training = train_both(*data, colsample_bytree=0.5, **parameters)
    check(training, 8)
    features = training.data.candidates.features
    samples = [set(features[s[:-1]].tolist()) for s in column_samples(training.context)]
    assert all(len(s) == 2 for s in samples) and len(set(map(tuple, samples))) > 1
    for seen, sample in zip(training.trees, samples, strict=True):
        assert {int(features[w]) for w in seen.winner if w < len(features)} <= sample


@pytest.mark.parametrize(
    ("weights", "scale", "parameters"),
    [
        ((np.linspace(0, 3, 30), np.linspace(0.5, 1, 40)), 4, {}),
        ((np.full(30, 0.1), None), 1, {"min_child_samples": 5, "reg_alpha": 0.1}),
        ((np.linspace(0, 3, 30), np.linspace(0.5, 1, 40)), 4, {"objective": "squarederror"}),
    ],
)
def test_weights(weights, scale, parameters):
    X, y = table(70, 3, seed=34)
    training = train_both(*halves(X, y, 30), weights=weights, base_score=0.5, **SMALL, **parameters)
    check(training, 2)
    assert training.facts.weight_scale == scale
    w = np.concatenate([np.ones(n) if own is None else own for n, own in zip((30, 40), weights, strict=True)]) / scale
    unit = 1 << training.numerics.histogram_scale
    g, h = (0.5 - y, np.full(70, 0.25)) if training.config.logistic else (0.5 - y, np.ones(70))
    # Weights are rounded to 2^-28, gradients over the label scale to 2^-20.
    allowed = 1.1 + 1.1 * w * unit * 2.0**-20
    assert (np.abs(training.trees[0].values[0] - w * g / training.label_scale * unit) < allowed).all()
    assert (np.abs(training.trees[0].values[1] - w * h * unit) < allowed).all()


def test_weights_of_vertical_data_stand_beside_the_labels():
    X, y = table(40, 2, seed=35)
    heavy = train_both(*columns(X, y, 1), weights=(np.full(40, 0.25), None), partition="vertical", **SMALL)
    check(heavy, 2)
    assert heavy.facts.weight_scale == 0.25
    with pytest.raises(DataError, match="sample_weight must be given only at the party with the labels"):
        train_both(*columns(X, y, 1), weights=(None, np.ones(40)), partition="vertical", **SMALL)


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (-np.ones(6), "row 0: weight must be at least 0, got -1"),
        (np.ones(5), "a weight for each of the 6 rows, got 5"),
        (["a"] * 6, "weights must be numeric"),
    ],
)
def test_bad_weights(weights, sentence):
    X, y = table(12, 2, seed=36)
    with pytest.raises(DataError, match=sentence):
        train_both(*halves(X, y, 6), weights=(weights, None), **SMALL)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"objective": "multi:ova"}, "num_class must be set for multi:ova"),
        ({"num_class": 3}, "num_class must be set for multi:ova"),
        ({"subsample": 0}, "subsample"),
        ({"colsample_bytree": 1.5}, "colsample_bytree"),
    ],
)
def test_parameters(parameters, sentence):
    with pytest.raises(ConfigError, match=sentence):
        SecureXGBClassifier(**parameters)


def test_labels_beyond_the_classes():
    X, y = three_classes(20, seed=37)
    with pytest.raises(DataError, match=r"label must be one of 0 .. 2 under multi:ova, got 3"):
        train_both(*halves(X, y + 1, 10), objective="multi:ova", num_class=3, **SMALL)


@pytest.mark.long
def test_quality_of_several_classes():
    import xgboost

    guest, host, test = (read_shared(f"homo/vehicle_scale_homo_{name}.csv") for name in ("guest", "host", "test"))
    common = dict(learning_rate=0.3, max_depth=4, max_bin=32, min_child_weight=1.0, reg_lambda=1.0)

    def job(party):
        model = SecureXGBClassifier(n_estimators=20, objective="multi:ova", num_class=4, min_split_loss=0.0, **common)
        model.fit(party, *(guest, host)[party.rank])
        return model.predict(party, test[0] if party.rank == 0 else test[0][:0])

    ours, _ = run_local(job)
    pooled = xgboost.DMatrix(np.concatenate([guest[0], host[0]]), label=np.concatenate([guest[1], host[1]]))
    booster = xgboost.train(dict(objective="multi:softmax", num_class=4, tree_method="hist", **common), pooled, 20)
    theirs = booster.predict(xgboost.DMatrix(test[0].to_numpy()))
    accuracies = (ours == test[1]).mean(), (theirs == test[1]).mean()
    assert accuracies[0] > accuracies[1] - 0.02, accuracies


@pytest.mark.long
def test_quality_with_samples():
    own, foreign, y = read_joined("breast")
    X = np.concatenate([own, foreign], axis=1)
    ours, theirs = auc_beside_xgboost(
        ((own, y), (foreign, None)), X, y, partition="vertical", subsample=0.8, colsample_bytree=0.5
    )
    assert abs(ours - theirs) < 0.003, f"{ours} beside {theirs}"
