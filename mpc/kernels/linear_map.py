"""Kernels of the known-matrix product (see mpc/matrix/linear_map.py).

Ring: a matrix that maps n_in words to n_out words is stored [n_in, n_out], so that one input word scales one
contiguous row. GF(2): it is stored [n_out, ceil(n_in / 64)] as bits, so that one output bit is one parity.
"""

from __future__ import annotations

import numba
import numpy as np

from mpc.kernels.parity import parity

BLOCK = 32  # must be a multiple of 4


@numba.njit(inline="always")
def _four(vector: np.ndarray, i: int) -> tuple[int, int, int, int]:
    """Return four words from place i on, 0 beyond the end."""
    n, none = vector.size, vector.dtype.type(0)
    return (
        vector[i],
        vector[i + 1] if i + 1 < n else none,
        vector[i + 2] if i + 2 < n else none,
        vector[i + 3] if i + 3 < n else none,
    )


@numba.njit(cache=True, nogil=True)
def add_ring_products(outs: np.ndarray, matrices: np.ndarray, several: np.ndarray) -> None:
    """outs [b, v, n_out] += several [b, v, n_in] @ matrices [b, n_in, n_out], of one unsigned dtype and contiguous.

    Each word read is used for four inputs of four vectors.
    """
    for number in range(matrices.shape[0]):
        out, matrix, vectors = outs[number], matrices[number], several[number]
        count, n_in = vectors.shape
        fours, last = count - count % 4, n_in - 1
        for start in range(0, n_in, BLOCK):
            stop = min(start + BLOCK, n_in)
            for v in range(0, fours, 4):
                first, second, third, fourth = out[v], out[v + 1], out[v + 2], out[v + 3]
                for i in range(start, stop, 4):
                    p, q = _four(vectors[v], i), _four(vectors[v + 1], i)
                    r, s = _four(vectors[v + 2], i), _four(vectors[v + 3], i)
                    line = matrix[i], matrix[min(i + 1, last)], matrix[min(i + 2, last)], matrix[min(i + 3, last)]
                    for k in range(matrix.shape[1]):
                        a, b, c, d = line[0][k], line[1][k], line[2][k], line[3][k]
                        first[k] += p[0] * a + p[1] * b + p[2] * c + p[3] * d
                        second[k] += q[0] * a + q[1] * b + q[2] * c + q[3] * d
                        third[k] += r[0] * a + r[1] * b + r[2] * c + r[3] * d
                        fourth[k] += s[0] * a + s[1] * b + s[2] * c + s[3] * d
            for v in range(fours, count):
                row = out[v]
                for i in range(start, stop):
                    factor = vectors[v, i]
                    line_of_one = matrix[i]
                    for k in range(matrix.shape[1]):
                        row[k] += factor * line_of_one[k]


def ring_products(vectors: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """vectors [b, v, n_in], matrices [b, n_in, n_out] of one unsigned dtype -> their products, [b, v, n_out]."""
    out = np.zeros((*vectors.shape[:2], matrices.shape[2]), matrices.dtype)
    add_ring_products(out, np.ascontiguousarray(matrices), np.ascontiguousarray(vectors))
    return out


def add_block_products(out: np.ndarray, matrix: np.ndarray, vectors: np.ndarray, first: int, block: int) -> None:
    """Add products of blocks of rows to `out`, [blocks, v, n_out].

    Vectors [v, n] and matrix [n, n_out] begin at row `first`.
    """
    start = 0
    while start < len(matrix):
        number = (first + start) // block
        stop = min(len(matrix), (number + 1) * block - first)
        part = np.ascontiguousarray(vectors[:, start:stop])
        add_ring_products(out[number : number + 1], matrix[None, start:stop], part[None])
        start = stop


@numba.njit(cache=True, nogil=True)
def bit_product(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """matrix uint64[n_out, w], vectors uint64[v, w] -> parities uint8[v, n_out]."""
    count, words = vectors.shape
    n_out = matrix.shape[0]
    out = np.empty((count, n_out), np.uint8)
    for v in range(count):
        for i in range(n_out):
            x = np.uint64(0)
            for k in range(words):
                x ^= matrix[i, k] & vectors[v, k]
            out[v, i] = parity(x)
    return out


@numba.njit(cache=True, nogil=True)
def histogram(bins: np.ndarray, size: int, vectors: np.ndarray, block: int) -> np.ndarray:
    """bins [n, d] below `size`, vectors [v, n] -> sums by feature and bin of blocks of rows, [v, blocks, d * size]."""
    n, d = bins.shape
    out = np.zeros((vectors.shape[0], -(-n // block), d * size), vectors.dtype)
    for v in range(vectors.shape[0]):
        vector = vectors[v]
        for number in range(out.shape[1]):
            row = out[v, number]
            for i in range(number * block, min(n, (number + 1) * block)):
                for f in range(d):
                    row[f * size + bins[i, f]] += vector[i]
    return out


@numba.njit(cache=True, nogil=True)
def take_bits(bins: np.ndarray, size: int, vectors: np.ndarray) -> np.ndarray:
    """bins [n, d] below `size`, vectors uint8[v, d * size] -> xor over features of the bit of a row's bin, [v, n]."""
    n, d = bins.shape
    out = np.empty((vectors.shape[0], n), np.uint8)
    for v in range(vectors.shape[0]):
        vector = vectors[v]
        for i in range(n):
            bit = np.uint8(0)
            for f in range(d):
                bit ^= vector[f * size + bins[i, f]]
            out[v, i] = bit
    return out


@numba.njit(cache=True, nogil=True)
def subtract_one_hot(bins: np.ndarray, size: int, mask: np.ndarray) -> np.ndarray:
    """(one-hot bins) - mask, as [n, d * size] in the dtype of `mask`."""
    n, d = bins.shape
    out = np.empty_like(mask)
    for i in range(n):
        for k in range(d * size):
            out[i, k] = -mask[i, k]
        for f in range(d):
            out[i, f * size + bins[i, f]] += mask.dtype.type(1)
    return out


@numba.njit(cache=True, nogil=True)
def flip_one_hot(bins: np.ndarray, size: int, mask: np.ndarray) -> np.ndarray:
    """(one-hot bins) xor mask, as bits: uint64[n, ceil(d * size / 64)]."""
    out = mask.copy()
    for i in range(bins.shape[0]):
        for f in range(bins.shape[1]):
            k = f * size + int(bins[i, f])
            out[i, k >> 6] ^= np.uint64(1) << np.uint64(k & 63)
    return out
