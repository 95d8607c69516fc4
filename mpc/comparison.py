"""Comparison with public thresholds: [x] -> <x < t> for any number of t on one opening; and what follows from it.

Functionality  [x] in Z_2^64 and public t_1 .. t_T -> <x < t_k>, exact while -2^(B-1) <= x - t_k < 2^(B-1)
Messages       round 1: x_i + r_i mod 2^B;  round 2: for each t_k the 2m - 1 masked bits gt_j, eq_j (one uint16)
Cost           8 ceil(B / 8) |x| bits, then 16 T |x| bits, each way; offline from the dealer, an element: [r] has
               seeds only; m thermometers of 2^c bits, one bit, and 1.5 2^m bits a threshold
Security       semi-honest, perfect: r mod 2^B and the bit masks are one-time pads
How            x - t = e - t - r, so its sign is msb(e - t) xor msb(r) xor the borrow of the low bits. Cut the low
               bits of r into m chunks; the dealer shares the thermometer of each, so <r_j > k> and <r_j = k> are
               look-ups at public places. borrow = xor_j gt_j prod_{i>j} eq_i is one round, because the dealer also
               shares every product of the masks that hide gt and eq.
Source         one-time truth tables: Ishai et al., TCC 2013; chunked comparison: Garay, Schoenmakers and Villegas,
               PKC 2007; masked products in one round: Ohata and Nuida, FC 2020
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc.bit_product import select
from mpc.comparison_keys import below_by_keys, larger_by_keys
from mpc.contract import Cost, both, in_sequence, protocol
from mpc.conversion import to_bits
from mpc.correlation import Hand
from mpc.kernels import borrow
from mpc.party import Party, Steps, Variant, open_shares, open_words
from mpc.ring import U8, U16, U32, U64, Shape, encode_signed, low_bits, packed_size
from mpc.shares import AShare, BShare, stack

_PRODUCT_TYPES = {1: U8, 2: U8, 3: U16, 4: U32}


def product_type(m: int) -> np.dtype:
    """The narrowest word for the mask products of m chunks."""
    return _PRODUCT_TYPES.get(m, U64)


def chunking(bits: int, thresholds: int) -> tuple[int, int]:
    """(c, m): chunks of c bits, m of them, with the least material from the dealer for `bits` bits."""

    def size(choice: tuple[int, int]) -> int:
        c, m = choice
        return m * max(1, (1 << c) // 8) + thresholds * borrow.product_words(m) * product_type(m).itemsize

    return min(((-(-bits // m), m) for m in range(1, min(7, bits) + 1) if -(-bits // m) <= 16), key=size)


def deal_borrow(hand: Hand, r: np.ndarray, thresholds: int, bits: int) -> tuple[np.ndarray, ...]:
    """For the low `bits` bits of a dealt mask r, uint64[n]: thermometers, bit masks, and the masks' products."""
    c, m = chunking(bits, thresholds)
    n, words, dtype = r.size, borrow.product_words(m), product_type(m)
    table = hand.derived(
        lambda: borrow.thermometers(low_bits(r, bits), c, m), (n, m, max(1, (1 << c) // 8)), U8, xor=True
    )
    masks = hand.mask((n, thresholds), U16, xor=True)
    products = hand.derived(
        lambda: borrow.mask_products(masks.reshape(-1), m, words), (n * thresholds, words), dtype, xor=True
    )
    return table, masks, products.astype(U64)


def borrow_bits(party: Party, name: str, e: np.ndarray, thresholds: np.ndarray, bits: int, dealt: tuple) -> Steps:
    """<1{(e - t) mod 2^bits < r mod 2^bits}> as uint8[n, T]: one round on what `deal_borrow` gave."""
    c, m = chunking(bits, thresholds.size)
    table, masks, products = dealt
    seen = borrow.chunk_bits(e, thresholds, table, bits, c, m, party.rank == 0)
    (opened,) = yield from open_words(name, seen ^ masks)
    return borrow.borrows(opened.reshape(-1), products, m).reshape(seen.shape)


@dataclass(frozen=True)
class SignMasks:
    """[r] in Z_2^64, <bit B-1 of r>, and the borrow material of its low B - 1 bits."""

    shape: Shape
    thresholds: int
    bits: int

    def deal(self, hand: Hand):
        n = int(np.prod(self.shape, dtype=np.int64))
        r = hand.mask((n,), U64)
        top = hand.derived_bits(lambda: (r >> np.uint64(self.bits - 1)) & np.uint64(1), (n,))
        return r, top, deal_borrow(hand, r, self.thresholds, self.bits - 1)


def _below_cost(x: AShare, thresholds: Sequence[int], bits: int, by: Variant = "bits") -> Cost:
    if by == "keys":
        return below_by_keys.cost(x, thresholds, bits)
    if by == "carries":
        return to_bits.cost(AShare(np.empty((*x.shape, len(thresholds)), U64), 0), bits)
    return Cost(2, both(8 * packed_size(x.size, bits) + 16 * x.size * len(thresholds)))


@protocol(cost=_below_cost)
def below(party: Party, x: AShare, thresholds: Sequence[int], bits: int, by: Variant | None = None) -> Steps:
    """[x], public thresholds -> <x < t>, shape x.shape + (T,); `bits` is B of the header, 2 .. 64.

    `by` names the variant: "bits" as above; "keys" (mpc/comparison_keys.py), one round; "carries" (mpc/conversion.py),
    with bit triples alone offline. None leaves it to the party's setting.
    """
    if (by or party.comparison) == "keys":
        return (yield from below_by_keys.steps(party, x, thresholds, bits))
    if (by or party.comparison) == "carries":
        below_zero = stack([x - t for t in thresholds], axis=-1)
        return (yield from to_bits.steps(party, below_zero, bits))[..., -1]
    r, top, dealt = party.randomness.take(SignMasks(x.shape, len(thresholds), bits))
    masked = x.map(lambda w: low_bits(w.reshape(-1) + r, bits))
    (e,) = yield from open_shares("comparison.below", masked, bits=[bits])
    t = encode_signed(np.asarray(thresholds))
    borrowed = yield from borrow_bits(party, "comparison.below", low_bits(e, bits), t, bits - 1, dealt)
    sign = (((e[:, None] - t) >> np.uint64(bits - 1)) & np.uint64(1)).astype(np.uint8)
    out = borrowed ^ top[:, None]
    return BShare((out ^ sign if party.rank == 0 else out).reshape(*x.shape, t.size), party.rank)


def _maximum_cost(x: AShare, y: AShare, bits: int = 64, by: Variant = "bits") -> Cost:
    if by == "keys":
        return larger_by_keys.cost(x, y, bits)
    return in_sequence(below.cost(x, [0], bits), select.cost(BShare(x.words, 0), x))


@protocol(cost=lambda x, y, bits=64, by="bits": below.cost(x, [0], bits, by))
def less_than(party: Party, x: AShare, y: AShare, bits: int = 64, by: Variant | None = None) -> Steps:
    """[x], [y] of one shape and scale -> <x < y>, exact while |x - y| < 2^(bits - 1)."""
    return (yield from below.steps(party, x - y, [0], bits, by))[..., 0]


@protocol(cost=lambda x, low, high, bits=64, by="bits": below.cost(x, [low, high], bits, by))
def inside(party: Party, x: AShare, low: int, high: int, bits: int = 64, by: Variant | None = None) -> Steps:
    """[x], public low <= high -> <low <= x < high>, on one opening."""
    under = yield from below.steps(party, x, [low, high], bits, by)
    return under[..., 0] ^ under[..., 1]


@protocol(cost=_maximum_cost)
def maximum(party: Party, x: AShare, y: AShare, bits: int = 64, by: Variant | None = None) -> Steps:
    """[x], [y] of one shape and scale -> [max(x, y)] and <x < y>, exact while |x - y| < 2^(bits - 1)."""
    if (by or party.comparison) == "keys":
        return (yield from larger_by_keys.steps(party, x, y, bits))
    lost = yield from less_than.steps(party, x, y, bits, by)
    return x + (yield from select.steps(party, lost, y - x)), lost
