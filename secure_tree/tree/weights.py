"""Weight w = T(G) / (H + lambda) of every node and its gain T(G) w, where T is the soft threshold by alpha.

A gain is twice PETML's formula, as in XGBoost's code. If |w| has a bound c (max_delta_step), w = B / (H + lambda),
where B is T(G) clipped to c (H + lambda), and the gain is (2 T(G) - B) w, which is XGBoost's
2 T(G) w - (H + lambda) w^2. All arithmetic is exact on integers, so the plaintext twin computes the same values bit for
bit.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import select
from mpc.comparison.comparison import below
from mpc.functions.reciprocal import invert, normalise
from mpc.party import Party
from mpc.rounding.truncation import floor
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, stack
from secure_tree.public.numerics import STEP_BITS, STEP_SCALE, SUM_BITS, Numerics

# Bits of a comparison of G with alpha.
THRESHOLD_BITS = SUM_BITS + 4


def soft_threshold(party: Party, sums: AShare, alpha: int) -> Steps[AShare]:
    """[G] -> [sign(G) max(|G| - alpha, 0)]. Nothing is sent if alpha is 0."""
    if alpha == 0:
        return sums
    bits = yield from below.steps(party, sums, [-alpha, alpha + 1], THRESHOLD_BITS)
    moved = stack([sums + alpha, sums - alpha], axis=-1)
    low, high = bits[..., 0], ~bits[..., 1]
    kept = yield from select.steps(party, stack([low, high], axis=-1), moved)
    return kept.sum(axis=-1)


# [u] and [s] of H + lambda, as of `normalise`, and <H >= min_child_weight>.
Normalised: TypeAlias = tuple[AShare, AShare, BShare]


def normalised(party: Party, numerics: Numerics, H: AShare) -> Steps[Normalised]:
    """[H] -> Normalised."""
    u, s, light = yield from normalise.steps(party, H + numerics.l2, numerics.low, numerics.high, [numerics.min_weight])
    return u, s, ~light[..., 0]


def weights(
    party: Party, numerics: Numerics, G: AShare, H: AShare, normal: Steps[Normalised]
) -> Steps[tuple[AShare, AShare, AShare]]:
    """[G], [H] of equal shape, and `normalised` -> [gain / w], [w] at the weight scale and at MARGIN_SCALE."""
    (u, s, _), (thresholded, cut) = yield from parallel(normal, cut_off(party, numerics, G, H + numerics.l2))
    y, scaled = yield from parallel(invert.steps(party, u), _scaled(party, thresholded - cut, s, numerics.early_shift))
    product = yield from multiply.steps(party, scaled, y)
    w, leaf = yield from parallel(
        floor.steps(party, product, numerics.weight_shift), floor.steps(party, product, numerics.leaf_shift)
    )
    return thresholded + cut, w, leaf


def cut_off(party: Party, numerics: Numerics, G: AShare, denominator: AShare) -> Steps[tuple[AShare, AShare]]:
    """[G], [H + lambda] -> [T(G)] and [T(G) - B], with the bound of B rounded to half a unit; 0 without a bound.

    Five rounds.
    """
    if not numerics.largest_step:
        thresholded = yield from soft_threshold(party, G, numerics.l1)
        return thresholded, thresholded.map(np.zeros_like)
    thresholded, limit = yield from parallel(
        soft_threshold(party, G, numerics.l1),
        floor.steps(party, denominator.times(numerics.largest_step, STEP_SCALE) + (1 << STEP_SCALE - 1), STEP_SCALE),
    )
    excess = stack([thresholded + limit, thresholded - limit], axis=-1)
    low = (yield from below.steps(party, excess, [0], STEP_BITS + 2))[..., 0]
    beyond = stack([low[..., 0], ~low[..., 1]], axis=-1)
    return thresholded, (yield from select.steps(party, beyond, excess)).sum(axis=-1)


def _scaled(party: Party, G: AShare, s: AShare, shift: int) -> Steps[AShare]:
    product = yield from multiply.steps(party, G, s)
    if shift:
        product = yield from floor.steps(party, product, shift)
    return product
