"""Sums of one party's numbers over the rows in each bin of the other party's features.

Functionality  p: one of K bins for each row and feature; q: v numbers of B bits for each row
               -> [their sums by feature and bin] in Z_2^64, [v, d, K]
Messages       with a dealer, per portion of features: the masked one-hot matrix, p -> q; the masked numbers, q -> p;
               one bit per sum of a block (mpc/rounding/widening.py): three rounds. Without a dealer, for bits: one
               transfer per row, in which q's bit chooses the row's one-hot bytes, and the bit per sum; for longer
               numbers, the known matrix over Z_2^64
Cost           per cell K words, of 8 bits for bits and of 32 for longer numbers
Security       semi-honest, perfect given the transfers: composition
How            the sum of a block of rows fits a word with two bits to spare, 126 bits in a byte, so that the matrix has
               narrow words. Only the blocks' sums are widened, and added up
Source         the parts; sums by blocks in narrow words: ours
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from mpc.errors import ProtocolDesync, ShapeMismatch
from mpc.matrix.interface import released
from mpc.matrix.known_matrix import BinColumns
from mpc.matrix.linear_map import MatrixRelease, apply_matrix, blocks_of, share_masked_matrix
from mpc.offline.recipes import Pair
from mpc.offline.transfers import OfflineSteps, Transfer
from mpc.protocol import (
    Z8,
    Z32,
    Z64,
    Argued,
    AShare,
    Endpoint,
    Inputs,
    Steps,
    View,
    Z2k,
    calls,
    concatenate,
    correlation,
    describe,
    protocol,
)
from mpc.rounding.widening import widen

# Bytes of the one-hot rows of a portion of features.
PORTION = 1 << 26


@correlation
class ChosenSums:
    """The sums of the rows that one party keeps, where the bits are 1 that the other keeps, [count, blocks, width].

    Both keep theirs under one number. Rows are one-hots of bins, or words of the ring.
    """

    number: int
    owner: int
    rows: int
    width: int
    count: int
    block: int
    ring: Z2k

    def deal(self, view: View) -> np.ndarray:
        shape = (self.count, *blocks_of(self.rows, self.block), self.width)
        return view.derived(self.ring, shape, RowsByBits(self))


@dataclass(frozen=True)
class RowsByBits:
    """One transfer for each row and vector of bits."""

    of: ChosenSums

    def __call__(self) -> NoReturn:
        raise ProtocolDesync("sums by transfers need no dealer")

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        of, own = self.of, pair.operands.kept(self.of.number)
        chooser, dtype = 1 - of.owner, of.ring.dtype
        words = None
        if pair.rank == of.owner:
            words = own if isinstance(own, np.ndarray) else np.zeros((of.rows, of.width), dtype)
            if isinstance(own, BinColumns):
                np.put_along_axis(words, own.bins + np.arange(0, of.width, own.size), 1, axis=1)
        asked = []
        for v in range(of.count):
            choices = None
            if pair.rank == chooser:
                choices = np.zeros(of.rows, np.uint8) if own is None else own[v]
            asked.append(Transfer(chooser, of.rows, of.width, of.ring, choices, words))
        starts = np.arange(0, of.rows, of.block)
        return np.stack([np.add.reduceat(share, starts, axis=0, dtype=dtype) for share in (yield asked)])


def _blocks(ring: Z2k, bits: int) -> int:
    """Return how many numbers have a sum that `widen` takes."""
    return ((1 << ring.bits - 1) - 2) // ((1 << bits) - 1)


@protocol()
def sums_by_bin(
    party: Endpoint,
    owner: int,
    bins: np.ndarray | None,
    numbers: np.ndarray | None,
    rows: int,
    features: int,
    size: int,
    count: int = 1,
    bits: int = 1,
) -> Steps[AShare]:
    """Owner: integers [rows, features] below size; other: [count, rows] below 2^bits -> [count, features, size].

    What the other party gives is not read. 1 <= bits <= 16. Raises ShapeMismatch.
    """
    given, shape = (bins, (rows, features)) if party.rank == owner else (numbers, (count, rows))
    if given is None or given.shape != shape:
        raise ShapeMismatch(
            f"this party's part must have the shape {shape}, got {None if given is None else given.shape}"
        )
    ring = Z8 if bits == 1 else Z32 if party.randomness.has_dealer else Z64
    block = 0 if ring == Z64 else _blocks(ring, bits)
    per = max(1, PORTION // (max(1, rows) * size * ring.bits // 8))
    portions = [slice(f, min(features, f + per)) for f in range(0, features, per)] if rows else []
    sums = [AShare(np.zeros((count, 0 if portions else features, size), np.uint64), party.rank)]
    for some in portions:
        columns = None
        if party.rank == owner:
            columns = BinColumns(np.ascontiguousarray(given[:, some]), size, block)
            own = np.zeros((count, rows))
        else:
            own = given
        vectors = AShare(own.astype(ring.dtype), party.rank)
        d = some.stop - some.start
        if block and not party.randomness.has_dealer:
            kept = vectors.words if columns is None else columns
            request = ChosenSums(party.next_matrix(), owner, rows, d * size, count, block, ring)
            by_block = chosen_sums(party, request, kept)
        else:
            matrix = yield from share_masked_matrix.steps(party, owner, columns, rows, d * size, ring, size, block)
            with released(party, [matrix]):
                by_block = yield from apply_matrix.steps(party, matrix.supply(party, count), vectors)
        if block:
            middle = np.minimum(block, rows - np.arange(0, rows, block)) * ((1 << bits) - 1) // 2
            wide = yield from widen.steps(party, by_block - middle[:, None])
            by_block = wide.sum(axis=1) + int(middle.sum())
        sums.append(by_block.reshape(count, d, size))
    return concatenate(sums, axis=1)


def chosen_sums(party: Endpoint, request: ChosenSums, own: BinColumns | np.ndarray) -> AShare:
    """Return the sums of blocks by transfers: own rows at the owner, own bits, uint8[count, rows], at the other.

    An audit has them made twice, and requires that both are the same.
    """
    count, times = request.count, party.audit.evaluations
    kept = own if party.rank == request.owner or not isinstance(own, np.ndarray) else np.tile(own, (times, 1))

    def make() -> np.ndarray:
        party.randomness.keep(request.number, kept)
        words = party.randomness.take(replace(request, count=times * count))
        party.randomness.take(MatrixRelease(request.number))
        return words

    sums = AShare(party.audit.once(make), party.rank)
    if party.audit:
        party.audit.zero(sums[:count] - sums[count:], "sums made by transfers are those of a second evaluation")
    return sums[:count]


def _sample(i: Inputs, rows: int, owner: int, count: int, bits: int) -> list[Any]:
    """Two features of four bins."""
    bins, numbers = i.known(0, 4, rows, 2), i.known(0, 1 << bits, count, rows)
    return [owner, bins.astype(np.uint8), numbers.astype(np.uint16), rows, 2, 4, count, bits]


def _lane(i: Inputs, n: int, owner: int) -> list[Any]:
    """A block of rows for every run."""
    block = _blocks(Z8, 1)
    bins, bits = (i.known(0, most, n, block * d).reshape(-1, d) for most, d in ((4, 2), (2, 1)))
    return [owner, bins.astype(np.uint8), bits.T.astype(np.uint8), n * block, 2, 4]


describe(
    sums_by_bin,
    samples=calls(lambda i, n: _sample(i, n, 0, 1, 1)) + calls(lambda i, n: _sample(i, n, 1, 2, 12)),
    priced=calls(lambda i, n: _sample(i, n, 0, 1, 1), element="bit by bin of two features of four bins")
    + calls(lambda i, n: _sample(i, n, 0, 1, 12), element="number of 12 bits likewise"),
    lanes=calls(lambda i, n: _lane(i, n, 0)) + calls(lambda i, n: _lane(i, n, 1)),
    evidence=[
        Argued(
            "sends only the messages of share_masked_matrix, apply_matrix and widen, on masks that it takes for them",
            "perfect given the transfers: composition",
        )
    ],
)
