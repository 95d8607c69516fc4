"""Matrices that one party knows: how they are masked, applied in the clear, and stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mpc.host.streaming import pieces
from mpc.kernels import linear_map as kernels
from mpc.protocol import U8, U64, Z64, Ring, Shape, Z2k


class Matrix(Protocol):
    """A known matrix that can be masked, and applied in the clear."""

    def masked(self, rows: slice, mask: np.ndarray) -> np.ndarray:
        """Return these rows of M minus their mask, in the storage of `mpc.kernels.linear_map`."""

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """M x for vectors [v, n_in] -> [v, n_out]."""


@dataclass(frozen=True)
class BinColumns:
    """Linear map from rows to histograms: n words to d * size sums. `bins` is [n, d] below `size`.

    With `block`, each block of so many rows has sums of its own: [v, blocks, d * size].
    """

    bins: np.ndarray
    size: int
    block: int = 0

    def masked(self, rows: slice, mask: np.ndarray) -> np.ndarray:
        return kernels.subtract_one_hot(self.bins[rows], self.size, mask)

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        sums = kernels.histogram(self.bins, self.size, vectors, self.block or max(1, len(self.bins)))
        return sums if self.block else sums.reshape(len(vectors), -1)


@dataclass(frozen=True)
class BinRows:
    """Linear map from bits of bins to bits of rows, over GF(2): d * size bits to n. `bins` is [n, d] below `size`."""

    bins: np.ndarray
    size: int

    def masked(self, rows: slice, mask: np.ndarray) -> np.ndarray:
        return kernels.flip_one_hot(self.bins[rows], self.size, mask)

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        return kernels.take_bits(self.bins, self.size, vectors)

    def columns(self) -> np.ndarray:
        """Return the columns, uint64[n_in, n_out / 64]."""
        d = self.bins.shape[1]
        return np.concatenate([packed_rows(np.arange(self.size)[:, None] == self.bins[:, f]) for f in range(d)])


@dataclass(frozen=True)
class DenseWords:
    """Any matrix of ring words, [n_in, n_out]."""

    words: np.ndarray

    def masked(self, rows: slice, mask: np.ndarray) -> np.ndarray:
        return self.words[rows] - mask

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        return kernels.ring_products(vectors[None], self.words[None])[0]


@dataclass(frozen=True)
class DenseBits:
    """Any matrix of bits, [n_out, n_in]."""

    bits: np.ndarray

    def masked(self, rows: slice, mask: np.ndarray) -> np.ndarray:
        return packed_rows(self.bits[rows]) ^ mask

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        return kernels.bit_product(packed_rows(self.bits), packed_rows(vectors))

    def columns(self) -> np.ndarray:
        """Return the columns, uint64[n_in, n_out / 64]."""
        return packed_rows(self.bits.T)


def packed_rows(bits: np.ndarray) -> np.ndarray:
    """uint8[n, m] of 0/1 -> uint64[n, ceil(m / 64)], little-endian."""
    n, m = bits.shape
    out = np.zeros((n, 8 * -(-m // 64)), np.uint8)
    out[:, : -(-m // 8)] = np.packbits(bits, axis=1, bitorder="little")
    return out.view(U64)


class MatrixRows(Protocol):
    """A matrix that is read in slices of rows: an array, or one that is drawn as it is read."""

    @property
    def shape(self) -> Shape: ...

    def __getitem__(self, rows: slice, /) -> np.ndarray: ...


class Storage(Protocol):
    """The layout in memory of matrices over a ring, and of the masks of their vectors."""

    def matrix(self, n_in: int, n_out: int) -> tuple[Z2k, Shape]:
        """Return the ring and the shape of the words of a matrix."""

    def vectors(self, count: int, n_in: int) -> tuple[Z2k, Shape]:
        """Return the ring and the shape of the words that mask vectors."""

    def product(self, matrix: MatrixRows, masks: np.ndarray, block: int = 0) -> np.ndarray:
        """Return the products of vectors, [v, n_out]; with `block`, as of BinColumns, [v, blocks, n_out]."""

    def hide(self, x: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Return x minus its masks, as it is sent."""

    def add(self, x: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Return x plus the masked vectors that the peer sent."""


@dataclass(frozen=True)
class _Words:
    """Over Z_2^k: one word per element, matrices [n_in, n_out]."""

    ring: Z2k

    def matrix(self, n_in: int, n_out: int) -> tuple[Z2k, Shape]:
        return self.ring, (n_in, n_out)

    def vectors(self, count: int, n_in: int) -> tuple[Z2k, Shape]:
        return self.ring, (count, n_in)

    def product(self, matrix: MatrixRows, masks: np.ndarray, block: int = 0) -> np.ndarray:
        n_in, n_out = matrix.shape
        per = block or max(1, n_in)
        out = np.zeros((-(-n_in // per), len(masks), n_out), self.ring.dtype)
        for rows in pieces(n_in, n_out * self.ring.dtype.itemsize):
            kernels.add_block_products(out, matrix[rows], masks[:, rows], rows.start, per)
        return out.swapaxes(0, 1) if block else out[0]

    def hide(self, x: np.ndarray, masks: np.ndarray) -> np.ndarray:
        return x - masks

    def add(self, x: np.ndarray, data: np.ndarray) -> np.ndarray:
        return x + data.view(x.dtype).reshape(x.shape)


class _Packed:
    """Over GF(2): 64 bits per word along the inputs, matrices [n_out, n_in / 64]; vectors are sent in bytes."""

    def matrix(self, n_in: int, n_out: int) -> tuple[Z2k, Shape]:
        return Z64, (n_out, -(-n_in // 64))

    def vectors(self, count: int, n_in: int) -> tuple[Z2k, Shape]:
        return Z64, (count, -(-n_in // 64))

    def product(self, matrix: MatrixRows, masks: np.ndarray, block: int = 0) -> np.ndarray:
        assert not block, "blocks have sums over Z_2^k only"
        n_out, words = matrix.shape
        out = np.empty((len(masks), n_out), U8)
        for rows in pieces(n_out, words * U64.itemsize):
            out[:, rows] = kernels.bit_product(matrix[rows], masks)
        return out

    def hide(self, x: np.ndarray, masks: np.ndarray) -> np.ndarray:
        packed = np.packbits(x, axis=1, bitorder="little")
        return packed ^ masks.view(U8)[:, : packed.shape[1]]

    def add(self, x: np.ndarray, data: np.ndarray) -> np.ndarray:
        return x ^ np.unpackbits(data.reshape(len(x), -1), axis=1, count=x.shape[1], bitorder="little")


def storage_of(ring: Ring) -> Storage:
    """Return the storage of matrices over this ring."""
    return _Words(ring) if isinstance(ring, Z2k) else _Packed()
