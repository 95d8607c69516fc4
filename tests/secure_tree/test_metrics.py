"""Metrics on shares against scikit-learn's on the opened margins."""

import numpy as np
import pytest
from sklearn import metrics as plain

from secure_tree import metrics
from secure_tree.numerics import MARGIN_SCALE
from tests.mpc.twoparty import opened, ring_half, run_both

RNG = np.random.default_rng(41)
Y = RNG.integers(0, 2, 300)
MARGINS = RNG.normal(size=300) * 2 + 2 * Y - 1


def on_shares(function, margins, labels, *arguments):
    """The result of a metric on random shares, as float."""

    def job(party):
        m = ring_half(np.round(margins * (1 << MARGIN_SCALE)), party.rank)
        return party.run(function(party, m, ring_half(labels, party.rank), *arguments))

    return opened(run_both(job)[0]) / (1 << MARGIN_SCALE)


@pytest.mark.parametrize("threshold", [0.0, 0.4, -3.0])
def test_error(threshold):
    losses = on_shares(metrics.error, MARGINS, Y, threshold)
    assert np.array_equal(losses, (threshold < MARGINS) != Y)


def test_logloss_over_its_range():
    margins = np.concatenate([np.linspace(-20, 20, 4001), [-1000, 1000, 2000]])
    for label in (0, 1):
        losses = on_shares(metrics.logloss, margins, np.full(margins.size, label))
        assert np.abs(losses - (np.logaddexp(0, margins) - label * margins)).max() < 1e-4
    assert abs(on_shares(metrics.logloss, MARGINS, Y).mean() - plain.log_loss(Y, 1 / (1 + np.exp(-MARGINS)))) < 1e-4


def test_regression():
    labels = RNG.normal(size=300)
    units = np.round(labels * (1 << MARGIN_SCALE))
    assert np.abs(on_shares(metrics.absolute, MARGINS, units) - np.abs(MARGINS - labels)).max() < 1e-5
    assert np.abs(on_shares(metrics.squared, MARGINS, units) - (MARGINS - labels) ** 2).max() < 1e-4


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
