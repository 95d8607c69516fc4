"""Gain of every candidate of every node of a level, as one comparable key.

gain = T(G_L) w_L + T(G_R) w_R with w = T(G) / (H + lambda), T the soft threshold by alpha: twice the seed's formula, as
in XGBoost's code. Where |w| has a bound b (max_delta_step), w = B / (H + lambda), B being T(G) up to b (H + lambda),
and a side's gain is (2 T(G) - B) w: XGBoost's 2 T(G) w - (H + lambda) w^2. All arithmetic is exact on integers, so that
the plaintext twin finds the same winner bit for bit.
"""

from __future__ import annotations

import numpy as np

from mpc.beaver import multiply
from mpc.bit_product import and_bits, select
from mpc.comparison import below
from mpc.party import Party
from mpc.reciprocal import invert, normalise
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, stack
from mpc.truncation import floor
from secure_tree.numerics import STEP_BITS, STEP_SCALE, Numerics

# |G| and alpha are at most 2^31 by the choice of the histogram scale; counts are below 2^31.
SUM_BITS = 40
COUNT_BITS = 34


def soft_threshold(party: Party, sums: AShare, alpha: int) -> Steps[AShare]:
    """[G] -> [sign(G) max(|G| - alpha, 0)]; nothing is sent when alpha is 0."""
    if alpha == 0:
        return sums
    bits = yield from below.steps(party, sums, [-alpha, alpha + 1], SUM_BITS)
    moved = stack([sums + alpha, sums - alpha], axis=-1)
    low, high = bits[..., 0], ~bits[..., 1]
    kept = yield from select.steps(party, stack([low, high], axis=-1), moved)
    return kept.sum(axis=-1)


def weights(party: Party, numerics: Numerics, G: AShare, H: AShare, shift: int) -> Steps[tuple[AShare, AShare, BShare]]:
    """[gain / w], [w] and <H >= min_child_weight> for sums of one shape; `shift` of Numerics sets the scale of w."""
    denominator = H + numerics.l2
    (u, s, invalid), (by_weight, bounded) = yield from parallel(
        normalise.steps(party, denominator, numerics.low, numerics.high, [numerics.min_weight]),
        _bounded(party, numerics, G, denominator),
    )
    y, scaled = yield from parallel(invert.steps(party, u), _scaled(party, bounded, s, numerics.early_shift))
    product = yield from multiply.steps(party, scaled, y)
    w = yield from floor.steps(party, product, shift)
    return by_weight, w, ~invalid[..., 0]


def _bounded(party: Party, numerics: Numerics, G: AShare, denominator: AShare) -> Steps[tuple[AShare, AShare]]:
    """[G], [H + lambda] -> [2 T(G) - B] and [B], B's bound to half a unit; both are [T(G)] where weights have none."""
    if not numerics.largest_step:
        thresholded = yield from soft_threshold(party, G, numerics.l1)
        return thresholded, thresholded
    thresholded, limit = yield from parallel(
        soft_threshold(party, G, numerics.l1),
        floor.steps(party, denominator.times(numerics.largest_step, STEP_SCALE) + (1 << STEP_SCALE - 1), STEP_SCALE),
    )
    excess = stack([thresholded + limit, thresholded - limit], axis=-1)
    low = (yield from below.steps(party, excess, [0], STEP_BITS + 2))[..., 0]
    beyond = stack([low[..., 0], ~low[..., 1]], axis=-1)
    cut = (yield from select.steps(party, beyond, excess)).sum(axis=-1)
    return thresholded + cut, thresholded - cut


def _scaled(party: Party, G: AShare, s: AShare, shift: int) -> Steps[AShare]:
    product = yield from multiply.steps(party, G, s)
    if shift:
        product = yield from floor.steps(party, product, shift)
    return product


def keys(
    party: Party, numerics: Numerics, left: AShare, total: AShare, rank: AShare, min_samples: int
) -> Steps[AShare]:
    """[left sums], [v, s, C + 1], and [totals], [v, s], s = (G, H) or (G, H, rows) -> [key], [v, C + 1].

    A key is (gain << rank_bits) + 2^rank_bits - 1 - rank, at a scale of rank_bits more than the gain's, and 0 for an
    invalid candidate. The null split, last, is
    always valid; its gain is the node's own plus min_split_loss, and 0 where the node is below min_child_weight.
    """
    sides = stack([left, total.map(lambda t: t[..., None]) - left])
    sums, (G, w, heavy) = yield from parallel(
        _many_enough(party, sides, min_samples),
        weights(party, numerics, sides[:, :, 0], sides[:, :, 1], numerics.weight_shift),
    )
    valid_sides = [heavy[0], heavy[1], *sums]
    gain, valid = yield from parallel(multiply.steps(party, G, w), _all(party, valid_sides))
    gain = gain.sum(axis=0)
    loss = np.zeros(gain.shape[-1], np.int64)
    loss[-1] = numerics.split_loss
    gain = gain + loss
    if numerics.gain_shift:
        gain = yield from floor.steps(party, gain, numerics.gain_shift)
    gain = gain.times(1 << numerics.rank_bits, numerics.rank_bits)
    places = (((1 << numerics.rank_bits) - 1) - rank).at_scale(gain.scale)
    # The rank of the null split counts, whatever its gain.
    null = np.arange(gain.shape[-1]) == gain.shape[-1] - 1
    key = gain + places.map(lambda w: w * ~null)
    chosen = concatenate([valid[:, :-1], heavy[1][:, -1:]], axis=1)
    return (yield from select.steps(party, chosen, key)) + places.map(lambda w: w * null)


def _many_enough(party: Party, sides: AShare, min_samples: int) -> Steps[list[BShare]]:
    if sides.shape[2] == 2:
        return []
    few = yield from below.steps(party, sides[:, :, 2], [min_samples], COUNT_BITS)
    return [~few[0, ..., 0], ~few[1, ..., 0]]


def _all(party: Party, bits: list[BShare]) -> Steps[BShare]:
    while len(bits) > 1:
        pairs = yield from and_bits.steps(party, stack(bits[0::2]), stack(bits[1::2]))
        bits = [pairs[i] for i in range(len(pairs))]
    return bits[0]
