"""Candidate splits of both parties, and the secret matrices that say which foreign bins a candidate sends left.

A node's candidates stand in the order feature, then party 0's edges, then party 1's; the last one is the null split.
Own edge i sends own bin j left iff j < i: public. For bins of p and edges of q,
W[f, b, c] = 1{largest training value in p's bin b < q's edge c}, compared once and kept as shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.bit_product import to_ring
from mpc.comparison import below
from mpc.fixed_operand import FixedOperand, fix, multiply_fixed
from mpc.party import Party, Steps, together
from mpc.shares import AShare, BShare, concatenate, public_ring
from secure_tree.binning import Bins, order_key

COMPARED_BITS = 34


@dataclass(frozen=True)
class Candidates:
    """`sums[p]`, `sets[p]`: W for bins of p, fixed over Z_2^64 and GF(2); `rank`: [C + 1], place among equal gains."""

    features: int
    sizes: tuple[int, int]
    sums: tuple[FixedOperand, FixedOperand]
    sets: tuple[FixedOperand, FixedOperand]
    rank: AShare

    @property
    def count(self) -> int:
        """Candidates of a node, the null split among them."""
        return self.features * sum(self.sizes) + 1

    def edges_of(self, p: int) -> slice:
        """Places of party p's edges among a feature's candidates."""
        return slice(0, self.sizes[0]) if p == 0 else slice(self.sizes[0], None)


def compare_edges(party: Party, bins: Bins, features: int, sizes: tuple[int, int]) -> Steps:
    """Each party's own bins -> Candidates. Four rounds, once a training."""
    compared = yield from together(
        *(below.steps(party, _difference(party.rank, bins, p, features, sizes), [0], COMPARED_BITS) for p in (0, 1))
    )
    less = [c[..., 0] for c in compared]
    rings = yield from together(*(to_ring.steps(party, w) for w in less))
    fixed = yield from together(
        *(fix.steps(party, w) for w in rings),
        *(fix.steps(party, w.map(lambda b: b.transpose(0, 2, 1))) for w in less),
    )
    return Candidates(features, sizes, tuple(fixed[:2]), tuple(fixed[2:]), _ranks(party.rank, rings, features, sizes))


def _difference(rank: int, bins: Bins, p: int, features: int, sizes: tuple[int, int]) -> AShare:
    """[largest value in p's bin - q's edge] on order-preserving keys, [d, K_p, K_q]: each party holds its own term."""
    shape = (features, sizes[p], sizes[1 - p])
    if rank == p:
        mine = np.broadcast_to(order_key(bins.largest)[:, :, None], shape)
    else:
        mine = np.broadcast_to(-order_key(bins.edges)[:, None, :], shape)
    return AShare(mine.astype(np.uint64), rank)


def _ranks(rank: int, rings: list[AShare], features: int, sizes: tuple[int, int]) -> AShare:
    """[rank] of every candidate: 1 + its place in value order, the null split first of all with 0."""
    places = [rings[1 - q].sum(axis=1) + np.arange(sizes[q]) for q in (0, 1)]
    by_feature = concatenate(places, axis=1) + (1 + np.arange(features) * sum(sizes))[:, None]
    return concatenate([by_feature.reshape(-1), public_ring(np.zeros(1, np.int64), rank)])


def left_sums(party: Party, candidates: Candidates, histograms: tuple[AShare, AShare]) -> Steps:
    """[hist_p] of shape [v, s, d, K_p] for both blocks -> [left sums], [v, s, C + 1]; the null split's are 0."""
    d = candidates.features
    v, s = histograms[0].shape[:2]
    flat = [h.map(lambda w: w.transpose(2, 0, 1, 3).reshape(d, v * s, -1)) for h in histograms]
    foreign = yield from together(
        *(multiply_fixed.steps(party, x, operand) for x, operand in zip(flat, candidates.sums, strict=True))
    )
    own = [h.cumsum(axis=2) - h for h in flat]
    sums = concatenate([own[0] + foreign[1], own[1] + foreign[0]], axis=2)
    out = sums.map(lambda w: w.reshape(d, v, s, -1).transpose(1, 2, 0, 3).reshape(v, s, -1))
    return concatenate([out, out[..., :1].map(np.zeros_like)], axis=2)


def left_sets(party: Party, candidates: Candidates, winner: BShare) -> Steps:
    """<one-hot winner>, [v, C + 1] -> for each party p the bins that go left, <[v, d, K_p]>. One round."""
    v, d = len(winner), candidates.features
    by_feature = winner[:, :-1].reshape(v, d, -1)
    edges = [by_feature[:, :, candidates.edges_of(p)] for p in (0, 1)]
    foreign = yield from together(
        *(
            multiply_fixed.steps(party, edges[1 - p].map(lambda b: b.transpose(1, 0, 2)), candidates.sets[p])
            for p in (0, 1)
        )
    )
    return [_after(edges[p]) ^ foreign[p].map(lambda b: b.transpose(1, 0, 2)) for p in (0, 1)]


def _after(bits: BShare) -> BShare:
    """out[j] = xor of bits[i] for i > j, along the last axis."""

    def suffix(b: np.ndarray) -> np.ndarray:
        return np.bitwise_xor.accumulate(b[..., ::-1], axis=-1)[..., ::-1] ^ b

    return bits.map(suffix)
