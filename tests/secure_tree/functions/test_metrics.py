"""Metrics on shares against scikit-learn's metrics of the opened margins."""

import numpy as np
import pytest
from sklearn import metrics as plain

from mpc.errors import DataError
from protocols.testing.two_parties import opened, ring_half, run_both
from secure_tree import SecureXGBClassifier
from secure_tree.functions import metrics
from secure_tree.public.numerics import MARGIN_SCALE

xgboost = pytest.importorskip("xgboost")
RNG = np.random.default_rng(41)
Y = RNG.integers(0, 2, 300)
MARGINS = RNG.normal(size=300) * 2 + 2 * Y - 1


def on_shares(function, margins, labels, *arguments, scale=0):
    """Return the result of a metric of clipped margins on random shares as a float."""

    def steps(party):
        margin = ring_half(np.round(margins * (1 << MARGIN_SCALE)), party.rank, scale=MARGIN_SCALE)
        clipped = yield from metrics.clip(party, margin, 58)
        return (yield from function(party, clipped, ring_half(labels, party.rank, scale=scale), *arguments))

    def job(party):
        return party.run(steps(party))

    return opened(run_both(job)[0]) / (1 << MARGIN_SCALE)


@pytest.mark.parametrize("threshold", [0.0, 0.4, -3.0])
def test_error(threshold):
    losses = on_shares(metrics.error, MARGINS, Y, threshold)
    assert np.array_equal(losses, (threshold < MARGINS) != Y)


def test_logloss_over_its_range():
    margins = np.concatenate([np.linspace(-20, 20, 4001), [-1000, 1000]])
    for label in (0, 1):
        losses = on_shares(metrics.logloss, margins, np.full(margins.size, label))
        assert np.abs(losses - (np.logaddexp(0, margins) - label * margins)).max() < 1e-4
    assert abs(on_shares(metrics.logloss, MARGINS, Y).mean() - plain.log_loss(Y, 1 / (1 + np.exp(-MARGINS)))) < 1e-4


WILD = np.array([5000.0, -5000, 8000, -8000, 2.0**20, -(2.0**20), 2.0**35, -(2.0**35), 3.5])
WILD_LABELS = np.array([0, 0, 1, 1, 0, 1, 1, 1, 1])


def test_margins_beyond_the_limit_count_as_the_limit():
    held, sign = np.clip(WILD, -metrics.MARGIN_LIMIT, metrics.MARGIN_LIMIT), 2 * WILD_LABELS - 1
    losses = on_shares(metrics.logloss, WILD, WILD_LABELS)
    assert np.abs(losses - np.logaddexp(0, -sign * held)).max() < 1e-4
    assert np.array_equal(on_shares(metrics.error, WILD, WILD_LABELS, 0.0), (WILD > 0) != WILD_LABELS)
    label = np.round(WILD_LABELS * (1 << MARGIN_SCALE))
    assert (
        np.abs(on_shares(metrics.absolute, WILD, label, scale=MARGIN_SCALE) - np.abs(held - WILD_LABELS)).max() < 1e-5
    )
    assert (
        np.abs(on_shares(metrics.squared, WILD, label, scale=MARGIN_SCALE) / (held - WILD_LABELS) ** 2 - 1).max() < 1e-5
    )
    assert abs(on_shares(metrics.auc, WILD, WILD_LABELS)[0] - plain.roc_auc_score(WILD_LABELS, held)) < 1e-3
    hot = np.stack([1 - WILD_LABELS, WILD_LABELS])
    of_classes = on_shares(metrics.class_logloss, np.stack([-WILD, WILD]), hot)
    assert np.abs(of_classes - np.logaddexp(0, -sign * np.clip(WILD, -12, 12))).max() < 0.06
    wrong = on_shares(metrics.class_error, np.stack([-WILD, WILD]), hot)
    assert np.array_equal(wrong, (WILD > 0) != WILD_LABELS)


def test_regression():
    labels = RNG.normal(size=300)
    units = np.round(labels * (1 << MARGIN_SCALE))
    assert (
        np.abs(on_shares(metrics.absolute, MARGINS, units, scale=MARGIN_SCALE) - np.abs(MARGINS - labels)).max() < 1e-5
    )
    assert np.abs(on_shares(metrics.squared, MARGINS, units, scale=MARGIN_SCALE) - (MARGINS - labels) ** 2).max() < 1e-4


@pytest.mark.parametrize(
    "margins",
    [
        MARGINS,
        np.round(MARGINS),
        MARGINS * 1e-3 - 9,
        MARGINS * 100 + 500,
        np.where(np.arange(300) % 100, MARGINS, MARGINS * 30),
        np.repeat(0.25, 300),
    ],
    ids=["spread", "ties", "close and far from 0", "wide", "outliers", "all equal"],
)
def test_auc(margins):
    assert abs(on_shares(metrics.auc, margins, Y)[0] - plain.roc_auc_score(Y, margins)) < 1e-3


def test_auc_of_few_rows_and_few_positives():
    assert on_shares(metrics.auc, MARGINS, np.ones(300, int))[0] == 0
    assert abs(on_shares(metrics.auc, np.array([1.0, -1.0]), np.array([1, 0]))[0] - 1) < 2**-15
    rare = (np.arange(3000) % 300 == 0).astype(int)
    margins = np.random.default_rng(5).normal(size=3000) - 7 + 1.5 * rare
    assert abs(on_shares(metrics.auc, margins, rare)[0] - plain.roc_auc_score(rare, margins)) < 4e-3


