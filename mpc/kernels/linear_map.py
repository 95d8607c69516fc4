"""Kernels of the known-matrix product (see mpc/linear_map.py).

Ring: a matrix that maps n_in words to n_out words is stored [n_in, n_out], so that one input word scales one
contiguous row. GF(2): it is stored [n_out, ceil(n_in / 64)] as bits, so that one output bit is one parity.
"""

from __future__ import annotations

import numba
import numpy as np

BLOCK = 32


@numba.njit(cache=True, nogil=True)
def ring_product(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """matrix [n_in, n_out], vectors [v, n_in] of one unsigned dtype -> vectors @ matrix, [v, n_out]."""
    count, n_in = vectors.shape
    n_out = matrix.shape[1]
    out = np.zeros((count, n_out), matrix.dtype)
    for start in range(0, n_in, BLOCK):
        stop = min(start + BLOCK, n_in)
        for v in range(count):
            row = out[v]
            for i in range(start, stop):
                factor = vectors[v, i]
                line = matrix[i]
                for k in range(n_out):
                    row[k] += factor * line[k]
    return out


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
            x ^= x >> np.uint64(32)
            x ^= x >> np.uint64(16)
            x ^= x >> np.uint64(8)
            x ^= x >> np.uint64(4)
            x ^= x >> np.uint64(2)
            x ^= x >> np.uint64(1)
            out[v, i] = np.uint8(x & np.uint64(1))
    return out


@numba.njit(cache=True, nogil=True)
def histogram(bins: np.ndarray, size: int, vectors: np.ndarray) -> np.ndarray:
    """bins [n, d] below `size`, vectors [v, n] -> sums of the vectors by feature and bin, [v, d * size]."""
    n, d = bins.shape
    out = np.zeros((vectors.shape[0], d * size), vectors.dtype)
    for v in range(vectors.shape[0]):
        row, vector = out[v], vectors[v]
        for i in range(n):
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
