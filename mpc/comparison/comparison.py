"""Comparison with public thresholds, [x] -> <x < t> for any number of t on one opening, and protocols built on it.

Functionality  [x] in Z_2^64 and public t_1 .. t_T -> <x < t_k>, exact while -2^(B-1) <= x - t_k < 2^(B-1)
Messages       round 1: x_i + r_i mod 2^B;  round 2: for each t_k the 2m - 1 masked bits gt_j, eq_j
Cost           B |x| bits, then (2m - 1) T |x| bits, each way, packed by mpc/words.py. Offline the dealer sends, per
               element, m thermometers of 2^c bits and one bit, and 1.5 2^m bits per threshold; [r] takes only seeds
Security       semi-honest, perfect: r mod 2^B and the bit masks are one-time pads
How            x - t = e - t - r, so its sign is msb(e - t) xor msb(r) xor the borrow of the low bits, which
               mpc/comparison/thermometer.py opens chunk by chunk under bit masks. borrow = xor_j gt_j prod_{i>j} eq_i
               is linear in the products of those masks, and the dealer shares all of these products
Source         see mpc/comparison/thermometer.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.arithmetic.bits import select
from mpc.comparison.comparison_keys import below_by_keys, keys_pay
from mpc.comparison.thermometer import (
    Chunking,
    MaskProducts,
    Thermometers,
    cheapest_chunking,
    deal_bit_masks,
    open_chunks,
    thermometer_shares,
    thermometers,
)
from mpc.endpoint import Endpoint
from mpc.kernels import borrow
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import Pair, bit_of
from mpc.offline.transfers import OfflineSteps
from mpc.protocol.catalogue import Inputs, calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Bits, Enumerated, composed, signed, word
from mpc.rings import GF2, Z64, PackedBits
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, BShare, stack
from mpc.words import U64, Shape, encode_signed, low_bits, packed_size, smallest_word


def product_type(m: int) -> np.dtype:
    """Return the narrowest word for the mask products of m chunks, or for a part of them."""
    return smallest_word(min(borrow.product_bits(m), 64))


def chunking(bits: int, thresholds: int) -> Chunking:
    """Return how a comparison of B = bits + 1 bits with this number of thresholds cuts the low bits."""
    return cheapest_chunking(bits, lambda m: thresholds * borrow.product_words(m) * product_type(m).itemsize)


@dataclass(frozen=True)
class TopAndThermometers:
    """The bit of words x above their chunks, and the thermometers of the chunks."""

    x: np.ndarray
    chunks: Chunking

    def __call__(self) -> tuple[np.ndarray, np.ndarray]:
        return bit_of(self.x, self.chunks.bits), thermometers(self.x, self.chunks)

    def between(self, pair: Pair) -> OfflineSteps[tuple[np.ndarray, np.ndarray]]:
        table, carries = yield from thermometer_shares(pair.rank, self.x, self.chunks)
        return bit_of(self.x, self.chunks.bits) ^ carries[:, -1], table


@correlation
class SignMasks:
    """[r] in Z_2^64, <bit B-1 of r>; thermometers of its low B - 1 bits, bit masks, and the masks' products as bits."""

    shape: Shape
    thresholds: int
    bits: int

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray, Thermometers, np.ndarray]:
        n = math.prod(self.shape)
        r = view.mask(Z64, (n,))
        chunks = chunking(self.bits - 1, self.thresholds)
        top, table = view.derived_many([(GF2, (n,)), chunks.dealt(n)], TopAndThermometers(r, chunks))
        masks = deal_bit_masks(view, n, self.thresholds, chunks)
        dtype = product_type(chunks.m)
        products = view.derived(
            PackedBits(dtype),
            (n * self.thresholds, borrow.product_words(chunks.m)),
            MaskProducts(masks.reshape(-1), chunks.m, dtype),
        )
        return r, top, (table, masks), products


def _bits_cost(x: AShare, thresholds: Sequence[int], bits: int) -> Cost:
    opened = chunking(bits - 1, len(thresholds)).wire_bits(x.size * len(thresholds))
    return Cost(2, both(8 * packed_size(x.size, bits) + opened))


@protocol(cost=_bits_cost, elementwise=True)
def below_by_bits(party: Endpoint, x: AShare, thresholds: Sequence[int], bits: int) -> Steps[BShare]:
    """[x], public thresholds -> <x < t>, shape x.shape + (T,); `bits` is B of the header, 2 .. those of the ring."""
    r, top, dealt, products = party.randomness.take(SignMasks(x.shape, len(thresholds), bits))
    masked = x.map(lambda w: low_bits(w.reshape(-1).astype(U64, copy=False) + r, bits))
    (e,) = yield from open_shares(masked, bits=[bits])
    t = encode_signed(np.asarray(thresholds))
    chunks = chunking(bits - 1, t.size)
    opened = yield from open_chunks(party, low_bits(e, bits), t, chunks, dealt)
    choices = borrow.choices(chunks.m)
    out = borrow.borrows(opened.reshape(-1), products.astype(U64, copy=False), chunks.m, *choices).reshape(opened.shape)
    borrow.flip_to_signs(out, top, e, t, bits, party.rank == 0)
    return BShare(out.reshape(*x.shape, t.size), party.rank)


