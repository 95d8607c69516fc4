"""Thresholds of winning candidates as bits of order keys. The owner knows private edges; joint edges are public.

Nobody knows the edges of columns that owners contribute: their keys are a shared matrix.
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
from mpc.shares import BShare
from secure_tree.data.bins import ORDER_BITS, Bins, order_key
from secure_tree.public.layout import Layout

BITS = ORDER_BITS + 1


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