def kolmogorov_smirnov(labels, margins):
    false, true, _ = plain.roc_curve(labels, margins)
    return np.abs(true - false).max()


SHIFTS = pytest.mark.parametrize("margins", [MARGINS, MARGINS * 1e-3 - 9, -MARGINS, MARGINS * 100 + 500])


@SHIFTS
def test_ks(margins):
    distance = kolmogorov_smirnov(Y, margins)
    assert distance - 0.03 < on_shares(metrics.ks, margins, Y)[0] < distance + 1e-4


@SHIFTS
def test_average_precision(margins):
    assert abs(on_shares(metrics.aucpr, margins, Y)[0] - plain.average_precision_score(Y, margins)) < 5e-3


def test_ks_and_average_precision_of_rare_positives():
    rare = (np.arange(3000) % 300 == 0).astype(int)
    noise = np.random.default_rng(5).normal(size=3000)
    for shift in (0, 1.5, 4, 30):
        margins = noise - 7 + shift * rare
        distance = kolmogorov_smirnov(rare, margins)
        assert distance - 0.04 < on_shares(metrics.ks, margins, rare)[0] < distance + 1e-4
        expected = plain.average_precision_score(rare, margins)
        assert abs(on_shares(metrics.aucpr, margins, rare)[0] - expected) < 0.04


@pytest.mark.parametrize("metric", [metrics.ks, metrics.aucpr])
def test_one_class_and_few_rows(metric):
    assert abs(on_shares(metric, np.array([1.0, -1.0]), np.array([1, 0]))[0] - 1) < 2**-12
    assert on_shares(metric, MARGINS, np.zeros(300, int))[0] == 0
    assert abs(on_shares(metric, MARGINS, np.ones(300, int))[0] - (metric is metrics.aucpr)) < 2**-12


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_logloss_of_several_classes(classes):
    labels = np.arange(300) % classes
    hot = (labels == np.arange(classes)[:, None]).astype(int)
    margins = RNG.normal(size=(classes, 300)) * 3 + 2 * hot
    each = 1 / (1 + np.exp(-margins))
    losses = on_shares(metrics.class_logloss, margins, hot)
    assert np.abs(losses + np.log((each * hot).sum(axis=0) / each.sum(axis=0))).max() < 1e-3
    sure = np.array([[-15.0, 15.0], [-15.0, -15.0]])
    assert np.abs(on_shares(metrics.class_logloss, sure, np.array([[1, 1], [0, 0]])) - [np.log(2), 0]).max() < 0.06


def revealed_of_ranking(metric, margins, labels):
    return on_shares(lambda party, m, y: metrics.of_ranking(party, metric, m, y), margins, labels)[0] / labels.shape[1]


def test_auc_of_several_classes_is_that_of_xgboost():
    labels = RNG.choice(3, 400, p=[0.1, 0.25, 0.65])
    hot = (labels == np.arange(3)[:, None]).astype(int)
    margins = RNG.normal(size=(3, 400)) + 1.2 * hot + np.array([[2.0], [0.0], [-1.0]])
    each = 1 / (1 + np.exp(-margins))
    data = xgboost.DMatrix(np.zeros((400, 1)), label=labels, base_margin=np.log(each / each.sum(axis=0)).T)
    booster = xgboost.train({"objective": "multi:softprob", "num_class": 3, "eval_metric": "auc", "eta": 1e-9}, data, 1)
    expected = float(booster.eval(data).rsplit(":", 1)[1])
    assert abs(revealed_of_ranking("auc", margins, hot) - 1 - expected) < 2e-3
    hot[1] = 0
    assert revealed_of_ranking("auc", margins, hot) == 0, "a class without rows"


@pytest.mark.parametrize("metric", metrics.OF_ALL_ROWS)
@pytest.mark.parametrize("label", [0, 1])
def test_rankings_of_one_class_are_undefined(metric, label):
    assert revealed_of_ranking(metric, MARGINS[None], np.full((1, 300), label)) == 0
    assert revealed_of_ranking(metric, MARGINS[None], Y[None]) > 1.3


def test_undefined_metrics_are_nan_with_a_warning_and_early_stopping_refuses_them(caplog):
    X, y = RNG.normal(size=(60, 2)), (np.arange(60) % 2).astype(float)

    def fit(party, held=1.0, **parameters):
        rows = slice(0, 30) if party.rank == 0 else slice(30, 60)
        model = SecureXGBClassifier(n_estimators=2, max_depth=1, max_bin=4, eval_epochs=1, **parameters)
        return model.fit(party, X[rows], y[rows], eval_set=(X[:6], np.where(np.arange(6) < 3, held, 1.0)))

    (model, _), _ = run_both(lambda party: fit(party, eval_metric=["auc", "gini", "aucpr", "ks", "logloss"]))
    assert all(np.isnan(model.curves[m]).any(axis=1).all() for m in ("auc", "gini", "aucpr", "ks"))
    assert np.isfinite(model.curves["logloss"]).all()
    assert "auc of held-out rows is undefined, because they lack a class" in caplog.messages
    caplog.clear()
    run_both(lambda party: fit(party, held=0.0, eval_metric="auc", early_stopping_rounds=1))
    assert not [message for message in caplog.messages if "undefined" in message]
    with pytest.raises(DataError, match="auc must be defined to choose by it, but the held-out rows lack a class"):
        run_both(lambda party: fit(party, eval_metric="auc", early_stopping_rounds=1))
