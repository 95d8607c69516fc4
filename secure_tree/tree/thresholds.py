"""Thresholds of winning candidates as bits of order keys. The owner knows private edges; joint edges are public.

Nobody knows the edges of columns that owners contribute: their keys are a shared matrix.

A node compares a row by a linear function of the keys of its values. A split on a number has the factor 1 at its
feature, and 2^33 is added for a missing value that goes right. A split on a set R of categories that go right has the
factor 1 at each indicator of R. Let z and e be the keys of 0 and 1. The sum over R is |R| z, and e - z more if the
row's category is in R: the threshold (|R| - 1) z + e tells both apart. Where the value is missing, all keys are 0, and
a multiple of 2^33 leads to the right side: |R| is public for each cut of the order, so the multiple is linear in the
one-hot of the cut. All of this is linear, hence local on shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor

import numpy as np

from mpc.matrix.interface import LinearMap
from mpc.matrix.known_matrix import DenseBits
from mpc.matrix.linear_map import share_masked_matrix
from mpc.party import Party
from mpc.rings import GF2
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate
from secure_tree.data.bins import ORDER_BITS, Bins, order_key
from secure_tree.model.ensemble import Routes
from secure_tree.public.layout import Layout

BITS = ORDER_BITS + 1
ZERO, ONE = (int(key) for key in order_key(np.array([0.0, 1.0])))
_MISSING = 1 << ORDER_BITS + 1


@dataclass(frozen=True)
class EdgeKeys:
    """Bits of the keys of each cutter's edges, [BITS, d_p K_p]: a masked or shared matrix, or `public`."""

    matrices: Sequence[LinearMap]
    public: np.ndarray | None = None

    def of(self, party: Party, edges: Sequence[BShare]) -> Steps[BShare]:
        """<winning edge> of each cutter, [v, d_p, K_p] -> <key of the threshold>, [v, BITS]. At most one round."""
        flat = [x.reshape(len(x), -1) for x in edges]
        if self.public is not None:
            public = self.public
            # Sums of 8-bit words wrap around, which preserves the parity.
            return flat[0].map(lambda bits: bits @ public.T & 1)
        keys = yield from parallel(
            *(m.supply(party, len(x)).apply(party, x) for m, x in zip(self.matrices, flat, strict=True))
        )
        return reduce(xor, keys)


def key_bits(edges: np.ndarray) -> np.ndarray:
    """edges float32[d, K] -> bits of their keys, uint8[BITS, d K]."""
    return ((order_key(edges).reshape(-1) >> np.arange(BITS)[:, None]) & 1).astype(np.uint8)


def share_edges(party: Party, bins: Bins, layout: Layout, contributed: LinearMap | None = None) -> Steps[EdgeKeys]:
    """Each party's own bins, and keys of contributed columns, if any -> EdgeKeys. One round; none for joint edges."""
    bits = key_bits(bins.edges)
    if layout.joint:
        return EdgeKeys((), bits)
    matrices = yield from parallel(
        *(
            share_masked_matrix.steps(
                party, p, DenseBits(bits) if party.rank == p else None, layout.widths[p] * layout.sizes[p], BITS, GF2
            )
            for p in (0, 1)
        )
    )
    return EdgeKeys([*matrices, *([contributed] if contributed else [])])


def to_the_left(size: np.ndarray) -> np.ndarray:
    """Return the multiple of 2^33 with which a missing value is left of the threshold of a set of so many categories.

    One more takes it to the right.
    """
    return -(-((size - 1) * ZERO + ONE) // _MISSING) - 1


def right_sets(layout: Layout, cuts: BShare, routes: Routes) -> BShare:
    """<winning feature> of nodes, [v, d], and their routes -> <a category of a set goes right>, [v, categories]."""
    found = []
    for first, end in layout.sets:
        (p, places), *_ = layout.with_features(first, end)
        left = routes.sets[p][..., places, layout.present(p) - 1].reshape(len(cuts), end - first)
        won = cuts[:, first:end].parity(axis=1)
        found.append(left ^ won.map(lambda b: b[:, None]))
    return concatenate(found, axis=1)


def factors(layout: Layout, cuts: AShare, missing_right: AShare, rights: AShare) -> tuple[AShare, AShare]:
    """[winning feature] of nodes, [v, d], [it sends missing values right], [v, o], [right sets], [v, categories] ->
    what keys are multiplied by, [v, d + o], and what is added to the keys of thresholds, [v]. Local.
    """
    start, moved = 0, np.zeros(len(cuts), np.uint64)
    of_features, of_missing = cuts.words.copy(), missing_right.words.copy()
    for first, end in layout.sets:
        right, cut = rights.words[:, start : start + end - first], cuts.words[:, first:end]
        of_features[:, first:end] = right
        moved += np.uint64(ZERO) * (right.sum(axis=1, dtype=np.uint64) - cut.sum(axis=1, dtype=np.uint64))
        low, high = np.searchsorted(layout.missing, (first, end))
        if low < high:
            # Cut k sends all but k + 1 categories right.
            to_left = to_the_left(np.arange(end - first)[::-1]).astype(np.uint64)
            of_missing[:, low] = missing_right.words[:, low:high].sum(axis=1, dtype=np.uint64) + cut @ to_left
            of_missing[:, low + 1 : high] = 0
        start += end - first
    return AShare(np.concatenate([of_features, of_missing], axis=1), cuts.rank), AShare(moved, cuts.rank)
