"""Kernels of the borrow of e - r, e public, r dealt (see mpc/comparison.py for the protocol).

r's low bits are cut into m <= 8 chunks of c bits, chunk 0 the lowest. A "thermometer" of chunk r_j is the
2^c bits T[k] = 1{r_j > k}, little-endian in bytes. Masked bits travel as one uint16: bit j is gt_j, bit
8 + i - 1 is eq_i (i >= 1). Subsets S of {1 .. m-1} are numbered with bit i - 1 for i. A word of products holds,
from bit 0, prod_S eps for all 2^(m-1) subsets, then for j = 0, 1, ... gamma_j prod_S eps for the 2^(m-1-j)
subsets of {j+1 .. m-1}, numbered from bit 0 again. Products in the ring come in the same order, one to a word, without
the first, which is 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numba
import numpy as np

EQ_SHIFT = MOST_CHUNKS = 8
ONES = 0xFFFFFFFFFFFFFFFF


def _sets(rows: int, holds: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """uint64[rows, words]: in row z the bits s of all subsets that `holds(s, z)`."""
    z, s = np.ogrid[:rows, : 1 << MOST_CHUNKS - 1]
    return np.packbits(holds(s, z), axis=1, bitorder="little").view(np.uint64)


SUBSETS = _sets(1 << MOST_CHUNKS - 1, lambda s, z: s & z == s)
SUPERSETS = _sets(1 << MOST_CHUNKS - 1, lambda s, z: s & z == z)
LOW_ZERO = _sets(MOST_CHUNKS, lambda s, z: s % (1 << z) == 0)


def product_words(m: int) -> int:
    """uint64 words that hold the products of m chunks."""
    return -(-((1 << (m - 1)) + (1 << m) - 1) // 64)


@numba.njit(cache=True, nogil=True)
def thermometers(r: np.ndarray, c: int, m: int) -> np.ndarray:
    """r uint64[n] -> uint8[n, m, max(1, 2^c / 8)]."""
    size = max(1, (1 << c) // 8)
    out = np.zeros((r.size, m, size), np.uint8)
    chunk_mask = np.uint64((1 << c) - 1)
    for i in range(r.size):
        for j in range(m):
            value = int((r[i] >> np.uint64(c * j)) & chunk_mask)
            for k in range(value >> 3):
                out[i, j, k] = 255
            if value & 7:
                out[i, j, value >> 3] = (1 << (value & 7)) - 1
    return out


@numba.njit(cache=True, nogil=True)
def chunk_bits(
    e: np.ndarray, thresholds: np.ndarray, tables: np.ndarray, bits: int, c: int, m: int, first: bool
) -> np.ndarray:
    """Shares of gt and eq of every chunk of (e - t) mod 2^bits against r: uint16[n, T], local look-ups."""
    n, count = e.size, thresholds.size
    out = np.empty((n, count), np.uint16)
    low = np.uint64((1 << bits) - 1)
    chunk_mask = np.uint64((1 << c) - 1)
    for i in range(n):
        for t in range(count):
            x = (e[i] - thresholds[t]) & low
            word = 0
            for j in range(m):
                k = int((x >> np.uint64(c * j)) & chunk_mask)
                above = int(tables[i, j, k >> 3] >> (k & 7)) & 1
                word |= above << j
                if j > 0:
                    reached = int(tables[i, j, (k - 1) >> 3] >> ((k - 1) & 7)) & 1 if k > 0 else int(first)
                    word |= (above ^ reached) << (EQ_SHIFT + j - 1)
            out[i, t] = word
    return out


@numba.njit(cache=True, nogil=True)
def _words(count: int) -> int:
    """Words of 64 bits that so many bits take up."""
    return (count + 63) >> 6


@numba.njit(cache=True, nogil=True)
def _whole(count: int) -> np.uint64:
    """The low bits of a word, as many as `count` or all."""
    return np.uint64(ONES) >> np.uint64(64 - min(count, 64))


@numba.njit(cache=True, nogil=True)
def mask_products(masks: np.ndarray, m: int, words: int) -> np.ndarray:
    """masks uint16[n] -> uint64[n, words]: every product of masks that `borrows` needs."""
    out = np.zeros((masks.size, words), np.uint64)
    subsets = 1 << (m - 1)
    for i in range(masks.size):
        eps = (int(masks[i]) >> EQ_SHIFT) & (subsets - 1)
        for word in range(_words(subsets)):
            out[i, word] = SUBSETS[eps, word]
        offset = subsets
        for j in range(m):
            length = subsets >> j
            if (masks[i] >> j) & 1:
                for word in range(_words(length)):
                    out[i, (offset >> 6) + word] |= SUBSETS[eps >> j, word] << np.uint64(offset & 63)
            offset += length
    return out


@numba.njit(cache=True, nogil=True)
def _parity(x: np.uint64) -> int:
    for shift in (32, 16, 8, 4, 2, 1):
        x ^= x >> np.uint64(shift)
    return int(x & np.uint64(1))


@functools.lru_cache
def choices(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Which products the opened bits choose: of gamma by the unequal chunks, of eps by these and the opened gt."""
    return chosen_products(m, product_words(m))


