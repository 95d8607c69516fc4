"""Division of a shared integer by 2^f, without wild values.

truncate       [x] -> [floor(x / 2^f) + c], c = 1 with probability (x mod 2^f) / 2^f, else 0: one round, unbiased
floor          [x] -> [floor(x / 2^f)] exactly: three rounds, or one from dealt keys (mpc/comparison_keys.py)

Range          |x| < 2^62, always right in that range
Messages       x + 2^62 + r;  floor also: 2m - 1 masked chunk bits, then one masked bit
Cost           64 |x| bits each way; floor adds 16 |x| and |x| bits. Offline: [r >> f], [msb r]; floor also the
               thermometers of the low f bits of r, and a bit
Security       semi-honest, perfect: every message is a one-time pad
How            x' = x + 2^62 < 2^63 and e = x' + r mod 2^64 wraps exactly when msb r = 1 and msb e = 0, so
               floor(x' / 2^f) = (e >> f) - (r >> f) + 2^(64 - f) wrap - 1{e mod 2^f < r mod 2^f}.
Source         Escudero, Ghosh, Keller, Rachuri and Scholl, CRYPTO 2020 (dealt truncation)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.bit_product import to_ring
from mpc.comparison import borrow_bits, deal_borrow
from mpc.comparison_keys import floor_by_keys, open_offset, shift_opened
from mpc.contract import Cost, both, protocol
from mpc.correlation import Hand
from mpc.party import Party, Steps, Variant
from mpc.ring import U64, Shape, packed_size
from mpc.shares import AShare, BShare


@dataclass(frozen=True)
class TruncationMasks:
    """[r], [r >> f], [msb r] in Z_2^64; for `exact`, the borrow material of the low f bits."""

    shape: Shape
    shift: int
    exact: bool

    def deal(self, hand: Hand):
        n = int(np.prod(self.shape, dtype=np.int64))
        r = hand.mask((n,))
        high = hand.derived(lambda: r >> np.uint64(self.shift), (n,))
        msb = hand.derived(lambda: r >> np.uint64(63), (n,))
        return r, high, msb, deal_borrow(hand, r, 1, self.shift) if self.exact else None


@protocol(cost=lambda x, shift: Cost(1, both(64 * x.size)))
def truncate(party: Party, x: AShare, shift: int) -> Steps:
    """[x] -> [x / 2^shift], rounded up or down at random without bias; 1 <= shift <= 62; the scale falls by shift."""
    r, high, msb, _ = party.randomness.take(TruncationMasks(x.shape, shift, False))
    e = yield from open_offset(party, "truncation.truncate", x, r)
    return AShare(shift_opened(party, e, high, msb, shift).reshape(x.shape), party.rank, x.scale - shift)


def _floor_cost(x: AShare, shift: int, by: Variant = "bits") -> Cost:
    if by == "keys":
        return floor_by_keys.cost(x, shift)
    return Cost(3, both(80 * x.size + 8 * packed_size(x.size, 1)))


@protocol(cost=_floor_cost)
def floor(party: Party, x: AShare, shift: int, by: Variant | None = None) -> Steps:
    """[x] -> [floor(x / 2^shift)], exact; 1 <= shift <= 62; the scale falls by shift."""
    if (by or party.comparison) == "keys":
        return (yield from floor_by_keys.steps(party, x, shift))
    r, high, msb, dealt = party.randomness.take(TruncationMasks(x.shape, shift, True))
    e = yield from open_offset(party, "truncation.floor", x, r)
    low = e & np.uint64((1 << shift) - 1)
    bits = yield from borrow_bits(party, "truncation.floor", low, np.zeros(1, U64), shift, dealt)
    borrowed = yield from to_ring.steps(party, BShare(bits[:, 0], party.rank))
    words = shift_opened(party, e, high, msb, shift) - borrowed.words
    return AShare(words.reshape(x.shape), party.rank, x.scale - shift)
