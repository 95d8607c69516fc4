"""First and second derivatives of the loss from shares of the margin, rounded to the histogram scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import select
from mpc.functions.sigmoid import sigmoid
from mpc.party import Party
from mpc.rings import Z32, Z64
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, concatenate, public_ring, stack
from secure_tree.functions import powers, softmax
from secure_tree.functions.curves import EXP, EXP_SCALE, HUBER_CURVATURE, HUBER_SLOPE, both_quadratics, quadratics
from secure_tree.public.config import POWER_SCALE
from secure_tree.public.context import TrainingContext
from secure_tree.public.numerics import MARGIN_SCALE, STEP_SCALE, WEIGHT_INPUT_SCALE
from secure_tree.public.sampling import row_mask


@dataclass(frozen=True)
class Targets:
    """The targets of the trees of a round, and the weights of the rows.

    labels: [classes, n], either classes 0 and 1, or at MARGIN_SCALE labels over the label scale, or under reg:gamma and
    reg:tweedie their logarithms. weights: [n], over the weight
    scale at WEIGHT_INPUT_SCALE; None if all rows have the same weight.
    """

    labels: AShare
    weights: AShare | None


def gradients(
    party: Party, context: TrainingContext, targets: Targets, k: int, margin: AShare, pair: AShare | None = None
) -> Steps[list[AShare]]:
    """[margin] of class k -> for each of its trees [g], [h] and, if rows are counted, [1], uint32 [s, n].

    They are at the histogram scale, and differ between the trees of a round only in the rows that are left out.

    Logistic: sigma - y and sigma (1 - sigma). Squared error: (margin - y) / label_scale and 1. Counts: e^m - y and
    e^(m + max_delta_step), both over the label scale, with e^m clipped to about twice the label scale. Gamma and
    Tweedie: as in secure_tree/functions/powers.py, over its unit. Pseudo-Huber, for z = (margin - y) / huber_slope:
    z / r and 1 / r^3, r being the root of 1 + z^2. g and h are multiplied by the row's weight over the weight scale,
    and all values are 0 for rows that `subsample` leaves out of a tree. Softmax: `pair` has [g] and [h], of
    `softmax_gradients`.

    Rounding is stochastic and unbiased, so that errors average out in sums over many rows.
    """
    config, n = context.config, margin.shape[0]
    trees = config.num_parallel_tree
    steps, kept = of_every_row(party, context, targets, k, margin, pair), None
    if config.subsample < 1:
        derived, kept = yield from parallel(steps, row_mask(party, config.subsample, trees * n))
    else:
        derived = yield from steps
    if config.min_child_samples > 1:
        units = public_ring(np.ones((1, n), np.int64), party.rank, derived.scale, derived.ring)
        derived = concatenate([derived, units])
    values = derived.narrow(Z32)
    if kept is None:
        return [values] * trees
    kept = kept.reshape(trees, 1, n)
    return list((yield from parallel(*(select.steps(party, kept[t], values) for t in range(trees)))))


def of_every_row(
    party: Party, context: TrainingContext, targets: Targets, k: int, margin: AShare, pair: AShare | None = None
) -> Steps[AShare]:
    """Return [g], [h] of class k at the histogram scale, of all rows, [2, n]. Arguments as of `gradients`."""
    derive = _DERIVE.get(context.config.objective)
    return derive(party, context, targets.labels[k], targets.weights, margin) if derive else _given(pair)


def softmax_gradients(party: Party, context: TrainingContext, targets: Targets, margins: AShare) -> Steps[AShare]:
    """[margins], [K, n] -> [g], [h] of every class at the histogram scale, [K, 2, n]: p - y and 2 p (1 - p)."""
    numerics, weights = context.numerics, targets.weights
    scale, ring = (numerics.histogram_scale, Z32) if weights is None else (MARGIN_SCALE, Z64)
    p = yield from softmax.softmax(party, margins, numerics.margin_bits, scale, ring)
    h = yield from softmax.curvature(party, p, scale)
    pairs = stack([p - targets.labels.times(1 << scale, scale).narrow(ring), h], axis=1)
    return pairs if weights is None else (yield from _weighted(party, context, weights, pairs))


def _given(pair: AShare | None) -> Steps[AShare]:
    """Return gradients that are there already, without a message."""
    assert pair is not None, "the objective has gradients of its own, or those of a round"
    return pair
    yield


def _logistic(
    party: Party, context: TrainingContext, labels: AShare, weights: AShare | None, margin: AShare
) -> Steps[AShare]:
    """Return [g], [h] at the histogram scale, uint32 [2, n]; uint64 if rows have weights."""
    numerics = context.numerics
    scale, ring = (numerics.histogram_scale, Z32) if weights is None else (MARGIN_SCALE, Z64)
    p, h = yield from sigmoid.steps(party, margin, scale, ring, bits=numerics.margin_bits)
    pair = stack([p - labels.times(1 << scale, scale).narrow(ring), h])
    return pair if weights is None else (yield from _weighted(party, context, weights, pair))


def _soft(
    party: Party, context: TrainingContext, labels: AShare, weights: AShare | None, margin: AShare
) -> Steps[AShare]:
    """As `_logistic`, of labels between 0 and 1 at MARGIN_SCALE."""
    p, h = yield from sigmoid.steps(party, margin, MARGIN_SCALE, Z64, bits=context.numerics.margin_bits)
    pair = stack([p - labels, h])
    if weights is None:
        return (yield from truncate.steps(party, pair, MARGIN_SCALE - context.numerics.histogram_scale))
    return (yield from _weighted(party, context, weights, pair))


def _squared(
    party: Party, context: TrainingContext, labels: AShare, weights: AShare | None, margin: AShare
) -> Steps[AShare]:
    """Return [g], [h] at the histogram scale, uint64 [2, n]."""
    scale = _before_weights(context, weights)
    g = margin - labels
    if weights is None:
        g = yield from truncate.steps(party, g, MARGIN_SCALE - scale)
    pair = stack([g, public_ring(np.full(margin.shape, 1 << scale), party.rank, scale)])
    return pair if weights is None else (yield from _weighted(party, context, weights, pair))


def _poisson(
    party: Party, context: TrainingContext, labels: AShare, weights: AShare | None, margin: AShare
) -> Steps[AShare]:
    """Return [g], [h] at the histogram scale, uint64 [2, n]. The margin lacks the logarithm of the label scale."""
    numerics = context.numerics
    expected = yield from quadratics(party, margin, EXP, numerics.margin_bits, EXP_SCALE)
    g = expected - labels.times(1 << EXP_SCALE - MARGIN_SCALE, EXP_SCALE - MARGIN_SCALE)
    factors = 1 << STEP_SCALE, numerics.hessian_factor
    pair = stack([x.times(f, STEP_SCALE) for x, f in zip((g, expected), factors, strict=True)])
    pair = yield from truncate.steps(party, pair, EXP_SCALE + STEP_SCALE - _before_weights(context, weights))
    return pair if weights is None else (yield from _weighted(party, context, weights, pair))


def _pseudo_huber(
    party: Party, context: TrainingContext, labels: AShare, weights: AShare | None, margin: AShare
) -> Steps[AShare]:
    """Return [g], [h] at the histogram scale, uint64 [2, n]."""
    curves, scale = (HUBER_SLOPE, HUBER_CURVATURE), _before_weights(context, weights)
    both = yield from both_quadratics(party, margin - labels, curves, context.numerics.margin_bits + 1, scale)
    pair = stack([both[0] - (1 << scale), both[1]])
    return pair if weights is None else (yield from _weighted(party, context, weights, pair))


def _of_power(
    party: Party, context: TrainingContext, labels: AShare, weights: AShare | None, margin: AShare
) -> Steps[AShare]:
    """Return [g], [h] at the histogram scale, uint64 [2, n]. The labels are logarithms."""
    both = yield from powers.terms(party, context, margin, labels, context.numerics.reach)
    means, over = both[0], both[1]
    lean = round(((context.config.power or 1) - 1) * (1 << POWER_SCALE))
    h = means.times((1 << POWER_SCALE) - lean, POWER_SCALE) + over.times(lean, POWER_SCALE)
    pair = stack([(means - over).times(1 << POWER_SCALE, POWER_SCALE), h])
    pair = yield from truncate.steps(party, pair, EXP_SCALE + POWER_SCALE - _before_weights(context, weights))
    return pair if weights is None else (yield from _weighted(party, context, weights, pair))


def _before_weights(context: TrainingContext, weights: AShare | None) -> int:
    """Return the scale of gradients before they are multiplied by weights, or that of histograms without weights."""
    return context.numerics.histogram_scale if weights is None else MARGIN_SCALE


def _weighted(party: Party, context: TrainingContext, weights: AShare, pair: AShare) -> Steps[AShare]:
    """[g], [h] at MARGIN_SCALE -> their products with the weights at the histogram scale, which are below 2^40."""
    alike = weights.map(lambda w: np.ascontiguousarray(np.broadcast_to(w, pair.shape)))
    product = yield from multiply.steps(party, pair, alike)
    shift = MARGIN_SCALE + WEIGHT_INPUT_SCALE - context.numerics.histogram_scale
    return (yield from truncate.steps(party, product, shift))


_DERIVE: dict[str, Callable[[Party, TrainingContext, AShare, AShare | None, AShare], Steps[AShare]]] = {
    "binary:logistic": _logistic,
    "multi:ova": _logistic,
    "reg:squarederror": _squared,
    "reg:logistic": _soft,
    "count:poisson": _poisson,
    "reg:gamma": _of_power,
    "reg:tweedie": _of_power,
    "reg:pseudohubererror": _pseudo_huber,
}