@numba.njit(cache=True, nogil=True)
def chosen_products(m: int, words: int) -> tuple[np.ndarray, np.ndarray]:
    """Masks on the words of products: uint64[2^(m-1), words], and on those of all subsets [2^(m-1), 2^m, words]."""
    subsets = 1 << (m - 1)
    gamma, eps = np.zeros((subsets, words), np.uint64), np.zeros((subsets, 1 << m, _words(subsets)), np.uint64)
    for unequal in range(subsets):
        offset = subsets
        for j in range(m):
            length = subsets >> j
            z = unequal >> j
            for word in range(_words(length)):
                chosen = SUPERSETS[z, word] & _whole(length)
                gamma[unequal, (offset >> 6) + word] |= chosen << np.uint64(offset & 63)
            offset += length
            for above in range(1 << m):
                if (above >> j) & 1:
                    for word in range(_words(subsets)):
                        eps[unequal, above, word] ^= SUPERSETS[z << j, word] & LOW_ZERO[j, word] & _whole(subsets)
    return gamma, eps


@numba.njit(cache=True, nogil=True)
def borrows(opened: np.ndarray, products: np.ndarray, m: int, gamma: np.ndarray, eps: np.ndarray) -> np.ndarray:
    """opened uint16[n], shared products uint64[n, words], `choices(m)` -> shares of the borrow: uint8[n].

    xor_j gt_j prod_{i>j} eq_i, with every bit opened under its mask, is the parity of the chosen products.
    """
    out = np.empty(opened.size, np.uint8)
    subsets, every = (1 << (m - 1)) - 1, (1 << m) - 1
    for i in range(opened.size):
        unequal = ~(int(opened[i]) >> EQ_SHIFT) & subsets
        above = int(opened[i]) & every
        chosen = np.uint64(0)
        for word in range(products.shape[1]):
            chosen ^= products[i, word] & gamma[unequal, word]
        for word in range(eps.shape[2]):
            chosen ^= products[i, word] & eps[unequal, above, word]
        out[i] = _parity(chosen)
    return out


def ring_product_words(m: int) -> int:
    """Words of the ring that hold the products of m chunks."""
    return (1 << (m - 1)) + (1 << m) - 2


@numba.njit(cache=True, nogil=True)
def ring_mask_products(masks: np.ndarray, m: int, words: int) -> np.ndarray:
    """masks uint16[n] -> 0 or 1 in uint64[n, words]: every product of masks that `ring_borrows` needs."""
    out = np.empty((masks.size, words), np.uint64)
    subsets = 1 << (m - 1)
    for i in range(masks.size):
        eps = (int(masks[i]) >> EQ_SHIFT) & (subsets - 1)
        for s in range(1, subsets):
            out[i, s - 1] = s & ~eps == 0
        offset = subsets - 1
        for j in range(m):
            gamma = (masks[i] >> j) & 1 == 1
            for s in range(subsets >> j):
                out[i, offset + s] = gamma and s & ~(eps >> j) == 0
            offset += subsets >> j
    return out


@numba.njit(cache=True, nogil=True)
def ring_borrows(opened: np.ndarray, products: np.ndarray, m: int, first: bool) -> np.ndarray:
    """opened uint16[n], products uint64[n, words] shared in the ring -> shares of the borrow as 0 or 1: uint64[n].

    At most one gt_j prod_{i>j} eq_i is 1, so that they add up; with a bit b = c xor mask as c + (1 - 2 c) mask, a
    product over opened bits c_i is a signed sum of the dealt products over the supersets of {i: c_i = 0}.
    """
    out = np.empty(opened.size, np.uint64)
    subsets = 1 << (m - 1)
    for i in range(opened.size):
        unequal = ~(int(opened[i]) >> EQ_SHIFT) & (subsets - 1)
        total = np.uint64(0)
        offset = subsets - 1
        for j in range(m):
            above = (opened[i] >> j) & 1 == 1
            z = unequal >> j
            free = ((subsets >> j) - 1) & ~z
            term = np.uint64(0)
            t = free
            while True:
                s = z | t
                value = products[i, offset + s]
                if above:
                    whole = products[i, (s << j) - 1] if s > 0 else np.uint64(first)
                    value = whole - value
                term += value if _parity(np.uint64(t)) == 0 else ~value + np.uint64(1)
                if t == 0:
                    break
                t = (t - 1) & free
            total += term
            offset += subsets >> j
        out[i] = total
    return out
