"""Metrics on shares: a loss for every row, or a function of the ranking of all rows. Nothing is revealed here.

All metrics require margins within +-MARGIN_LIMIT, in units of the label scale for a regression; `clip` ensures it.

clip       replaces a margin beyond the limit by the limit
error      1 if the margin and the label are on different sides of a threshold, or, for several classes, if the largest
           margin is not that of the label's class. Exact
logloss    two classes: log(1 + e^m) - y m, within 1e-4. Several classes (one-vs-all): the negative logarithm of the
           probability of the label's class, normalised over the classes, with margins clipped at +-12. Within 1e-3 if
           at least one class has a probability above 1e-3 before normalisation, and always within 0.06. Softmax:
           ln sum_k e^m_k - m_y, within 1e-3
mae, rmse  |m - y| and (m - y)^2 in units of the label scale, |y| <= 1, exact to 2^-20; the caller takes the root of the
           mean. For counts e^m replaces m, with a relative error of 2e-4 plus 3e-5
mphe       the pseudo-Huber loss of unclipped margins, whose distance from the label is clipped at 2^20 slopes; within
           2e-5 and 1e-4 of the distance
auc        128 cuts. Pairs of rows between the same two neighbouring cuts count one half, like ties, so the error is at
           most half the largest fraction of negatives between two cuts. The cuts divide a Laplace distribution with the
           mean and mean absolute deviation of the margins, which are secret, into equal parts. Several classes, as in
           XGBoost: the mean of each class against the others by normalised probabilities, weighted by their rows
ks         the largest distance of both classes' distribution functions at the same cuts: too small by at most the
           largest fraction of negatives between two neighbouring cuts
aucpr      average precision at these cuts and TAIL_CUTS. Positives between two neighbouring cuts count with the
           precision in the middle, so the error of each is at most the change of the precision between the cuts

auc, ks and aucpr are undefined, as in XGBoost, if a class has no row or all rows

Security   semi-honest, perfect: composition of perfect protocols
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import select, to_ring
from mpc.comparison.argmax import argmax
from mpc.comparison.comparison import below
from mpc.functions.division import divide
from mpc.functions.reciprocal import reciprocal
from mpc.functions.sigmoid import sigmoid
from mpc.lookup.one_hot import all_of
from mpc.party import Party
from mpc.rounding.truncation import floor, truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, stack
from secure_tree.functions import softmax
from secure_tree.functions.curve_tables import LAPLACE_CUTS
from secure_tree.functions.curves import (
    BOUND,
    HUBER_LOSS,
    LOG_SIGMOID,
    MARGIN_BITS,
    MARGIN_LIMIT,
    SOFTPLUS,
    logarithm,
    quadratics,
)
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.public.objectives import Metric

PROBABILITY_SCALE = 24
# Octave of the smallest probability: the clipped sigmoid is at least e^-12 > 2^-18, minus one octave for its error.
LEAST_OCTAVE = PROBABILITY_SCALE - 18 - 1
# The cuts divide a Laplace distribution of mean absolute deviation 1.5 into equal parts.
CUT_SCALE = 31
_UPPER_CUTS = [cut for line in LAPLACE_CUTS for cut in line]
CUTS = [-cut for cut in reversed(_UPPER_CUTS)] + _UPPER_CUTS
# Cuts above CUTS, for few positives: half an octave of the tail of a Laplace distribution each.
TAIL_CUTS = [CUTS[-1] + k * (CUTS[-1] - CUTS[-2]) // 2 for k in range(1, 65)]
DEVIATION_OCTAVES = 32
# In mphe, a row is at most 2^DISTANCE_OCTAVES slopes from its label.
DISTANCE_OCTAVES = 20


def clip(party: Party, margin: AShare, bits: int, limit: int = MARGIN_LIMIT) -> Steps[AShare]:
    """[margin], |margin| < 2^(bits - 2) units -> [margin clipped to +-limit]. Three rounds."""
    limit <<= MARGIN_SCALE
    below_limits = yield from below.steps(party, margin, [-limit, limit], bits)
    beyond = stack([below_limits[..., 0], ~below_limits[..., 1]], axis=-1)
    excess = stack([margin + limit, margin - limit], axis=-1)
    return margin - (yield from select.steps(party, beyond, excess)).sum(axis=-1)


def error(party: Party, margin: AShare, labels: AShare, threshold: float) -> Steps[AShare]:
    """[margin] and [label], 0 or 1, of n rows -> [loss] at MARGIN_SCALE. Four rounds."""
    cut = math.floor(threshold * (1 << MARGIN_SCALE)) + 1
    low = yield from below.steps(party, margin, [cut], MARGIN_BITS)
    above = yield from to_ring.steps(party, ~low[:, 0])
    right = yield from multiply.steps(party, above, labels)
    return (above + labels - right - right).times(1 << MARGIN_SCALE, MARGIN_SCALE)


def class_error(party: Party, margins: AShare, labels: AShare) -> Steps[AShare]:
    """[margins] and [one-hot labels], [classes, n] -> [1 if another class has the largest margin] at MARGIN_SCALE.

    The first of equal margins counts as the largest. 3 ceil(log2 classes) + 3 rounds.
    """
    keys = (margins + (1 << MARGIN_BITS - 1)).map(np.transpose)
    largest, _ = yield from argmax.steps(party, keys, MARGIN_BITS)
    hot = yield from to_ring.steps(party, largest.map(np.transpose))
    right = yield from multiply.steps(party, hot, labels)
    return (1 - right.sum(axis=0)).times(1 << MARGIN_SCALE, MARGIN_SCALE)


def logloss(party: Party, margin: AShare, labels: AShare) -> Steps[AShare]:
    """[margin] and [label], 0 or 1 or between them at MARGIN_SCALE, of n rows -> [loss] at MARGIN_SCALE. Six rounds."""
    soft, chosen = yield from parallel(quadratics(party, margin, SOFTPLUS), multiply.steps(party, labels, margin))
    if labels.scale:
        chosen = yield from truncate.steps(party, chosen, labels.scale)
    return soft - chosen


def class_logloss(party: Party, margins: AShare, labels: AShare) -> Steps[AShare]:
    """[margins] and [one-hot labels], [classes, n] -> [ln sum_k sigma(m_k) - ln sigma(m_y)] at MARGIN_SCALE."""
    octaves = LEAST_OCTAVE, PROBABILITY_SCALE + (len(margins) - 1).bit_length()
    (p, _), own = yield from parallel(
        sigmoid.steps(party, margins, PROBABILITY_SCALE),
        multiply.steps(party, labels, margins),
    )
    total, own_log = yield from parallel(
        logarithm(party, p.sum(axis=0), *octaves), quadratics(party, own.sum(axis=0), LOG_SIGMOID)
    )
    return total - own_log + (BOUND << MARGIN_SCALE)


def softmax_logloss(party: Party, margins: AShare, labels: AShare) -> Steps[AShare]:
    """[margins] and [one-hot labels], [classes, n] -> [ln sum_k e^m_k - m_y] at MARGIN_SCALE."""
    total, own = yield from parallel(
        softmax.log_sum(party, margins, MARGIN_BITS), multiply.steps(party, labels, margins)
    )
    return total - own.sum(axis=0)


def absolute(party: Party, margin: AShare, labels: AShare) -> Steps[AShare]:
    """[margin] and [label] at MARGIN_SCALE -> [|difference|]. Three rounds."""
    difference = margin - labels
    negative = yield from below.steps(party, difference, [0], MARGIN_BITS)
    turned = yield from select.steps(party, negative[:, 0], difference)
    return difference - turned - turned


def squared(party: Party, margin: AShare, labels: AShare) -> Steps[AShare]:
    """[margin] and [label] at MARGIN_SCALE -> [difference squared]. Two rounds."""
    product = yield from multiply.steps(party, margin - labels, margin - labels)
    return (yield from truncate.steps(party, product, MARGIN_SCALE))


def pseudo_huber(party: Party, margin: AShare, labels: AShare, bits: int) -> Steps[AShare]:
    """[margin] and [label] over the slope at MARGIN_SCALE -> [loss over its square]; |margin| < 2^(bits - 2) units."""
    away = yield from clip(party, margin - labels, bits + 1, 1 << DISTANCE_OCTAVES)
    loss = yield from quadratics(party, away, HUBER_LOSS, DISTANCE_OCTAVES + MARGIN_SCALE + 2)
    return loss - away - (1 << MARGIN_SCALE)


def auc(party: Party, margin: AShare, labels: AShare) -> Steps[AShare]:
    """[margin] and [label], 0 or 1, of n < 2^21 rows -> [AUC] at MARGIN_SCALE; 0 if all labels are equal."""
    below_cuts = yield from _counts_below(party, margin, labels, CUTS)
    return (yield from auc_of_counts(party, below_cuts.reshape(2, 1, -1), len(labels)))


def auc_of_counts(party: Party, below_cuts: AShare, rows: int) -> Steps[AShare]:
    """[numbers of ones and zeros below each cut], [2, d, cuts], 0 below the first -> [AUC] at MARGIN_SCALE, [d]."""
    counts, sums = _differences(below_cuts), below_cuts[..., 1:] + below_cuts[..., :-1]
    wins, pairs = yield from parallel(multiply.steps(party, counts[0], sums[1]), _pairs(party, below_cuts))
    # Twice the correctly ordered pairs, over twice all pairs.
    return (yield from _over(party, wins.sum(axis=-1), pairs + pairs, rows**2))


def ks(party: Party, margin: AShare, labels: AShare) -> Steps[AShare]:
    """[margin] and [label], 0 or 1, of n < 2^21 rows -> [Kolmogorov-Smirnov statistic] at MARGIN_SCALE.

    0 if all labels are equal.
    """
    below_cuts = yield from _counts_below(party, margin, labels, CUTS)
    return (yield from ks_of_counts(party, below_cuts.reshape(2, 1, -1), len(labels)))


def ks_of_counts(party: Party, below_cuts: AShare, rows: int) -> Steps[AShare]:
    """[numbers of ones and zeros below each cut], [2, d, cuts] -> [KS] at MARGIN_SCALE, [d]."""
    totals = stack([below_cuts[1, :, -1:], below_cuts[0, :, -1:]]).map(lambda w: np.broadcast_to(w, below_cuts.shape))
    crossed, pairs = yield from parallel(multiply.steps(party, below_cuts, totals), _pairs(party, below_cuts))
    most, difference = rows**2, crossed[0] - crossed[1]
    distances = concatenate([difference, -difference], axis=-1) + most
    _, largest = yield from argmax.steps(party, distances, (2 * most).bit_length())
    return (yield from _over(party, largest - most, pairs, most))


def aucpr(party: Party, margin: AShare, labels: AShare) -> Steps[AShare]:
    """[margin] and [label], 0 or 1, of n < 2^21 rows -> [average precision] at MARGIN_SCALE."""
    below_cuts = yield from _counts_below(party, margin, labels, CUTS + TAIL_CUTS)
    counts = _differences(below_cuts)
    # Twice the rows above the middle of a bucket.
    above = (below_cuts[:, -1:] - below_cuts[:, 1:]).times(2) + counts
    high = (2 * len(labels)).bit_length()
    precision = yield from divide.steps(party, above[0], above[0] + above[1], 0, high, MARGIN_SCALE)
    found = yield from multiply.steps(party, AShare(precision.words, party.rank), counts[0])
    positives = below_cuts[0, -1:]
    mean = yield from divide.steps(party, found.sum().reshape(1), positives, 0, high, 0)
    return AShare(mean.words, party.rank, MARGIN_SCALE)


def _counts_below(party: Party, margin: AShare, labels: AShare, cuts: list[int]) -> Steps[AShare]:
    """Return [numbers of ones and zeros below each cut], [2, cuts + 2]; the outermost two have no row and all rows."""
    low = yield from _below_cuts(party, margin, cuts)
    of_class = stack([labels, 1 - labels], axis=-1)
    counted = yield from select.steps(party, low.map(lambda b: b[..., None]), of_class.map(lambda w: w[:, None]))
    counts, totals = counted.sum(axis=0).map(np.transpose), of_class.sum(axis=0)
    words = [np.zeros((2, 1), np.uint64), counts.words, totals.words[:, None]]
    return AShare(np.concatenate(words, axis=1), party.rank)


def _differences(below_cuts: AShare) -> AShare:
    """Return the numbers of rows between neighbouring cuts, [2, .., cuts + 1]."""
    return below_cuts[..., 1:] - below_cuts[..., :-1]


def _pairs(party: Party, below_cuts: AShare) -> Steps[AShare]:
    """Return [number of pairs of a one and a zero], [d]."""
    return multiply.steps(party, below_cuts[0, ..., -1], below_cuts[1, ..., -1])


def _over(party: Party, part: AShare, whole: AShare, most: int) -> Steps[AShare]:
    """[part], [whole], integers with part <= whole <= most -> [part / whole] at MARGIN_SCALE; 0 if whole is 0."""
    y, s = yield from reciprocal.steps(party, whole, 0, max(2, most.bit_length()))
    scaled = yield from multiply.steps(party, part, s)
    ratio = yield from multiply.steps(party, scaled, y)
    return (yield from floor.steps(party, ratio, ratio.scale - MARGIN_SCALE))


def _below_cuts(party: Party, margin: AShare, cuts: list[int]) -> Steps[BShare]:
    """[margin] -> <margin is below each cut>, [n, cuts].

    The cuts apply to f (m - mean), where f is a power of two such that the mean of |f (m - mean)| is between 1 and 2.
    """
    rows = len(margin)
    mean = yield from truncate.steps(party, margin.sum().reshape(1).times(round(2**30 / rows), 30), 30)
    centred = margin - mean
    negative = yield from below.steps(party, centred, [0], MARGIN_BITS + 1)
    turned = yield from select.steps(party, negative[:, 0], centred)
    deviation = (centred - turned - turned).sum().reshape(1)
    octaves = [rows << j for j in range(DEVIATION_OCTAVES)]
    small = yield from below.steps(party, deviation, octaves, 62)
    reached = yield from to_ring.steps(party, ~small)
    # f is 0 if no octave is reached. Otherwise it starts at the largest power and halves with every further octave.
    top = DEVIATION_OCTAVES - 1
    steps = [1 << top, *(-(1 << top - j) for j in range(1, top + 1))]
    factor = reached.times(steps, CUT_SCALE - MARGIN_SCALE).sum(axis=-1)
    stretched = yield from multiply.steps(party, factor.map(lambda w: np.repeat(w, rows)), centred)
    return (yield from below.steps(party, stretched, cuts, 62))


def log_probabilities(party: Party, margins: AShare) -> Steps[AShare]:
    """[margins], [classes, n] -> [ln sigma(m_k) - ln sum_j sigma(m_j)] at MARGIN_SCALE, with the error of logloss."""
    octaves = LEAST_OCTAVE, PROBABILITY_SCALE + (len(margins) - 1).bit_length()
    (p, _), logs = yield from parallel(
        sigmoid.steps(party, margins, PROBABILITY_SCALE),
        quadratics(party, margins.reshape(-1), LOG_SIGMOID),
    )
    total = yield from logarithm(party, p.sum(axis=0), *octaves)
    return logs.reshape(*margins.shape) - total - (BOUND << MARGIN_SCALE)


def of_ranking(
    party: Party, metric: Metric, margins: AShare, labels: AShare, softmax_of_all: bool = False
) -> Steps[AShare]:
    """[margins] and [one-hot labels], [classes, n] -> n times [1 + metric] at MARGIN_SCALE, 0 if it is undefined, [1].

    Two classes have one margin, and labels 0 and 1. Gini has the AUC instead.
    """
    classes, n = labels.shape
    if classes == 1:
        ranked = margins
    elif softmax_of_all:
        ranked = margins - (yield from softmax.log_sum(party, margins, MARGIN_BITS))
    else:
        ranked = yield from log_probabilities(party, margins)
    counts = labels.sum(axis=1)
    each, few = yield from parallel(
        parallel(*(OF_ALL_ROWS[metric](party, ranked[k], labels[k]) for k in range(classes))),
        below.steps(party, concatenate([counts, n - counts]), [1], n.bit_length() + 2),
    )
    values = stack(list(each)).reshape(-1)
    if classes == 1:
        mean = values.times(n)
    else:
        mean = (yield from multiply.steps(party, values, counts)).sum().reshape(1)
    defined = yield from all_of.steps(party, ~few.reshape(1, -1))
    return (yield from select.steps(party, defined, mean + (n << MARGIN_SCALE)))


# Metrics of the ranking of all rows, for one class at a time; other metrics are sums over rows. Gini is 2 AUC - 1.
OF_ALL_ROWS: dict[Metric, Callable[[Party, AShare, AShare], Steps[AShare]]] = {
    "auc": auc,
    "gini": auc,
    "aucpr": aucpr,
    "ks": ks,
}
