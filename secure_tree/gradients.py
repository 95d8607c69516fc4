"""First and second derivatives of the loss, from shares of the margin, rounded to the histogram's scale."""

from __future__ import annotations

import numpy as np

from mpc.beaver import multiply
from mpc.bit_product import select
from mpc.party import Party
from mpc.rings import Z32, Z64
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, concatenate, public_ring, stack
from mpc.sigmoid import sigmoid
from mpc.truncation import truncate
from secure_tree.curves import EXP, quadratics
from secure_tree.numerics import MARGIN_SCALE, STEP_SCALE, WEIGHT_INPUT_SCALE
from secure_tree.sampling import row_mask
from secure_tree.tree import Ground


def gradients(party: Party, ground: Ground, labels: AShare, margin: AShare) -> Steps:
    """[margin] at MARGIN_SCALE -> [g], [h] and, if rows are to be counted, [1]: uint32 [s, n] at the histogram scale.

    Logistic: sigma - y and sigma (1 - sigma). Squared error: margin - y and 1, the former over the label scale. Counts:
    e^m - y and e^(m + max_delta_step), both over the label scale, e^m being at most twice that. Times the row's weight,
    over the weight scale; 0 where `subsample` leaves the row out.
    Rounding is stochastic and unbiased, so that sums over many rows lose nothing.
    """
    config, n = ground.config, margin.shape[0]
    derive = _logistic if config.logistic else _poisson if config.counts else _squared
    if config.subsample < 1:
        derived, kept = yield from parallel(derive(party, ground, labels, margin), row_mask(party, config.subsample, n))
    else:
        derived, kept = (yield from derive(party, ground, labels, margin)), None
    if config.min_child_samples > 1:
        derived = concatenate([derived, public_ring(np.ones((1, n), np.int64), party.rank).narrow(derived.ring)])
    values = derived.narrow(Z32)
    return values if kept is None else (yield from select.steps(party, kept.reshape(1, n), values))


def _logistic(party: Party, ground: Ground, labels: AShare, margin: AShare) -> Steps:
    """[g], [h] at the histogram scale, [2, n], uint32; uint64 where rows have weights."""
    scale, ring = (ground.numerics.histogram_scale, Z32) if ground.weights is None else (MARGIN_SCALE, Z64)
    p, h = yield from sigmoid.steps(party, margin.at_scale(MARGIN_SCALE), scale, ring, bits=ground.numerics.margin_bits)
    pair = stack([p.at_scale(0) - labels.times(1 << scale).narrow(ring), h.at_scale(0)])
    return pair if ground.weights is None else (yield from _weighted(party, ground, pair))


def _squared(party: Party, ground: Ground, labels: AShare, margin: AShare) -> Steps:
    """[g], [h] at the histogram scale, uint64 [2, n]."""
    scale = ground.numerics.histogram_scale
    g = margin - labels
    if ground.weights is not None:
        one = public_ring(np.full(margin.shape, 1 << MARGIN_SCALE), party.rank)
        return (yield from _weighted(party, ground, stack([g, one])))
    g = yield from truncate.steps(party, g, MARGIN_SCALE - scale)
    return stack([g.at_scale(0), public_ring(np.full(margin.shape, 1 << scale), party.rank)])


def _poisson(party: Party, ground: Ground, labels: AShare, margin: AShare) -> Steps:
    """[g], [h] at the histogram scale, uint64 [2, n]; the margin lacks the logarithm of the label scale."""
    expected = yield from quadratics(party, margin, EXP, ground.numerics.margin_bits)
    pair = stack([(expected - labels).times(1 << STEP_SCALE), expected.times(ground.numerics.hessian_factor)])
    scale = MARGIN_SCALE if ground.weights is not None else ground.numerics.histogram_scale
    pair = (yield from truncate.steps(party, pair, MARGIN_SCALE + STEP_SCALE - scale)).at_scale(0)
    return pair if ground.weights is None else (yield from _weighted(party, ground, pair))


def _weighted(party: Party, ground: Ground, pair: AShare) -> Steps:
    """[g], [h] at MARGIN_SCALE -> times the weights, at the histogram scale; products stay below 2^40."""
    assert ground.weights is not None
    product = yield from multiply.steps(party, pair, stack([ground.weights, ground.weights]))
    shift = MARGIN_SCALE + WEIGHT_INPUT_SCALE - ground.numerics.histogram_scale
    return (yield from truncate.steps(party, product, shift)).at_scale(0)
