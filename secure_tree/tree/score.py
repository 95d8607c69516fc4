"""Ranking of the candidates of all nodes of a level, without a division.

Let a = H_L + lambda, b = H_R + lambda, S = a + b, T the soft threshold by alpha, x = T(G_L), y = T(G_R), t = x + y. The
gains of both sides add up to t^2 / S + S u^2 / (a b), where u = x - (a / S) t. S is the same for all candidates of a
node. Without an alpha, so is t = G, and candidates are ranked by 2 log |u| - log (a b). With a dealer, a b is computed,
times a power of two of the node; two parties add up log a and log b instead, which takes fewer transfers than a product
of so many bits. With an alpha, |t| is at least K = max(|G| - 2 alpha, 0), and t has the sign of G. Let K' be K with
that sign. Candidates are then ranked by S^2 u^2 / (a b) + (t - K') (t + K'), whose logarithm is computed from the
logarithms of both terms. A logarithm has seven bits of relative precision (mpc/functions/logarithm.py). This costs a
winner at most 12% of the best candidate's rank, 9% by log (a b), and about 0.5% on average (docs/numerics.md). Pruning
decides on exact gains whether the winner's split lasts (secure_tree/tree/pruning.py).

If weights have a bound c, the gain of a side is B (2 G - B) / a, where B is G clipped to c a
(secure_tree/tree/weights.py). Let w be the node's own weight, which is G clipped to c S, over S. If both sides had the
weight w, their gain would be the same for all candidates. A side's own weight gains (p^2 - d^2) / a more, where p = G -
a w, d = G - B, and |d| <= |p|. Candidates are ranked by the sum of these terms over both sides, each computed from
log |p - d| + log |p + d| - log a. With both an alpha and a bound, candidates are ranked without the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.arithmetic.beaver import dot, multiply
from mpc.arithmetic.bits import to_ring
from mpc.arithmetic.public_factor import choose
from mpc.arithmetic.quadratic import quadratic
from mpc.comparison.comparison import below
from mpc.functions.log_sum import log_sum
from mpc.functions.logarithm import Logarithm, logarithm
from mpc.functions.reciprocal import leading_power
from mpc.lookup.one_hot import all_of
from mpc.party import Party
from mpc.rings import Z16, Z32, integers
from mpc.rounding.widening import widen
from mpc.rounding.widening_dot import widening_dot
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, stack
from mpc.words import U64
from secure_tree.public.numerics import FINER_SIDE, LOG_UNIT, NODE_HIGH, Numerics
from secure_tree.tree.monotone import ordered
from secure_tree.tree.weights import cut_off, soft_threshold

# Counts are below 2^31.
COUNT_BITS = 33


@dataclass(frozen=True)
class NodeScale:
    """For every node, a power of two s such that s S is in 2^NODE_HIGH .. 2^SUM_BITS.

    sums: [s G, s S], uint64 [v, 2]. factor: [s]. exponent: with an alpha, [log2 s], uint16. If S is below 2^node_low, s
    is 0 and no split of the node is valid.
    """

    sums: AShare
    factor: AShare
    exponent: AShare | None


def node_scales(party: Party, numerics: Numerics, total: AShare) -> Steps[NodeScale]:
    """[G, H (, rows)] of nodes, uint32 [v, s] -> NodeScale. Three rounds."""
    powers = range(numerics.node_low, NODE_HIGH + 1)
    pair = total[:, :2] + np.array([0, 2 * numerics.l2])
    wide, short = yield from parallel(
        widen.steps(party, pair), below.steps(party, pair[:, 1], [1 << j for j in powers], Z32.bits)
    )
    power = leading_power(short)
    steps = choose.steps(
        party, power.map(lambda b: np.repeat(b[:, None], 2, axis=1)), wide, [1 << powers[-1] - j for j in powers]
    )
    if numerics.shrunk is None:
        factor, sums = yield from steps
        return NodeScale(sums, factor[:, 0], None)
    (factor, sums), hot = yield from parallel(steps, to_ring.steps(party, power, Z16))
    return NodeScale(sums, factor[:, 0], hot.times([powers[-1] - j for j in powers]).sum(axis=1))


def keys(
    party: Party,
    numerics: Numerics,
    left: AShare,
    total: AShare,
    scale: NodeScale,
    min_samples: int,
    directions: np.ndarray,
    allowed: BShare | None = None,
) -> Steps[AShare]:
    """[left sums], [v, s, C], [totals], [v, s], and scales -> [key], uint16 [v, C], below 2^key_bits.

    The s sums are (G, H) or (G, H, rows), in words of 64 bits, or of 32 if there is a `split` and no direction. The low
    bits of a key are the score; the highest bit is 1 if the candidate is valid. `directions`, int[C]: whether weights
    must rise (1) or fall (-1) from the left side to the right side. `allowed`, [v, C]: what else a valid candidate must
    be, if anything.
    """
    sides = stack([left, total.map(lambda t: t[..., None]) - left])
    H = sides[:, :, 1] + numerics.l2
    terms, valid = yield from parallel(
        _terms(party, numerics, sides[:, :, 0], H, total, scale),
        _valid(party, numerics, sides, H, min_samples, directions, allowed),
    )
    score = terms[0] if len(terms) == 1 else (yield from log_sum.steps(party, *terms))
    return score + valid.times(1 << numerics.score_bits)


def _terms(
    party: Party, numerics: Numerics, G: AShare, H: AShare, total: AShare, scale: NodeScale
) -> Steps[list[AShare]]:
    """[G] and [a, b] of both sides, [2, v, C], and [totals], [v, s] -> [logs] of the terms of the rank, [v, C] each."""
    if numerics.split is not None:
        slope, split = yield from parallel(
            _of_node(party, numerics, G[0], H[0], scale), _split(party, numerics.split, H[0], scale)
        )
        return [slope - split + numerics.split.largest]
    if numerics.bounded:
        numerators = _bounded(party, numerics, G, H, total, scale)
    else:
        numerators = _unbounded(party, numerics, G, H[0], total[:, 0], scale)
    logs, tops = yield from parallel(
        logarithm.steps(party, H.times(1 << numerics.side_shift), numerics.side), numerators
    )
    largest = numerics.side.largest
    if numerics.bounded:
        return [top - logs[side] + largest for side, top in enumerate(tops)]
    slope, *shrunk = tops
    return [slope - logs[0] - logs[1] + 2 * largest, *(log + 2 * largest for log in shrunk)]


def _bounded(
    party: Party, numerics: Numerics, G: AShare, H: AShare, total: AShare, scale: NodeScale
) -> Steps[list[AShare]]:
    """[G] and [a, b] of both sides, [2, v, C], and [totals], [v, s] -> [log of (s S)^2 (p^2 - d^2)] of each side."""
    S = scale.sums[:, 1]
    (_, cut), (_, of_node), scaled = yield from parallel(
        cut_off(party, numerics, G, H),
        cut_off(party, numerics, total[:, 0], total[:, 1] + 2 * numerics.l2),
        dot.steps(party, H[0][..., None], scale.factor[:, None, None]),
    )
    factors = stack([S, of_node - total[:, 0]], axis=-1)
    d, p, both = yield from parallel(
        dot.steps(party, cut[..., None], S[:, None, None]),
        dot.steps(party, stack([G[0], scaled], axis=-1), factors[:, None]),
        multiply.steps(party, S, of_node),
    )
    sides = stack([p, both[:, None] - p])
    logs = yield from logarithm.steps(party, stack([sides - d, sides + d]), numerics.slope)
    return [logs[0, side] + logs[1, side] for side in (0, 1)]


def _unbounded(
    party: Party, numerics: Numerics, G: AShare, a: AShare, total: AShare, scale: NodeScale
) -> Steps[list[AShare]]:
    """[G] of both sides, [2, v, C], [a], [v, C], and [G] of the nodes, [v] -> [log of (s S u)^2].

    With an alpha also the log of s^2 (t - K') (t + K'), in the unit of the former minus the logarithms of a and b.
    """
    if numerics.shrunk is None or scale.exponent is None:
        return [(yield from _of_node(party, numerics, G[0], a, scale))]
    thresholded, least, scaled = yield from parallel(
        soft_threshold(party, G, numerics.l1),
        soft_threshold(party, total, 2 * numerics.l1),
        dot.steps(party, a[..., None], scale.factor[:, None, None]),
    )
    t = thresholded[0] + thresholded[1]
    distances = stack([t - least[:, None], t + least[:, None]]).times(1 << FINER_SIDE)
    S = scale.sums[:, 1].map(lambda w: np.broadcast_to(w[:, None], t.shape))
    slope, logs = yield from parallel(
        _slope(party, numerics, stack([thresholded[0], t], axis=-1), stack([S, -scaled], axis=-1)),
        logarithm.steps(party, distances, numerics.shrunk),
    )
    shrunk = logs[0] + logs[1] + scale.exponent.times(2 * LOG_UNIT)[:, None] + numerics.shrunk_offset
    return [slope, shrunk]


def _of_node(party: Party, numerics: Numerics, G: AShare, a: AShare, scale: NodeScale) -> Steps[AShare]:
    """[G], [a] of left sides, [v, C] -> [log of (s S u)^2], where t is the [G] of the node."""
    factors = stack([scale.sums[:, 1], -scale.sums[:, 0]], axis=-1)
    return (yield from _slope(party, numerics, stack([G, a], axis=-1), factors[:, None]))


def _slope(party: Party, numerics: Numerics, x: AShare, y: AShare) -> Steps[AShare]:
    """Return [log of the squared inner products] along the last axis; x may have words of 32 bits."""
    product = widening_dot if x.ring == Z32 else dot
    u = yield from product.steps(party, x, y, integers(U64, numerics.slope.bits))
    return (yield from logarithm.steps(party, u, numerics.slope))


def _split(party: Party, split: Logarithm, a: AShare, scale: NodeScale) -> Steps[AShare]:
    """[a], [v, C] -> [log of s a b]: b is S - a, so s a b is a (s S) - s a^2."""
    if a.ring == Z32:
        a = yield from widen.steps(party, a)
    row = stack([scale.sums[:, 1].at_scale(0), scale.factor], axis=-1)
    product = yield from quadratic.steps(party, a.at_scale(0), row, integers(U64, split.bits))
    return (yield from logarithm.steps(party, product, split))


def _valid(
    party: Party,
    numerics: Numerics,
    sides: AShare,
    H: AShare,
    min_samples: int,
    directions: np.ndarray,
    allowed: BShare | None,
) -> Steps[AShare]:
    """[sums] of both sides, [2, v, s, C], and [a, b] -> [1 if the candidate is valid], [v, C].

    Both sides must have the least weight and the least number of rows, and their weights must be in the required order;
    the candidate must be allowed.
    """
    tests = [below.steps(party, H, [numerics.min_weight], numerics.high + 3)]
    if sides.shape[2] == 3:
        tests.append(below.steps(party, sides[:, :, 2], [min_samples], min(COUNT_BITS, sides.ring.bits)))
    order = [ordered(party, sides[:, :, 0], H, directions)] if directions.any() else []
    few, right = yield from parallel(parallel(*tests), parallel(*order))
    rest = right if allowed is None else (*right, allowed)
    enough = concatenate([*(~bits[..., 0] for bits in few), *(bits[None] for bits in rest)])
    flat = enough.reshape(len(enough), -1).map(lambda b: b.T)
    valid = (yield from all_of.steps(party, flat)).reshape(*enough.shape[1:])
    return (yield from to_ring.steps(party, valid, Z16))
