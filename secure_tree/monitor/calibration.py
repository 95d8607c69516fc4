"""How well margins rank and predict the labels, from counts of both classes by bins of log-odds.

auc      area under the curve of 96 bins. Pairs of rows in the same bin count one half: within 1e-3 if the margins are
         spread smoothly over a third of the span or more, and in any case within half of the pairs in the same bin
ks       the largest distance of both classes' distribution functions at the ends of these bins
ece      expected calibration error: the mean of |mean probability - fraction of labels 1| in 12 bins of log-odds,
         weighted by their rows
slope    of the least-squares line of the labels over the probabilities, 1 if they are calibrated

Functionality  <bin>, <label>, [probability] of each row -> [statistics]
Messages       a conjunction of the bin with the label; counts; a choice of the probability by the bin; for the slope,
               squares of the probability; then quotients of a few numbers
Error          2^-15 of auc, ks and ece, besides the bins; 2^-12 of a slope up to 2
Security       semi-honest, perfect: composition of perfect protocols
Source         ece: Guo et al., ICML 2017
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import and_each, select
from mpc.comparison.comparison import below
from mpc.functions.division import divide
from mpc.party import Party
from mpc.rounding.truncation import floor, truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, stack
from secure_tree.functions.metrics import auc_of_counts, ks_of_counts
from secure_tree.monitor.config import MonitorConfig
from secure_tree.monitor.known import PROBABILITY
from secure_tree.monitor.numbers import Number, above
from secure_tree.monitor.scores import counts, sums
from secure_tree.public.numerics import MARGIN_SCALE

# Pairs of rows fit a word.
_CURVE_BITS = 21
# The scales of means, and of the distance of a slope from 1.
_MEAN, _SLOPE_BITS = 30, 44


def class_counts(party: Party, bins: BShare, labels: BShare) -> Steps[AShare]:
    """<bin>, [n, k], <label>, [n] -> [rows labelled 1, and all rows of each bin], [2, k]."""
    both = yield from and_each.steps(party, labels, bins)
    counted = yield from counts(party, concatenate([both, bins], axis=1))
    return counted.reshape(2, -1)


def curve_counts(counted: AShare) -> AShare:
    """[rows labelled 1, and all rows of each bin], [2, k] -> [ones and zeros below the bins' ends], [2, k + 1]."""
    classes = stack([counted[0], counted[1] - counted[0]])
    return concatenate([classes[:, :1] - classes[:, :1], classes.cumsum(axis=1)], axis=1)


def curves(party: Party, config: MonitorConfig, counted: AShare, n: int, before: AShare | None) -> Steps[list[Number]]:
    """[rows labelled 1, and all rows of each bin], [2, k], of n rows, and of the profile -> auc and ks.

    n: the larger number of rows of both.
    """
    both = [curve_counts(each) for each in (counted, before) if each is not None]
    given, bits = stack(both, axis=1), n.bit_length()
    if shift := max(0, bits - _CURVE_BITS):
        given = yield from floor.steps(party, given, shift)
    names = [name for name in ("auc", "ks") if name in config.statistics]
    of = {"auc": auc_of_counts, "ks": ks_of_counts}
    values = yield from parallel(*(of[name](party, given, (1 << bits - shift) - 1) for name in names))
    found = []
    for name, value in zip(names, values, strict=True):
        drop = config.alarms.auc_drop if name == "auc" else config.alarms.ks_drop
        beyond = None if before is None else value[:1] - value[1:] + round(drop * (1 << MARGIN_SCALE))
        found.append(Number("auc" if name == "auc" else "ks", value[:1], beyond))
    return found


def calibration_error(
    party: Party, config: MonitorConfig, bins: BShare, counted: AShare, p: AShare
) -> Steps[list[Number]]:
    """<bin>, [n, k], [rows labelled 1, and all rows of each bin], [2, k], [probability] at scale 12 -> ece."""
    n = len(p)
    expected = yield from sums(party, bins, p, PROBABILITY + 1)
    gaps = expected - counted[0].times(1 << PROBABILITY).at_scale(PROBABILITY)
    negative = yield from below.steps(party, gaps, [0], PROBABILITY + n.bit_length() + 3)
    turned = yield from select.steps(party, negative[..., 0], gaps)
    value = yield from _mean(party, (gaps - turned - turned).sum().reshape(1), n, MARGIN_SCALE)
    return [Number("ece", value, above(value, config.alarms.ece))]


def slope(party: Party, config: MonitorConfig, labels: BShare, positives: AShare, p: AShare) -> Steps[list[Number]]:
    """<label>, [probability] at scale 12 -> slope."""
    n = len(p)
    of_ones, squares = yield from parallel(select.steps(party, labels, p, None, True), multiply.steps(party, p, p))
    squared = yield from truncate.steps(party, squares.sum().reshape(1), PROBABILITY)
    ones = positives.times(1 << PROBABILITY).at_scale(PROBABILITY).reshape(1)
    parts = concatenate([of_ones.reshape(1), squared, p.sum().reshape(1), ones])
    means = yield from _mean(party, parts, n, _MEAN)
    crossed, mean = means[:2], means[2:3].map(lambda w: np.repeat(w, 2))
    products = yield from multiply.steps(party, mean, concatenate([means[3:], means[2:3]]))
    covariance = crossed - (yield from truncate.steps(party, products, _MEAN))
    # A variance is at most 1/4, and where it is below 2^-20 all probabilities are almost equal.
    found = yield from divide.steps(party, covariance[:1], covariance[1:], _MEAN - 20, _MEAN - 2, MARGIN_SCALE)
    value = AShare(found.words, party.rank, MARGIN_SCALE)
    off = value - (1 << MARGIN_SCALE)
    negative = yield from below.steps(party, off, [0], _SLOPE_BITS)
    turned = yield from select.steps(party, negative[..., 0], off)
    return [Number("slope", value, above(off - turned - turned, config.alarms.slope))]


def _mean(party: Party, total: AShare, n: int, scale: int) -> Steps[AShare]:
    """[sums of n numbers up to 1] at scale 12 -> [means] at `scale`, within 2^-22 and a unit."""
    shift = 44
    whole = total.times(round((1 << shift) / n), shift)
    return (yield from truncate.steps(party, whole, PROBABILITY + shift - scale))