@protocol()
def below(party: Endpoint, x: AShare, thresholds: Sequence[int], bits: int) -> Steps[BShare]:
    """[x], public thresholds -> <x < t>, shape x.shape + (T,); `bits` is B of the header, 2 .. 64.

    Where a round costs more than dealt keys, by keys (mpc/comparison/comparison_keys.py) in one round.
    """
    by_keys = keys_pay(party, x.size, bits - 1)
    return (yield from (below_by_keys if by_keys else below_by_bits).steps(party, x, thresholds, bits))


@protocol()
def less_than(party: Endpoint, x: AShare, y: AShare, bits: int = 64) -> Steps[BShare]:
    """[x], [y] of one shape and scale -> <x < y>, exact while |x - y| < 2^(bits - 1)."""
    return (yield from below.steps(party, x - y, [0], bits))[..., 0]


@protocol()
def in_range(party: Endpoint, x: AShare, low: int, high: int, bits: int = 64) -> Steps[BShare]:
    """[x], public low <= high -> <low <= x < high>, on one opening."""
    under = yield from below.steps(party, x, [low, high], bits)
    return under[..., 0] ^ under[..., 1]


@protocol()
def maximum(party: Endpoint, x: AShare, y: AShare, bits: int = 64) -> Steps[tuple[AShare, BShare]]:
    """[x], [y] of one shape and scale -> [max(x, y)] and <x < y>, exact while |x - y| < 2^(bits - 1)."""
    lost = yield from less_than.steps(party, x, y, bits)
    return x + (yield from select.steps(party, lost, y - x)), lost


def beyond(party: Endpoint, x: AShare, most: int, bits: int) -> Steps[BShare]:
    """[x] -> <x < -most> and <x > most>, shape x.shape + (2,), both 0 only where |x| <= most, for all x in Z_2^bits."""
    ends = yield from below.steps(party, x, [-most, most + 1], bits)
    return stack([ends[..., 0], ~ends[..., 1]], axis=-1)


BIG = 1 << 61


def _signs(k: int, thresholds: Sequence[int]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.stack([signed(x - t & (1 << k) - 1, k) < 0 for t in thresholds], axis=-1)


def _sample(i: Inputs, n: int) -> list[Any]:
    return [i.words(-BIG, BIG, n), [0, 5, -7], 63]


describe(
    below_by_bits,
    samples=calls(_sample),
    priced=calls(lambda i, n: [i.words(0, 1, n), [0], 64], element="x < t, 64 bits"),
    evidence=[
        Enumerated(
            f"Z_{2**k}, thresholds {', '.join(map(str, thresholds))}",
            (word(k), thresholds, k),
            _signs(k, thresholds),
            draws=[None, Bits(1 << k - 1), Bits(1), Bits(2)],
        )
        for k, thresholds in ((2, (0,)), (2, (0, 1)), (3, (0,)))
    ],
)
describe(
    below,
    samples=calls(_sample),
    priced=calls(lambda i, n: [i.words(0, 1, n), [0], 64], element="x < t, 64 bits")
    + calls(lambda i, n: [i.words(0, 1, n), range(16), 64], element="x < t for 16 t, 64 bits")
    + calls(lambda i, n: [i.words(0, 1, n), [0], 32], element="x < t, 32 bits"),
    evidence=composed(below_by_bits, below_by_keys),
)
describe(
    less_than,
    samples=calls(lambda i, n: [i.words(-BIG, BIG, n), i.words(-BIG, BIG, n)]),
    priced=calls(lambda i, n: [i.words(0, 1, n), i.words(0, 1, n)], element="x < y, 64 bits"),
    evidence=composed(below),
)
describe(
    in_range,
    samples=calls(lambda i, n: [i.words(-BIG, BIG, n), -9, 9]),
    priced=calls(lambda i, n: [i.words(0, 1, n), -1, 1], element="l <= x < h, 64 bits"),
    evidence=composed(below),
)
describe(
    maximum,
    samples=calls(lambda i, n: [i.words(0, BIG, n), i.words(0, BIG, n)]),
    priced=calls(lambda i, n: [i.words(0, 1, n), i.words(0, 1, n)], element="larger of two, 64 bits"),
    evidence=composed(below, select),
)
