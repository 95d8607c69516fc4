"""Comparison of chunks of an opened e = x + r with chunks of the dealt r, as masked bits: one round of other protocols.

Functionality  public e and t, dealt r -> the comparisons of every chunk of e - t with r's, as bits opened under masks
Messages       for each threshold t the 2 m - 1 masked bits gt_j, eq_j
Cost           (2 m - 1) T |x| bits each way, packed by mpc/words.py; offline, per element: m thermometers of 2^c bits
Security       semi-honest, perfect: the bits are opened under one-time pads
How            the low bits of r are cut into m chunks of c bits. The thermometer of r_j is T[k] = 1{r_j > k}, so
               gt_j = 1{r_j > e_j} and eq_j = 1{r_j = e_j} are look-ups at public places. The result is the borrow
               1{e - t < r} of the low bits, xor_j gt_j prod_{i>j} eq_i, which is linear in dealt products of the masks
Source         one-time truth tables: Ishai et al., TCC 2013; chunked comparison: Garay, Schoenmakers and Villegas,
               PKC 2007; masked products in one round: Ohata and Nuida, FC 2020
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpc.kernels import borrow
from mpc.offline import one_hot_transfers, transfers
from mpc.offline.correlation import Result
from mpc.offline.recipes import Pair
from mpc.offline.transfers import OfflineSteps
from mpc.protocol import U8, U32, U64, Endpoint, PackedBits, Steps, View, Z2k, low_bits, open_words, packed_size
from mpc.rounds import parallel


@dataclass(frozen=True)
class Chunking:
    """`bits` low bits as m chunks of c bits."""

    bits: int
    c: int
    m: int

    @property
    def table_bytes(self) -> int:
        return max(1, (1 << self.c) // 8)

    @property
    def widths(self) -> list[int]:
        """The width of each chunk in bits."""
        return [min(self.c, self.bits - low) for low in range(0, self.bits, self.c)]

    @property
    def opened(self) -> int:
        """Bits opened per threshold."""
        return 2 * self.m - 1

    def dealt(self, count: int) -> Result:
        """Return the ring and shape of the thermometers of `count` words."""
        return PackedBits(U8), (count, self.m, self.table_bytes)

    def wire_bits(self, count: int) -> int:
        """Return the payload bits of `open_chunks` for `count` thresholds in all, each way."""
        return 8 * packed_size(count, self.opened)


def cheapest_chunking(bits: int, product_bytes: Callable[[int], int]) -> Chunking:
    """Return the chunking with the fewest bytes from the dealer; `product_bytes(m)` are those of the mask products."""
    choices = [
        Chunking(bits, -(-bits // m), m) for m in range(1, min(borrow.MOST_CHUNKS, bits) + 1) if -(-bits // m) <= 16
    ]
    return min(choices, key=lambda choice: choice.m * choice.table_bytes + product_bytes(choice.m))


# The ring of bit masks, of which the low `Chunking.opened` bits are used.
MASKS = PackedBits(U32)
# <thermometers> of the chunks, uint8[n, m, 2^c / 8], and <bit masks>, uint32[n, T].
Thermometers = tuple[np.ndarray, np.ndarray]


def thermometers(x: np.ndarray, chunks: Chunking) -> np.ndarray:
    """Words [n] -> the thermometers of their chunks, uint8[n, m, 2^c / 8]."""
    return borrow.thermometers(low_bits(x.astype(U64, copy=False), chunks.bits), chunks.c, chunks.m)


def thermometer_shares(
    rank: int, x: np.ndarray, chunks: Chunking, *above: int
) -> OfflineSteps[tuple[np.ndarray, np.ndarray]]:
    """[x], words [n] -> <thermometers>, and the <carries> out of the chunks and of the windows above them."""
    hots, carries = yield from one_hot_transfers.one_hots(rank, x, [*chunks.widths, *above], chunks.m)
    tables = np.zeros((len(x), chunks.m, chunks.table_bytes), U8)
    for j, hot in enumerate(hots):
        table = one_hot_transfers.above(hot).view(U8)
        tables[:, j, : table.shape[1]] = table
    return tables, carries


def mask_products(rank: int, masks: np.ndarray, m: int) -> OfflineSteps[np.ndarray]:
    """<bit masks>, uint32[n] -> <every product that mpc/kernels/borrow.py names>, uint8[n, products]."""
    bits = transfers.bits_of_words(masks, 2 * m - 1)
    subsets = yield from one_hot_transfers.subset_products(rank, bits[:, m:])
    # The subsets of {j + 1 ..}.
    strings = [subsets[:, :: 1 << j] for j in range(m)]
    each = yield from parallel(*(transfers.and_each(rank, bits[:, j], string) for j, string in enumerate(strings[:-1])))
    return np.concatenate([subsets, *each, bits[:, m - 1 : m]], axis=1)


@dataclass(frozen=True)
class MaskProducts:
    """The products of bit masks as bits, packed in words of `dtype`, which hold the products of m chunks."""

    masks: np.ndarray
    m: int
    dtype: np.dtype

    def __call__(self) -> np.ndarray:
        return borrow.mask_products(self.masks, self.m, borrow.product_words(self.m))

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        bits = yield from mask_products(pair.rank, self.masks, self.m)
        words = np.zeros((len(bits), borrow.product_words(self.m) * self.dtype.itemsize), U8)
        packed = np.packbits(bits, axis=1, bitorder="little")
        words[:, : packed.shape[1]] = packed
        return words.view(self.dtype)


@dataclass(frozen=True)
class RingMaskProducts:
    """The products of bit masks in the ring, without the first."""

    ring: Z2k
    masks: np.ndarray
    m: int

    def __call__(self) -> np.ndarray:
        return borrow.ring_mask_products(self.masks, self.m, borrow.ring_product_words(self.m))

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        bits = yield from mask_products(pair.rank, self.masks, self.m)
        return (yield from transfers.lift(pair.rank, bits[:, 1:], self.ring))


def deal_bit_masks(view: View, count: int, thresholds: int, chunks: Chunking) -> np.ndarray:
    """Deal <bit masks>, uint32[n, T]."""
    return low_bits(view.mask(MASKS, (count, thresholds)), chunks.opened)


def open_chunks(
    party: Endpoint, e: np.ndarray, thresholds: np.ndarray, chunks: Chunking, dealt: Thermometers
) -> Steps[np.ndarray]:
    """Mask and open the comparisons of (e - t) mod 2^bits with r: uint32[n, T]; `dealt` is for r."""
    table, masks = dealt
    seen = borrow.chunk_bits(e, thresholds, table, chunks.bits, chunks.c, chunks.m, party.rank == 0)
    (opened,) = yield from open_words(seen ^ masks, bits=chunks.opened)
    return opened
