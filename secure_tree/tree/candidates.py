"""Candidate splits of both parties, and the secret matrices of which foreign bins each candidate sends left.

`secure_tree.public.layout` numbers the candidates. A party's edge i sends its own bin j left iff j < finer * i, which
is public. For horizontal data with private edges, both parties have bins of the same features, cut at different edges.
Then W[f, b, c] = 1{median of the training values in p's bin b < q's edge c} is compared once and kept as shares. There
is no W for joint edges, which are the edges of both parties, and none for vertical data, where a candidate applies only
to its owner's bins.

The categories of a column that is split by sets have a secret order (secure_tree/setup/orders.py), and a candidate
sends the first k + 1 of them left: P[c, k] = 1{category c is among the first k + 1} is kept as shares, likewise. P has
the part of W there: it multiplies sums by category, and the winner tells the categories that go left, each of which is
the last bin of an indicator. A row has one category, so that at most one of its indicators is in a left set.

Interaction constraints (secure_tree/public/interactions.py) let a node split on a feature if one of its groups contains
all features above. Every node has a shared bit per group: that it does. The bits of the root are 1. Those of children
are their parent's, each <and>ed with whether the group contains the winner's feature, a sum of the winner's one-hot.
This takes a round, and the <or> over the groups of a feature one more if it has several, two if it has more than four,
all beside the search; the bit is one more condition of a valid candidate. A node whose candidates are all invalid may
choose one that may not follow: such a split does not last. Groups are public; which features are on a path is secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import numpy as np

from mpc.arithmetic.bits import and_bits, to_ring
from mpc.comparison.comparison import below
from mpc.lookup.one_hot import all_of
from mpc.matrix.fixed_operand import FixedOperand, fix, multiply_fixed
from mpc.party import Party
from mpc.rings import Z32
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, public_bits
from secure_tree.data.bins import Bins, order_key
from secure_tree.model.ensemble import winning_edges
from secure_tree.public.interactions import Interactions
from secure_tree.public.layout import Layout

COMPARED_BITS = 34
# Bits of which one look-up computes the conjunction: it has two to so many entries.
ALL_AT_ONCE = 4


@dataclass(frozen=True)
class Order:
    """P of a column as fixed operands over Z_2^32, and transposed over GF(2)."""

    sums: FixedOperand
    sets: FixedOperand


@dataclass(frozen=True)
class Candidates:
    """`sums[p]`, `sets[p]`: W for the bins of p as fixed operands over Z_2^32 and GF(2), if any. `orders`: those of the
    columns that are split by sets.
    """

    layout: Layout
    sums: tuple[FixedOperand, ...] = ()
    sets: tuple[FixedOperand, ...] = ()
    orders: tuple[Order, ...] = ()


def compare_edges(party: Party, bins: Bins, layout: Layout) -> Steps[Candidates]:
    """Each party's own bins -> Candidates. Four rounds, once per training; none without W."""
    if layout.joint or layout.vertical:
        return Candidates(layout)
    compared = yield from parallel(
        *(below.steps(party, _difference(party.rank, bins, p, layout), [0], COMPARED_BITS) for p in (0, 1))
    )
    less = [c[..., 0] for c in compared]
    rings = yield from parallel(*(to_ring.steps(party, w, Z32) for w in less))
    fixed = yield from parallel(
        *(fix.steps(party, w, b) for w, b in zip(rings, less, strict=True)),
        *(fix.steps(party, w.map(lambda b: b.transpose(0, 2, 1))) for w in less),
    )
    return Candidates(layout, tuple(fixed[:2]), tuple(fixed[2:]))


def _difference(rank: int, bins: Bins, p: int, layout: Layout) -> AShare:
    """Return [median of p's bin - q's edge] on order-preserving keys, [d, L_p, K_q]. Each party holds its own term."""
    shape = (layout.feature_count, layout.present(p), layout.sizes[1 - p])
    if rank == p:
        mine = np.broadcast_to(order_key(bins.medians)[:, :, None], shape)
    else:
        mine = np.broadcast_to(-order_key(bins.edges)[:, None, :], shape)
    return AShare(mine.astype(np.uint64), rank)


def left_sums(party: Party, candidates: Candidates, histograms: list[AShare]) -> Steps[AShare]:
    """[hist_p] of shape [v, s, d_p, bins_p] for every block -> [left sums], [v, s, C]. At most one round."""
    layout = candidates.layout
    v, s = histograms[0].shape[:2]
    values = [h[..., : layout.present(p)] for p, h in enumerate(histograms)]
    sums = [(h.cumsum(axis=3) - h)[..., :: layout.finer] for h in values]
    if layout.joint:
        sums = [reduce(add, sums)]
    flat = (h.map(lambda w: w.transpose(2, 0, 1, 3).reshape(w.shape[2], v * s, -1)) for h in values)
    foreign, of_sets = yield from parallel(
        parallel(*(multiply_fixed.steps(party, x, operand) for operand, x in zip(candidates.sums, flat, strict=False))),
        parallel(
            *(
                multiply_fixed.steps(party, by_category(layout, values, *ends).reshape(1, v * s, -1), order.sums)
                for ends, order in zip(layout.sets, candidates.orders, strict=True)
            )
        ),
    )
    if foreign:
        moved = [x.map(lambda w: w.reshape(len(w), v, s, -1).transpose(1, 2, 0, 3)) for x in foreign]
        sums = [sums[0] + moved[1], sums[1] + moved[0]]
    for ends, of_set in zip(layout.sets, of_sets, strict=True):
        (p, places), *_ = layout.with_features(*ends)
        sums[p] = sums[p].with_part((..., _cuts(places), -1), of_set.reshape(v, s, -1))
    missing = [h[:, :, list(layout.optional[p]), -1:] for p, h in enumerate(histograms)]
    if not layout.vertical:
        missing = [reduce(add, missing)] * len(missing)
    copies = [sums[p][:, :, list(layout.optional[p])] + missing[p] for p in layout.cutters]
    return concatenate([x.reshape(v, s, -1) for x in sums + copies], axis=2)


