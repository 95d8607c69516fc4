"""What every pattern of turns adds to the contributions of the features: a table made once per model.

Functionality  a model's trees with the sums of hessians of their nodes -> for each node u of the last level of a tree,
               each position on the path to u and each pattern of turns on it: [what the feature of the node at this
               position contributes to a row that turns so]. The sum over u is TreeSHAP's contribution
Messages       ratios of sums of hessians; which nodes of a path have one feature, as a one-hot; products along the path
Cost           `cost` by a rehearsal; products of 2^(depth - 1) depth 2^depth words per tree and point
Security       composition: perfect
Error          2^-24 of the largest leaf weight per product and tree
How            a feature f of a path is a player with z_f, the product of the shares of hessians that its nodes send on
               along the path, and o_f, whether the row meets all of its splits. Its contribution through a leaf of
               weight w is w (o_f - z_f) times the integral over t in 0 .. 1 of prod_(g != f) (z_g (1 - t) + o_g t), a
               polynomial of degree depth - 1, which ceil(depth / 2) Gauss points integrate exactly. The last node of a
               path with a feature stands for the player; the others have o = z = 1 and so contribute nothing. A null
               split sends on everything in its public direction: it has o = z as well
Source         Lundberg, Erion and Lee, 2018 (TreeSHAP); quadrature: Bifet, Read and Xu, 2022 (Linear TreeSHAP)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import and_bits, select, to_ring
from mpc.functions.reciprocal import RESULT_SCALE, invert, normalise
from mpc.lookup.one_hot import one_hot
from mpc.party import Party
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, public_bits, stack
from mpc.words import U8, U64
from secure_tree.model.ensemble import Ensemble, left_children
from secure_tree.prediction.paths import paths
from secure_tree.public.numerics import MARGIN_SCALE, NODE_HIGH

DEEPEST = 6
# The scale of ratios, points and products.
SCALE = 24
_ONE = 1 << SCALE


def path_values(party: Party, trees: Ensemble, scale: int) -> Steps[AShare]:
    """-> [contributions] of the header at `scale`, [T, 2^(depth - 1), depth, 2^depth]; a set bit is a turn left.

    Leaf weights are below 2^(61 - SCALE) at `scale`.
    """
    t, count = trees.leaves.shape
    depth, last = count.bit_length() - 1, count // 2
    nodes, turns = paths(depth)
    on_path, ways = nodes[::2], turns.reshape(last, 2, depth)
    ratios, players = yield from parallel(
        cover_ratios(party, trees), _players(party, trees.features, on_path) if depth > 1 else _alone(party, t)
    )
    against, members = _patterns(depth)
    # Whether the row misses a split of the player, by the turns against the path: [T, last, depth, 2^depth].
    lifted = yield from to_ring.steps(party, players)
    misses = lifted.map(lambda w: _times(w, against))
    # The product of the ratios of its nodes, towards both leaves: [T, last, 2, depth].
    single = ratios.map(lambda w: w[:, on_path[:, None], 1 - ways])
    belongs = players.map(lambda b: (b[:, :, None, :, None, :] & members).sum(axis=-1, dtype=U8) & U8.type(1))
    factors = _ONE + (yield from select.steps(party, belongs, (single - _ONE).map(lambda w: w[..., None, :])))
    zero = yield from _product(party, [factors[..., k] for k in range(depth)])
    of_leaves = _at(trees.leaves, scale) if scale >= MARGIN_SCALE else None
    if of_leaves is None:
        of_leaves = yield from truncate.steps(party, trees.leaves, MARGIN_SCALE - scale)
    leaves = of_leaves.at_scale(0).reshape(t, last, 2, 1)
    integrals, gaps = yield from parallel(_integrals(party, zero, misses), _gaps(party, zero, players, leaves, against))
    product = yield from multiply.steps(party, integrals, gaps)
    # From turns against the path to turns left, for both leaves below a node.
    turned = np.arange(1 << depth) ^ (ways << np.arange(depth)).sum(axis=-1)[..., None]
    places = turned[None, :, :, None, :]
    both = product.map(lambda w: np.take_along_axis(w, np.broadcast_to(places, w.shape), axis=-1))
    return (yield from truncate.steps(party, both.sum(axis=2), SCALE)).at_scale(scale)


def of_last_leaf(values: AShare) -> AShare:
    """[contributions] by pattern -> those of a row that every node sends as a null split would, [T].

    Such a row is at the last leaf.
    """
    _, last, depth, _ = values.shape
    on_path = paths(depth)[0][::2]
    pattern = (left_children(2 * last)[on_path].astype(int) << np.arange(depth)).sum(axis=-1)
    return values.map(lambda w: w[:, np.arange(last), :, pattern].sum(axis=(0, 2), dtype=U64))


def cover_ratios(party: Party, trees: Ensemble) -> Steps[AShare]:
    """-> [the share of a node's hessians that goes left, and right] at SCALE, [T, m, 2]."""
    assert trees.statistics is not None, "the caller has checked"
    m = trees.null.shape[1]
    covers = trees.statistics.covers.at_scale(0)
    whole, left = covers[:, :m], covers[:, 1::2]
    u, s, _ = yield from normalise.steps(party, whole, 0, NODE_HIGH)
    s = s.at_scale(0)
    inverse, scaled = yield from parallel(invert.steps(party, u), multiply.steps(party, left, s))
    inverse, shift = inverse.at_scale(0), RESULT_SCALE + NODE_HIGH
    rough = yield from _scaled(party, scaled, inverse, shift - SCALE)
    # The rest of the division, which has few digits, gives the others.
    rest = left.times(_ONE) - (yield from multiply.steps(party, rough, whole))
    scaled = yield from multiply.steps(party, rest, s)
    ratio = rough + (yield from _scaled(party, scaled, inverse, shift))
    public = left_children(m).astype(np.int64) * _ONE
    ratio = ratio + (yield from select.steps(party, trees.null, -ratio + public))
    return stack([ratio, _ONE - ratio], axis=-1)


def _alone(party: Party, trees: int) -> Steps[BShare]:
    """Return the players of stumps: every node has no other on its path. No message."""
    yield from ()
    return public_bits(np.ones((trees, 1, 1, 1), U8), party.rank)


def _players(party: Party, features: BShare, on_path: np.ndarray) -> Steps[BShare]:
    """<features>, [T, m, d] -> <which others of the path have the feature of a position>, as a one-hot,
    [T, last, depth, 2^(depth - 1)].
    """
    (last, depth), t = on_path.shape, len(features)
    first, second = np.triu_indices(depth, 1)
    pairs, place = np.unique(
        np.stack([on_path[:, first], on_path[:, second]], axis=-1).reshape(-1, 2), axis=0, return_inverse=True
    )
    both = yield from and_bits.steps(party, features[:, pairs[:, 0]], features[:, pairs[:, 1]])
    same = both.parity(axis=2).map(lambda b: b[:, place.reshape(last, -1)])
    number = np.zeros((depth, depth), int)
    number[first, second] = number[second, first] = np.arange(first.size)
    others = number[~np.eye(depth, dtype=bool)].reshape(depth, depth - 1)
    index = same.map(lambda b: b[:, :, others].reshape(-1, depth - 1))
    return (yield from one_hot.steps(party, index)).reshape(t, last, depth, -1)


def _patterns(depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what a position is, by the set q of the others of its path with its feature, as `_players` numbers them.

    against: 1 if a row that turns against the path as in the pattern a misses its player, uint64[depth, sets, 2^depth];
    members: 1 if another position, or itself, belongs to its player, uint8[depth, depth, sets]. Both are 0 if a later
    position has its feature.
    """
    sets, turns = 1 << depth - 1, np.arange(1 << depth)
    members = np.zeros((depth, depth, sets), U8)
    for j in range(depth):
        others = [k for k in range(depth) if k != j]
        alike = np.zeros((depth, sets), U8)
        alike[others] = np.arange(sets) >> np.arange(depth - 1)[:, None] & 1
        alike[j] = 1
        members[j] = alike * (alike[j + 1 :].sum(axis=0) == 0)
    wrong = (turns >> np.arange(depth)[:, None]) & 1
    against = (np.einsum("jkq,ka->jqa", members.astype(int), wrong) > 0).astype(U64)
    return against, members


def _integrals(party: Party, zero: AShare, misses: AShare) -> Steps[AShare]:
    """[z], [T, last, 2, depth], and [1 - o] -> [integral without a player] at SCALE, [T, last, 2, depth, 2^depth]."""
    depth = zero.shape[-1]
    x, w = np.polynomial.legendre.leggauss(-(-depth // 2))
    points, weights = np.rint((x + 1) / 2 * _ONE).astype(int).tolist(), np.rint(w / 2 * _ONE).astype(int).tolist()
    shape = *zero.shape, misses.shape[-1]
    if depth == 1:
        return AShare(np.full(shape, _ONE * (party.rank == 0), U64), party.rank)
    shrunk = yield from truncate.steps(party, stack([zero.times(_ONE - p) for p in points]), SCALE)
    met = 1 - misses.map(lambda w: w[:, :, None])
    each = stack([met.times(p) for p in points]).map(lambda w: np.broadcast_to(w, (len(points), *shape)))
    factors = each + shrunk.at_scale(0).map(lambda w: w[..., None])
    before, after = [factors[..., 0, :]], [factors[..., depth - 1, :]]
    for j in range(1, depth - 1):
        one, two = yield from parallel(
            _scaled(party, before[-1], factors[..., j, :], SCALE),
            _scaled(party, after[-1], factors[..., depth - 1 - j, :], SCALE),
        )
        before.append(one)
        after.append(two)
    between = [(before[j - 1], after[depth - 2 - j]) for j in range(1, depth - 1)]
    middle = yield from parallel(*(_scaled(party, *pair, SCALE) for pair in between))
    others = stack([after[-1], *middle, before[-1]], axis=-2)
    summed = stack([others[q].times(weight) for q, weight in enumerate(weights)]).sum(axis=0)
    return (yield from truncate.steps(party, summed, SCALE)).at_scale(0)


def _gaps(party: Party, zero: AShare, players: BShare, leaves: AShare, against: np.ndarray) -> Steps[AShare]:
    """-> [w (o - z)], [T, last, 2, depth, 2^depth]."""
    spread = leaves.map(lambda w: np.broadcast_to(w, zero.shape))
    chosen, shrunk = yield from parallel(
        select.steps(party, players.map(lambda b: b[:, :, None]), leaves.map(lambda w: w[..., None])),
        _scaled(party, zero, spread, SCALE),
    )
    missed = chosen.map(lambda w: _times(w, against))
    return (spread - shrunk).map(lambda w: w[..., None] - np.zeros_like(missed.words)) - missed


def _times(words: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """[.., depth, sets] times [depth, sets, patterns] -> [.., depth, patterns]."""
    return (words[..., None, :] @ matrices)[..., 0, :]


def _product(party: Party, factors: Sequence[AShare]) -> Steps[AShare]:
    """Multiply factors at SCALE, in two rounds per doubling of their number."""
    left = list(factors)
    while len(left) > 1:
        half = len(left) // 2
        pairs = yield from _scaled(party, stack(left[:half]), stack(left[half : 2 * half]), SCALE)
        left = [*(pairs[i] for i in range(half)), *left[2 * half :]]
    return left[0]


def _at(x: AShare, scale: int) -> AShare:
    return x.times(1 << scale - x.scale, scale - x.scale)


def _scaled(party: Party, x: AShare, y: AShare, shift: int) -> Steps[AShare]:
    """[x], [y] -> [x y / 2^shift]."""
    product = yield from multiply.steps(party, x, y)
    return (yield from truncate.steps(party, product, shift)).at_scale(0)
