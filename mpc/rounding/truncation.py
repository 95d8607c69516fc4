"""Division of a shared integer by 2^f, without the large errors of local truncation.

truncate       [x] -> [floor(x / 2^f) + c], c = 1 where x_1 mod 2^f < x mod 2^f, else 0, for the shares x_0, x_1 of x:
               one round. c = 1 with probability (x mod 2^f) / 2^f if the shares are uniform; c is 0 or 1 in any case
floor          [x] -> [floor(x / 2^f)] exactly: two rounds, or one from dealt keys (mpc/comparison/comparison_keys.py)

Range          |x| < 2^62, without exception
Messages       truncate: one masked bit of mpc/rounding/wrap.py;  floor: x + 2^62 + r, and the 2m - 1 masked chunk bits
               of mpc/comparison/thermometer.py
Cost           truncate: |x| bits each way, offline [beta_0 beta_1] modulo 2^f, or 2^(f - 64 + k) for a result in Z_2^k;
               floor: (64 + 2m - 1) |x| bits packed by mpc/words.py, offline [r >> f], [msb r] modulo 2^f, m
               thermometers of 2^c bits of the low f bits of r, and the 1.5 2^m products of the bit masks as words of
               the ring
Security       semi-honest, perfect: every message is a one-time pad
How            truncate: x' = x + 2^62 - 1 < 2^63, so the top bits of its shares determine the wrap w, and
               floor(x' / 2^f) = (x'_0 >> f) + (x'_1 >> f) - 2^(64 - f) w + 1{x'_1 mod 2^f > x' mod 2^f}. With the last
               term replaced by 1, the result is rounded by c: the coin is the low bits of a share.
               floor: x' = x + 2^62 < 2^63 and e = x' + r mod 2^64 wraps exactly when msb r = 1 and msb e = 0, so
               floor(x' / 2^f) = (e >> f) - (r >> f) + 2^(64 - f) wrap - 1{e mod 2^f < r mod 2^f}. The last term is the
               borrow of a comparison; products of masks in the ring give it in the ring.
Source         floor: Escudero, Ghosh, Keller, Rachuri and Scholl, CRYPTO 2020;  truncate: Rathee et al. (SIRNN), IEEE
               S&P 2021, and Huang et al. (Cheetah), USENIX Security 2022, with the dealer in place of their transfers
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mpc.comparison.comparison_keys import OFFSET_64, floor_by_keys, keys_pay, open_offset
from mpc.comparison.thermometer import (
    Chunking,
    RingMaskProducts,
    Thermometers,
    cheapest_chunking,
    deal_bit_masks,
    open_chunks,
    thermometer_shares,
    thermometers,
)
from mpc.endpoint import Endpoint
from mpc.kernels import borrow
from mpc.kernels.truncation import shift_opened
from mpc.offline import transfers
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import Pair, bit_of
from mpc.offline.transfers import OfflineSteps
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Argued, Bits, Enumerated, composed, in_half_range, signed, word
from mpc.rings import Z32, Z64, Z2k
from mpc.rounding.wrap import add_halves, wire_bits
from mpc.rounds import Steps, parallel
from mpc.shares import AShare
from mpc.words import U64, Shape, low_bits

_TOP = 63


def _chunking(shift: int) -> Chunking:
    return cheapest_chunking(shift, lambda m: 8 * borrow.ring_product_words(m))


@dataclass(frozen=True)
class FloorTables:
    """Of words x: x / 2^shift, rounded down; the top bit modulo 2^shift; and the thermometers of the low bits.

    Let t be the top bit, l the carry into the bits that remain, and u the carry into t. The first is the sum of the
    shares without their top bits, shifted, plus l - 2^(63 - shift) (u - t).
    """

    x: np.ndarray
    shift: int

    def __call__(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.x >> np.uint64(self.shift), bit_of(self.x, _TOP), thermometers(self.x, _chunking(self.shift))

    def between(self, pair: Pair) -> OfflineSteps[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        rank, f = pair.rank, self.shift
        table, carries = yield from thermometer_shares(rank, self.x, _chunking(f), _TOP - f)
        ends = np.stack([carries[:, -1], bit_of(self.x, _TOP) ^ carries[:, -1]])
        lower, (carry, top), msb = yield from parallel(
            transfers.lift(rank, carries[:, -2], Z64),
            transfers.lift(rank, ends, Z2k(U64, f + 1)),
            transfers.lift(rank, ends[1], Z2k(U64, f)),
        )
        high = (low_bits(self.x, _TOP) >> np.uint64(f)) + lower + (top - carry << np.uint64(_TOP - f))
        return high, msb, table


@correlation
class FloorMasks:
    """[r], [r >> f]; [msb r] modulo 2^f; thermometers of the low f bits of r, bit masks, and their products."""

    shape: Shape
    shift: int

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray, Thermometers, np.ndarray]:
        r = view.mask(Z64, (math.prod(self.shape),))
        chunks = _chunking(self.shift)
        results = (Z64, r.shape), (Z2k(U64, self.shift), r.shape), chunks.dealt(r.size)
        high, msb, table = view.derived_many(results, FloorTables(r, self.shift))
        masks = deal_bit_masks(view, r.size, 1, chunks)
        words = borrow.ring_product_words(chunks.m)
        products = view.derived(Z64, (r.size, words), RingMaskProducts(Z64, masks.reshape(-1), chunks.m))
        return r, high, msb, (table, masks), products


@protocol(cost=lambda x, shift, ring=Z64: Cost(1, both(wire_bits(x.size))), elementwise=True)
def truncate(party: Endpoint, x: AShare, shift: int, ring: Z2k = Z64) -> Steps[AShare]:
    """[x] -> [x / 2^shift] in `ring`, of more than 64 - shift bits; 1 <= shift <= 62; the scale falls by shift.

    The low bits of a share decide whether it rounds up or down.
    """
    up, constant = 64 - shift, 1 - (OFFSET_64 >> shift)
    words = yield from add_halves(party, x, OFFSET_64 - 1, shift, up, constant, ring)
    return AShare(words.reshape(x.shape), party.rank, x.scale - shift)


@protocol(cost=lambda x, shift: Cost(2, both(64 * x.size + _chunking(shift).wire_bits(x.size))), elementwise=True)
def floor_by_bits(party: Endpoint, x: AShare, shift: int) -> Steps[AShare]:
    """[x] -> [floor(x / 2^shift)], exact; 1 <= shift <= 62; the scale falls by shift."""
    r, high, msb, dealt, products = party.randomness.take(FloorMasks(x.shape, shift))
    e = yield from open_offset(x, r)
    chunks = _chunking(shift)
    opened = yield from open_chunks(party, e, np.zeros(1, U64), chunks, dealt)
    one = np.full(x.size, party.rank == 0, U64)
    borrowed = borrow.ring_borrows(opened.reshape(-1), products, one, chunks.m)
    words = shift_opened(e, high, msb, shift, party.rank == 0) - borrowed
    return AShare(words.reshape(x.shape), party.rank, x.scale - shift)


@protocol()
def floor(party: Endpoint, x: AShare, shift: int) -> Steps[AShare]:
    """[x] -> [floor(x / 2^shift)], exact; 1 <= shift <= 62; the scale falls by shift."""
    by_keys = keys_pay(party, x.size, shift)
    return (yield from (floor_by_keys if by_keys else floor_by_bits).steps(party, x, shift))


def shift_right(party: Endpoint, x: AShare, shift: int, exact: bool = True) -> Steps[AShare]:
    """[x] -> [x / 2^shift] by `floor`, or by `truncate` if it need not be exact; the scale falls by shift."""
    return (yield from (floor if exact else truncate).steps(party, x, shift))


BIG = 1 << 61


def _truncated(k: int, shift: int) -> Enumerated:
    """Return the case of the k top bits, `low` of them shifted out; the coin is the low bits of party 1's share."""
    low = shift - (64 - k)
    part = (1 << low) - 1
    return Enumerated(
        f"the {k} top bits, by {shift}",
        (word(k, low=64 - k), shift),
        lambda x, coin: (signed(x, k) >> low) + ((coin & part) < (x & part)),
        draws=[Bits(1), Bits(1), Bits(2)],
        # Two bits of the dealt product, from bit 64 - shift of the result up.
        output=Bits(66 - shift),
        promise=in_half_range(k),
        halves=True,
        fresh=False,
    )


describe(
    truncate,
    samples=calls(lambda i, n: [i.words(-BIG, BIG, n, 2), 13]) + calls(lambda i, n: [i.words(-BIG, BIG, n), 40, Z32]),
    priced=calls(lambda i, n: [i.words(0, 1, n), 20], element="word, by 20 bits"),
    evidence=[_truncated(k, shift) for k, shift in ((4, 62), (6, 61), (8, 59))],
)
describe(
    floor_by_bits,
    samples=calls(lambda i, n: [i.words(-BIG, BIG, n, 2), 13]),
    priced=calls(lambda i, n: [i.words(0, 1, n), 20], element="word, by 20 bits"),
    evidence=[
        Argued(
            "uses both ends of a word of 64 bits; its high part is enumerated in truncation.ipynb, and the bits of "
            "chunks are opened as in below",
            "perfect: every message is a one-time pad",
        )
    ],
)
describe(
    floor,
    samples=calls(lambda i, n: [i.words(-BIG, BIG, n, 2), 13]),
    priced=calls(lambda i, n: [i.words(0, 1, n), 20], element="word, by 20 bits"),
    evidence=composed(floor_by_bits, floor_by_keys),
)