def left_sets(party: Party, candidates: Candidates, winner: BShare) -> Steps[list[BShare]]:
    """<one-hot winner>, [v, C + 1] -> the bins of each block that go left, <[v, d_p, bins_p]>. At most one round."""
    layout = candidates.layout
    edges, missing = winning_edges(layout, winner)
    of_columns = [layout.with_features(*ends) for ends in layout.sets]
    won = [edges[p][:, _cuts(places), -1] for (p, places), *_ in of_columns]
    for (p, places), *_ in of_columns:
        edges[p] = edges[p].map(partial(_without, places=places))
    sets = [_after(edges[0 if layout.joint else p], layout.finer) for p in layout.blocks]
    foreign, of_sets = yield from parallel(
        parallel(
            *(
                multiply_fixed.steps(party, edges[1 - p].map(lambda b: b.transpose(1, 0, 2)), operand)
                for p, operand in enumerate(candidates.sets)
            )
        ),
        parallel(
            *(multiply_fixed.steps(party, x[None], order.sets) for x, order in zip(won, candidates.orders, strict=True))
        ),
    )
    if foreign:
        sets = [sets[p] ^ foreign[p].map(lambda b: b.transpose(1, 0, 2)) for p in (0, 1)]
    for blocks, of_set in zip(of_columns, of_sets, strict=True):
        for p, places in blocks:
            sets[p] = sets[p].with_part((slice(None), places, -1), of_set[0])
    return [
        concatenate([sets[p], missing[:, layout.features_of(p), None]], axis=2) if layout.optional[p] else sets[p]
        for p in layout.blocks
    ]


def by_category(layout: Layout, values: list[AShare], first: int, end: int) -> AShare:
    """[sums by bin] of each block, [v, s, d_p, L_p] -> [sums by category] of a column, [v, s, categories]."""
    return reduce(add, [values[p][..., places, -1] for p, places in layout.with_features(first, end)])


def _cuts(places: slice) -> slice:
    """Return the places of a column's candidates: all of its indicators but the last."""
    return slice(places.start, places.stop - 1)


def _without(bits: np.ndarray, places: slice) -> np.ndarray:
    """Return the winning edges of other features."""
    others = bits.copy()
    others[:, places] = 0
    return others


def _after(edges: BShare, finer: int) -> BShare:
    """Return out[j] = xor of edges[i] over finer * i > j, along the last axis: the bins below the edge."""

    def suffix(b: np.ndarray) -> np.ndarray:
        return np.repeat(np.bitwise_xor.accumulate(b[..., ::-1], axis=-1)[..., ::-1] ^ b, finer, axis=-1)

    return edges.map(suffix)


@dataclass(frozen=True)
class Followers:
    """Of nodes: <a feature of the kind may follow>, [v, K], and <the group contains all features above>, [v, G]."""

    kinds: BShare
    groups: BShare


def follow(
    party: Party, interactions: Interactions, above: Followers | None, winner: BShare
) -> Steps[tuple[BShare, BShare]]:
    """<one-hot winner>, [v, C + 1] -> <it may follow>, [v], and <groups> of the node's children, [v, G]."""
    order, count = np.argsort(interactions.kind, kind="stable"), len(interactions.groups)
    first = np.searchsorted(interactions.kind[order], np.arange(count))
    kinds = winner.map(lambda b: np.bitwise_xor.reduceat(b[:, order], first, axis=1))
    groups = kinds.map(lambda b: b @ interactions.groups.astype(np.uint8) & 1)
    if above is None:
        return public_bits(np.ones(1), party.rank), groups
    held = concatenate([above.kinds, above.groups], axis=1)
    both = yield from and_bits.steps(party, held, concatenate([kinds, groups], axis=1))
    return both[:, :count].parity(axis=1), both[:, count:]


def followers(party: Party, interactions: Interactions, groups: BShare) -> Steps[Followers]:
    """<groups> of the children of nodes, [v, G] -> Followers of both children of each, [2 v]."""
    none = ~groups
    padded = concatenate([none, public_bits(np.ones((len(none), 1)), party.rank)], axis=1)
    kinds, most = interactions.groups_of_kinds.shape
    none = padded[:, interactions.groups_of_kinds].reshape(-1, most)
    while none.shape[1] > 1:
        width = min(ALL_AT_ONCE, none.shape[1])
        more = public_bits(np.ones((len(none), -none.shape[1] % width)), party.rank)
        flat = concatenate([none, more], axis=1).reshape(-1, width)
        none = (yield from all_of.steps(party, flat)).reshape(len(none), -1)
    twice = [x.map(lambda b: np.repeat(b, 2, axis=0)) for x in (~none.reshape(-1, kinds), groups)]
    return Followers(*twice)
