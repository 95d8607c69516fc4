"""Chunks of an opened e = x + r against chunks of the dealt r, as masked bits: one round (a part of other protocols).

Functionality  public e and t, dealt r -> the comparisons of every chunk of e - t with r's, as bits opened under masks
Messages       for each threshold t the 2 m - 1 masked bits gt_j, eq_j
Cost           (2 m - 1) T |x| bits each way, packed by mpc/ring.py; offline, an element: m thermometers of 2^c bits
Security       semi-honest, perfect: the bits are opened under one-time pads
How            the low bits of r are cut into m chunks of c bits. The thermometer of r_j is T[k] = 1{r_j > k}, so that
               gt_j = 1{r_j > e_j} and eq_j = 1{r_j = e_j} are look-ups at public places. What is wanted is the
               borrow 1{e - t < r} of the low bits, xor_j gt_j prod_{i>j} eq_i: linear in dealt products of the masks
Source         one-time truth tables: Ishai et al., TCC 2013; chunked comparison: Garay, Schoenmakers and Villegas,
               PKC 2007; masked products in one round: Ohata and Nuida, FC 2020
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpc.correlation import View
from mpc.endpoint import Endpoint
from mpc.kernels import borrow
from mpc.ring import U8, U32, low_bits, packed_size
from mpc.rings import PackedBits
from mpc.rounds import Steps, open_words


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
    def opened(self) -> int:
        """Bits that are opened for a threshold."""
        return 2 * self.m - 1

    def wire_bits(self, count: int) -> int:
        """Payload bits of `open_chunks` for so many thresholds in all, each way."""
        return 8 * packed_size(count, self.opened)


def cheapest_chunking(bits: int, product_bytes: Callable[[int], int]) -> Chunking:
    """The chunking with the least material from the dealer; `product_bytes` of m is that for the mask products."""
    choices = [
        Chunking(bits, -(-bits // m), m) for m in range(1, min(borrow.MOST_CHUNKS, bits) + 1) if -(-bits // m) <= 16
    ]
    return min(choices, key=lambda choice: choice.m * choice.table_bytes + product_bytes(choice.m))


# Thermometers of the chunks, and bit masks.
Thermometers = tuple[np.ndarray, np.ndarray]


def deal_thermometers(view: View, r: np.ndarray, thresholds: int, chunks: Chunking) -> Thermometers:
    """For the low bits of a dealt r, uint64[n]: <thermometers>, uint8[n, m, 2^c / 8], and <bit masks>, uint32[n, T]."""
    table = view.derived(
        PackedBits(U8),
        (r.size, chunks.m, chunks.table_bytes),
        lambda: borrow.thermometers(low_bits(r, chunks.bits), chunks.c, chunks.m),
    )
    return table, low_bits(view.mask(PackedBits(U32), (r.size, thresholds)), chunks.opened)


def open_chunks(
    party: Endpoint, e: np.ndarray, thresholds: np.ndarray, chunks: Chunking, dealt: Thermometers
) -> Steps[np.ndarray]:
    """The bits of (e - t) mod 2^bits against r, masked and opened: uint32[n, T]; `dealt` is of `deal_thermometers`."""
    table, masks = dealt
    seen = borrow.chunk_bits(e, thresholds, table, chunks.bits, chunks.c, chunks.m, party.rank == 0)
    (opened,) = yield from open_words(seen ^ masks, bits=chunks.opened)
    return opened
