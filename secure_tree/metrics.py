"""How good margins are, on shares: a loss for every row, or the area under the ROC curve; nothing is revealed here.

error      1 where the margin and the label are on different sides of a threshold, or the largest of several margins is
           not the label's: exact
logloss    log(1 + e^m) - y m, by quadratics on 64 pieces of [-12, 12]: within 1e-4; |m| < 2^11
mae, rmse  |m - y| and (m - y)^2 over the label scale (the caller takes the root of the mean): exact to 2^-20
auc        by 128 public cuts: pairs of rows between two neighbouring cuts count one half, as ties do

Security   semi-honest, perfect: composition of perfect protocols
"""

from __future__ import annotations

import numpy as np

from mpc.argmax import argmax
from mpc.beaver import multiply
from mpc.bit_product import select, to_ring
from mpc.comparison import below
from mpc.one_hot import one_hot
from mpc.party import Party, Steps, together
from mpc.reciprocal import reciprocal
from mpc.shares import AShare, stack
from mpc.truncation import floor, truncate
from secure_tree.numerics import MARGIN_SCALE

MARGIN_BITS = 48
PIECES, BOUND = 64, 12.0
SQUARE_SCALE = 14
LOSS_SCALE = 50
CUTS = np.linspace(-4, 4, 128)


def error(party: Party, margin: AShare, labels: AShare, threshold: float) -> Steps:
    """[margin] and [label], 0 or 1, of n rows -> [loss] at MARGIN_SCALE. Four rounds."""
    cut = int(np.floor(threshold * (1 << MARGIN_SCALE))) + 1
    low = yield from below.steps(party, margin, [cut], MARGIN_BITS)
    above = yield from to_ring.steps(party, ~low[:, 0])
    right = yield from multiply.steps(party, above, labels)
    return (above + labels - right - right).times(1 << MARGIN_SCALE)


def class_error(party: Party, margins: AShare, labels: AShare) -> Steps:
    """[margins] and [1 at the label's class], [classes, n] -> [1 where another's margin is largest] at MARGIN_SCALE.

    3 ceil(log2 classes) + 3 rounds; the first of equal margins counts as the largest.
    """
    keys = (margins + (1 << MARGIN_BITS - 1)).map(np.transpose)
    place, _ = yield from argmax.steps(party, keys, MARGIN_BITS)
    hot = yield from one_hot.steps(party, place)
    largest = yield from to_ring.steps(party, hot[:, : len(margins)].map(np.transpose))
    right = yield from multiply.steps(party, largest, labels)
    return (1 - right.sum(axis=0)).times(1 << MARGIN_SCALE)


def logloss(party: Party, margin: AShare, labels: AShare) -> Steps:
    """[margin] and [label], 0 or 1, of n rows -> [loss] at MARGIN_SCALE. Six rounds."""
    soft, chosen = yield from together(_softplus(party, margin), multiply.steps(party, labels, margin))
    return soft - chosen


def absolute(party: Party, margin: AShare, labels: AShare) -> Steps:
    """[margin] and [label] at MARGIN_SCALE -> [|difference|]. Three rounds."""
    difference = margin - labels
    negative = yield from below.steps(party, difference, [0], MARGIN_BITS)
    turned = yield from select.steps(party, negative[:, 0], difference)
    return difference - turned - turned


def squared(party: Party, margin: AShare, labels: AShare) -> Steps:
    """[margin] and [label] at MARGIN_SCALE, less than 2^10 apart -> [difference squared]. Two rounds."""
    product = yield from multiply.steps(party, margin - labels, margin - labels)
    return (yield from truncate.steps(party, product, MARGIN_SCALE)).at_scale(0)


def auc(party: Party, margin: AShare, labels: AShare) -> Steps:
    """[margin] and [label], 0 or 1, of n < 2^21 rows -> [AUC] at MARGIN_SCALE within 2^-15; 0 for one class alone."""
    low = yield from below.steps(party, margin, np.round(CUTS * (1 << MARGIN_SCALE)).astype(int).tolist(), MARGIN_BITS)
    counted = labels.map(lambda w: np.repeat(w[:, None], len(CUTS), axis=1))
    low_ring = yield from to_ring.steps(party, low)
    low_positive = yield from multiply.steps(party, low_ring, counted)
    positives, rows = labels.sum(), len(labels)
    below_cut = stack([low_positive.sum(axis=0), low_ring.sum(axis=0) - low_positive.sum(axis=0)])
    # Ones and zeros below every cut, with none below the first and all below the last: differences are buckets.
    ends = stack([positives, rows - positives])
    words = np.concatenate([np.zeros((2, 1), np.uint64), below_cut.words, ends.words[:, None]], axis=1)
    buckets = AShare(np.diff(words, axis=1), party.rank)
    sums = AShare(words[1, 1:] + words[1, :-1], party.rank)
    wins, pairs = yield from together(
        multiply.steps(party, buckets[0], sums),
        multiply.steps(party, positives.reshape(1), (rows - positives).reshape(1)),
    )
    # Twice the pairs that are ordered rightly, over twice all pairs.
    high = max(2, (rows * rows).bit_length())
    y, s = yield from reciprocal.steps(party, pairs + pairs, 0, high)
    scaled = yield from multiply.steps(party, wins.sum().reshape(1), s)
    ratio = yield from multiply.steps(party, scaled, y)
    return (yield from floor.steps(party, ratio, 18 + high - MARGIN_SCALE)).at_scale(0)


def _softplus(party: Party, margin: AShare) -> Steps:
    """[m] -> [log(1 + e^m)] at MARGIN_SCALE."""
    knots, steps = _pieces()
    x, low = yield from together(
        truncate.steps(party, margin, MARGIN_SCALE - SQUARE_SCALE),
        below.steps(party, margin, np.round(knots * (1 << MARGIN_SCALE)).astype(int).tolist(), MARGIN_BITS),
    )
    x = x.at_scale(0)
    square, reached = yield from together(multiply.steps(party, x, x), to_ring.steps(party, ~low))
    # Where the margin is beyond the pieces its square may wrap around, and its coefficient is exactly 0.
    constant, slope, curve = (reached.times(step).sum(axis=1) for step in steps)
    products = yield from multiply.steps(party, stack([slope, curve]), stack([margin, square]))
    total = constant + products.sum(axis=0)
    return (yield from truncate.steps(party, total, LOSS_SCALE - MARGIN_SCALE)).at_scale(0)


def _pieces() -> tuple[np.ndarray, list[np.ndarray]]:
    """Knots [65], and by how much the coefficients of 1, x, x^2 change at each, at scales 50, 30, 22."""
    knots = np.linspace(-BOUND, BOUND, PIECES + 1)
    middle = (knots[1:] + knots[:-1]) / 2
    places = np.stack([knots[:-1], middle, knots[1:]], axis=1)
    inner = np.linalg.solve(places[:, :, None] ** np.arange(3), np.logaddexp(0, places)[:, :, None])[:, :, 0]
    coefficients = np.concatenate([np.zeros((1, 3)), inner, [[0, 1, 0]]])
    scales = LOSS_SCALE, LOSS_SCALE - MARGIN_SCALE, LOSS_SCALE - 2 * SQUARE_SCALE
    rounded = [np.round(c * 2.0**scale).astype(int) for c, scale in zip(coefficients.T, scales, strict=True)]
    return knots, [np.diff(c) for c in rounded]
