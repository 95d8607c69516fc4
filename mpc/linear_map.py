"""Known matrix times shared vectors: the workhorse behind histograms, routing and binned prediction.

Functionality  the owner p knows M in the clear; [x_1 .. x_v] -> [M x_1 .. M x_v], over Z_2^k or over GF(2)
Messages       once per matrix   p -> q: D = M - U                                  (`share_masked_matrix`)
               per use           q -> p: e = x_q - r                                 (`apply_matrix`, one round)
               p outputs M (x_p + e) + s_p, evaluated in the clear; q outputs t = D r + s_q
Cost           online |x| words from q to p, whatever the size of M. Offline: U, r, s_q are seeds, the dealer
               sends s_p = U r - s_q to p, and q computes t before the online phase
Security       semi-honest, perfect: D and e are one-time pads. U serves one M, r serves one x
Source         matrix multiplication triples with one fixed operand: Mohassel and Zhang, IEEE S&P 2017
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mpc.contract import Cost, protocol
from mpc.correlation import Hand
from mpc.endpoint import Endpoint
from mpc.errors import MaskReuse, ShapeMismatch
from mpc.kernels import linear_map as kernels
from mpc.ring import BIT, U8, U64, packed_size
from mpc.rounds import Round, Steps
from mpc.shares import BShare, S


class Matrix(Protocol):
    """A known matrix: how to mask it, and how to apply it in the clear."""

    def masked(self, mask: np.ndarray) -> np.ndarray:
        """M - mask, in the storage of `mpc.kernels.linear_map`."""

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """M x for vectors [v, n_in] -> [v, n_out]."""


@dataclass(frozen=True)
class BinColumns:
    """Rows to histograms: maps n words to d * size sums. `bins` is [n, d] below `size`."""

    bins: np.ndarray
    size: int

    def masked(self, mask: np.ndarray) -> np.ndarray:
        return kernels.subtract_one_hot(self.bins, self.size, mask)

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        return kernels.histogram(self.bins, self.size, vectors)


@dataclass(frozen=True)
class BinRows:
    """Bits of bins to bits of rows, over GF(2): maps d * size bits to n. `bins` is [n, d] below `size`."""

    bins: np.ndarray
    size: int

    def masked(self, mask: np.ndarray) -> np.ndarray:
        return kernels.flip_one_hot(self.bins, self.size, mask)

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        return kernels.take_bits(self.bins, self.size, vectors)


@dataclass(frozen=True)
class DenseWords:
    """Any matrix of ring words, [n_in, n_out]."""

    words: np.ndarray

    def masked(self, mask: np.ndarray) -> np.ndarray:
        return self.words - mask

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        return kernels.ring_product(self.words, vectors)


@dataclass(frozen=True)
class DenseBits:
    """Any matrix of bits, [n_out, n_in]."""

    bits: np.ndarray

    def _packed(self) -> np.ndarray:
        return packed_rows(self.bits)

    def masked(self, mask: np.ndarray) -> np.ndarray:
        return self._packed() ^ mask

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        return kernels.bit_product(self._packed(), packed_rows(vectors))


def packed_rows(bits: np.ndarray) -> np.ndarray:
    """uint8[n, m] of 0/1 -> uint64[n, ceil(m / 64)], little-endian."""
    n, m = bits.shape
    out = np.zeros((n, 8 * -(-m // 64)), np.uint8)
    out[:, : -(-m // 8)] = np.packbits(bits, axis=1, bitorder="little")
    return out.view(U64)


@dataclass(frozen=True)
class MatrixMask:
    """U, known to `owner` alone, for the matrix of this number; `dtype` bool stands for GF(2)."""

    number: int
    owner: int
    n_in: int
    n_out: int
    dtype: np.dtype

    def deal(self, hand: Hand):
        shape = (self.n_out, -(-self.n_in // 64)) if self.dtype == BIT else (self.n_in, self.n_out)
        mask = hand.private(self.owner, shape, _word(self.dtype))
        hand.keep(self.number, mask)
        return mask


@dataclass(frozen=True)
class MatrixVectors:
    """For `count` vectors: r and t = D r + s_q at q, s_p = U r - s_q at the owner."""

    number: int
    owner: int
    n_in: int
    n_out: int
    dtype: np.dtype
    count: int

    def deal(self, hand: Hand):
        bits = self.dtype == BIT
        width = -(-self.n_in // 64) if bits else self.n_in
        r = hand.private(1 - self.owner, (self.count, width), _word(self.dtype))

        def product() -> np.ndarray:
            multiply = kernels.bit_product if bits else kernels.ring_product
            return multiply(hand.kept(self.number), r)

        shape = (self.count, self.n_out)
        if bits:
            half = hand.derived_bits(product, shape, to=self.owner)
        else:
            half = hand.derived(product, shape, self.dtype, to=self.owner)
        own = hand.computed(1 - self.owner, product, shape, U8 if bits else self.dtype)
        if own is not None:
            half = half ^ own if bits else half + own
        return r, half


@dataclass(frozen=True)
class MatrixRelease:
    """Lets the dealer forget U."""

    number: int

    def deal(self, hand: Hand):
        hand.drop(self.number)


def _word(dtype: np.dtype) -> np.dtype:
    return U64 if dtype == BIT else dtype


@dataclass
class SharedMatrix:
    """A matrix that `owner` knows and the other party holds masked; `matrix` is None at the other party."""

    number: int
    owner: int
    n_in: int
    n_out: int
    dtype: np.dtype
    matrix: Matrix | None

    @property
    def width(self) -> int:
        """Payload bits of one vector on the wire."""
        return 8 * packed_size(self.n_in, 1 if self.dtype == BIT else 8 * self.dtype.itemsize)

    def supply(self, party: Endpoint, count: int) -> VectorSupply:
        """Masks for `count` vectors, taken at once."""
        dealt = party.randomness.take(MatrixVectors(self.number, self.owner, self.n_in, self.n_out, self.dtype, count))
        return VectorSupply(self, *dealt)

    def release(self, party: Endpoint) -> None:
        """No further vectors: the masked matrix and its mask are forgotten everywhere."""
        party.randomness.take(MatrixRelease(self.number))


@dataclass
class VectorSupply:
    """Masks of vectors to come, each used once."""

    of: SharedMatrix
    r: np.ndarray | None
    half: np.ndarray
    used: int = 0

    def take(self, count: int) -> tuple[np.ndarray | None, np.ndarray]:
        start, self.used = self.used, self.used + count
        if self.used > len(self.half):
            raise MaskReuse(f"matrix {self.of.number}: {self.used} vectors asked of a supply of {len(self.half)}")
        return None if self.r is None else self.r[start : self.used], self.half[start : self.used]


def _one_way(owner: int, bits: int) -> tuple[int, int]:
    return (bits, 0) if owner == 1 else (0, bits)


def _share_cost(owner: int, matrix: Matrix | None, n_in: int, n_out: int, dtype: np.dtype) -> Cost:
    words = n_out * -(-n_in // 64) if dtype == BIT else n_in * n_out
    return Cost(1, _one_way(1 - owner, 8 * words * _word(dtype).itemsize))


@protocol(cost=_share_cost)
def share_masked_matrix(
    party: Endpoint, owner: int, matrix: Matrix | None, n_in: int, n_out: int, dtype: np.dtype
) -> Steps[SharedMatrix]:
    """The owner's matrix (None at the other party) -> SharedMatrix; `dtype` is the ring's, or BIT for GF(2)."""
    number = party.next_matrix()
    kind = MatrixMask(number, owner, n_in, n_out, dtype)
    mask = party.randomness.take(kind)
    if party.rank == owner:
        assert matrix is not None and mask is not None
        difference = matrix.masked(mask)
        yield Round([difference.reshape(-1).view(U8)], [])
    else:
        shape = (n_out, -(-n_in // 64)) if dtype == BIT else (n_in, n_out)
        size = math.prod(shape) * _word(dtype).itemsize
        (data,) = yield Round([], [size])
        party.randomness.keep(number, data.view(_word(dtype)).reshape(shape))
        matrix = None
    return SharedMatrix(number, owner, n_in, n_out, dtype, matrix)


@protocol(cost=lambda supply, x: Cost(1, _one_way(supply.of.owner, len(x) * supply.of.width)))
def apply_matrix(party: Endpoint, supply: VectorSupply, x: S) -> Steps[S]:
    """[x] of shape [v, n_in] -> [M x] of shape [v, n_out], in the ring of the matrix; the scale is that of x."""
    shared = supply.of
    if x.shape[1:] != (shared.n_in,):
        raise ShapeMismatch(f"vectors of shape {x.shape} for a matrix that takes {shared.n_in} words")
    r, half = supply.take(len(x))
    bits = shared.dtype == BIT
    words = x.bits if isinstance(x, BShare) else x._words
    if party.rank != shared.owner:
        assert r is not None
        if bits:
            e = np.packbits(words, axis=1, bitorder="little") ^ r.view(U8)[:, : -(-shared.n_in // 8)]
        else:
            e = words - r
        yield Round([np.ascontiguousarray(e).reshape(-1).view(U8)], [])
        return x._like(half)
    assert shared.matrix is not None
    (data,) = yield Round([], [len(x) * shared.width // 8])
    if bits:
        e = np.unpackbits(data.reshape(len(x), -1), axis=1, count=shared.n_in, bitorder="little")
        return x._like(shared.matrix.apply(words ^ e) ^ half)
    return x._like(shared.matrix.apply(words + data.view(shared.dtype).reshape(words.shape)) + half)
