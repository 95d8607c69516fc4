"""Ranking of the candidates of every node of a level, without a division.

Let a = H_L + lambda, b = H_R + lambda, S = a + b, T the soft threshold by alpha, x = T(G_L), y = T(G_R), t = x + y. The
gains of both sides add up to t^2 / S + S u^2 / (a b), where u = x - (a / S) t. S belongs to the node. Without an alpha,
so does t = G, and candidates are ranked by 2 log |u| - log a - log b. With one, |t| is at least
K = max(|G| - 2 alpha, 0) and has the sign of G, so that they are ranked by S^2 u^2 / (a b) + (t - K') (t + K'), K'
being K with that sign: from the logarithms of both terms that of their sum. A logarithm has seven bits of relative
precision (mpc/logarithm.py), which costs a winner at most 12% of the best candidate's rank, and about 0.5% on average
(docs/numerics.md). Whether the winner's gain pays is decided on exact gains (secure_tree/pruning.py).

Where weights have a bound c, a side gains B (2 G - B) / a, B being G up to c a (secure_tree/weights.py). Let w be the
node's own weight, G up to c S over S. All sides at w gain as much whatever the candidate, and the own weight of a side
gains (p^2 - d^2) / a more, where p = G - a w and d = G - B, |d| <= |p|. So candidates are ranked by the sum of that of
both sides, from log |p - d| + log |p + d| - log a of each. With an alpha as well they are ranked as if there were
no bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.beaver import dot, multiply
from mpc.bit_product import to_ring
from mpc.comparison import below
from mpc.log_sum import log_sum
from mpc.logarithm import logarithm
from mpc.one_hot import all_of
from mpc.party import Party
from mpc.reciprocal import leading_power
from mpc.ring import U64
from mpc.rings import Z16, Z32, integers
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, concatenate, stack
from mpc.weighted_choice import choose
from mpc.widening import widen
from secure_tree.monotone import ordered
from secure_tree.numerics import FINER_SIDE, LOG_UNIT, NODE_HIGH, Numerics
from secure_tree.weights import cut_off, soft_threshold

# Counts are below 2^31.
COUNT_BITS = 33


@dataclass(frozen=True)
class NodeScale:
    """Of every node a power of two s: [s G, s S], uint64 [v, 2], s S in 2^NODE_HIGH .. 2^SUM_BITS; [s]; and with
    an alpha [log2 s], uint16. s is 0 where S is below 2^node_low, and no split of the node is valid.
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
) -> Steps[AShare]:
    """[left sums], [v, s, C], and [totals], [v, s], s = (G, H) or (G, H, rows), and scales -> [key], uint16 [v, C],
    below 2^key_bits: the score, and above it whether the candidate is valid. `directions`, int[C]: whether weights must
    rise (1) or fall (-1) from its left side to its right one.
    """
    sides = stack([left, total.map(lambda t: t[..., None]) - left])
    H = sides[:, :, 1] + numerics.l2
    terms, valid = yield from parallel(
        _terms(party, numerics, sides[:, :, 0], H, total, scale),
        _valid(party, numerics, sides, H, min_samples, directions),
    )
    score = terms[0] if len(terms) == 1 else (yield from log_sum.steps(party, *terms))
    return score + valid.times(1 << numerics.score_bits)


def _terms(
    party: Party, numerics: Numerics, G: AShare, H: AShare, total: AShare, scale: NodeScale
) -> Steps[list[AShare]]:
    """[G] and [a, b] of both sides, [2, v, C], and [totals], [v, s] -> logs of what adds up to the rank, [v, C]."""
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
    """[G] and [a, b] of both sides, [2, v, C], and [totals], [v, s] -> log of (s S)^2 (p^2 - d^2) of each side."""
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
    """[G] of both sides, [2, v, C], [a], [v, C], and the nodes' [G], [v] -> log of (s S u)^2, and with an alpha of
    s^2 (t - K') (t + K') in the same unit less the logarithms of a and b.
    """
    if numerics.shrunk is None or scale.exponent is None:
        factors = stack([scale.sums[:, 1], -scale.sums[:, 0]], axis=-1)
        return [(yield from _slope(party, numerics, stack([G[0], a], axis=-1), factors[:, None]))]
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


def _slope(party: Party, numerics: Numerics, x: AShare, y: AShare) -> Steps[AShare]:
    """Log of the squares of inner products along the last axis."""
    u = yield from dot.steps(party, x, y, integers(U64, numerics.slope.bits))
    return (yield from logarithm.steps(party, u, numerics.slope))


def _valid(
    party: Party, numerics: Numerics, sides: AShare, H: AShare, min_samples: int, directions: np.ndarray
) -> Steps[AShare]:
    """[both sides' sums], [2, v, s, C], and [a, b] -> [1 where both have the least weight and the least rows, and their
    weights the order that they must have].
    """
    tests = [below.steps(party, H, [numerics.min_weight], numerics.high + 3)]
    if sides.shape[2] == 3:
        tests.append(below.steps(party, sides[:, :, 2], [min_samples], COUNT_BITS))
    order = [ordered(party, sides[:, :, 0], H, directions)] if directions.any() else []
    few, right = yield from parallel(parallel(*tests), parallel(*order))
    enough = concatenate([*(~bits[..., 0] for bits in few), *(bits[None] for bits in right)])
    flat = enough.reshape(len(enough), -1).map(lambda b: b.T)
    valid = (yield from all_of.steps(party, flat)).reshape(*enough.shape[1:])
    return (yield from to_ring.steps(party, valid, Z16))
