"""Extension of a shared integer from Z_2^32 to Z_2^64.

Functionality  [x] mod 2^32 -> [x] mod 2^64, |x| < 2^30
Messages       x + 2^30 + r mod 2^32                                          (one round)
Cost           32 |x| payload bits each way; offline: [r] as words of 64 bits and [msb r], 128 |x| bits
Security       semi-honest, perfect: the message is a one-time pad
How            x + 2^30 < 2^31, so the sum with r wraps exactly when msb r = 1 and the opened msb is 0
Source         the wrap bit as in dealt truncation: Escudero et al., CRYPTO 2020
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.contract import Cost, both, protocol
from mpc.correlation import Hand
from mpc.party import Party, Steps, open_shares
from mpc.ring import U32, U64, Shape
from mpc.shares import AShare

OFFSET = 1 << 30


@dataclass(frozen=True)
class WideningMasks:
    """[r] in Z_2^32, then [r] and [msb r] in Z_2^64."""

    shape: Shape

    def deal(self, hand: Hand):
        r = hand.mask(self.shape, U32)
        wide = hand.derived(lambda: r.astype(U64), self.shape)
        return r, wide, hand.derived(lambda: (r >> np.uint32(31)).astype(U64), self.shape)


@protocol(cost=lambda x: Cost(1, both(32 * x.size)))
def widen(party: Party, x: AShare) -> Steps:
    """[x] in Z_2^32 -> [x] in Z_2^64, same shape and scale."""
    r, wide, msb = party.randomness.take(WideningMasks(x.shape))
    (e,) = yield from open_shares("widening.widen", (x + OFFSET).map(lambda w: w + r))
    e = e.astype(U64)
    words = (msb * (np.uint64(1) - (e >> np.uint64(31))) << np.uint64(32)) - wide
    return AShare(words + e - np.uint64(OFFSET) if party.rank == 0 else words, party.rank, x.scale)
