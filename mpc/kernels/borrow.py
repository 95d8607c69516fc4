"""Kernels for the borrow of e - r with e public and r dealt (see mpc/comparison/comparison.py for the protocol).

r's low bits are cut into m <= 9 chunks of c bits, chunk 0 the lowest. A "thermometer" of chunk r_j is the
2^c bits T[k] = 1{r_j > k}, little-endian in bytes. The 2 m - 1 masked bits of all chunks make one word: bit j is gt_j,
bit m + i - 1 is eq_i (i >= 1). Subsets S of {1 .. m-1} are numbered with bit i - 1 for i. Words of products hold, from
bit 0, prod_S eps for all 2^(m-1) subsets, then for j = 0, 1, ... gamma_j prod_S eps for the 2^(m-1-j) subsets of
{j+1 .. m-1}, numbered from bit 0 again. Products in the ring come in the same order, one per word, without the first,
which is 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numba
import numpy as np

from mpc.kernels.parity import parity

MOST_CHUNKS = 9
NIBBLE = 4
ONES = 0xFFFFFFFFFFFFFFFF


def _sets(rows: int, holds: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """uint64[rows, words]: in row z, the bits s of all subsets for which `holds(s, z)`."""
    z, s = np.ogrid[:rows, : 1 << MOST_CHUNKS - 1]
    return np.packbits(holds(s, z), axis=1, bitorder="little").view(np.uint64)


SUBSETS = _sets(1 << MOST_CHUNKS - 1, lambda s, z: s & z == s)
SUPERSETS = _sets(1 << MOST_CHUNKS - 1, lambda s, z: s & z == z)
LOW_ZERO = _sets(MOST_CHUNKS, lambda s, z: s % (1 << z) == 0)


def product_bits(m: int) -> int:
    """Return the number of products of m chunks."""
    return (1 << (m - 1)) + (1 << m) - 1


def product_words(m: int) -> int:
    """Return the number of uint64 words that hold the products of m chunks."""
    return -(-product_bits(m) // 64)


def thermometers(r: np.ndarray, c: int, m: int) -> np.ndarray:
    """r uint64[n] -> uint8[n, m, max(1, 2^c / 8)]."""
    size = max(1, (1 << c) // 8)
    word = np.dtype(f"u{min(size, 8)}")
    out = np.empty((r.size, m, size // word.itemsize), word)
    fill_thermometers(out, r, c)
    return out.view(np.uint8)


@numba.njit(cache=True, nogil=True)
def fill_thermometers(out: np.ndarray, r: np.ndarray, c: int) -> None:
    """Write the thermometers of r to words of any width, [n, m, words]."""
    width = 8 * out.itemsize
    chunk_mask = np.uint64((1 << c) - 1)
    for i in range(r.size):
        for j in range(out.shape[1]):
            value = int((r[i] >> np.uint64(c * j)) & chunk_mask)
            for word in range(out.shape[2]):
                count = min(max(value - width * word, 0), width)
                out[i, j, word] = np.uint64(ONES) >> np.uint64(64 - count & 63) if count else np.uint64(0)


@numba.njit(cache=True, nogil=True)
def chunk_bits(
    e: np.ndarray, thresholds: np.ndarray, tables: np.ndarray, bits: int, c: int, m: int, first: bool
) -> np.ndarray:
    """Shares of gt and eq of every chunk of (e - t) mod 2^bits against r: uint32[n, T], local look-ups."""
    n, count = e.size, thresholds.size
    out = np.empty((n, count), np.uint32)
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
                    word |= (above ^ reached) << (m + j - 1)
            out[i, t] = word
    return out


@numba.njit(cache=True, nogil=True)
def _words(count: int) -> int:
    """Return the number of 64-bit words for `count` bits."""
    return (count + 63) >> 6


@numba.njit(cache=True, nogil=True)
def _whole(count: int) -> np.uint64:
    """Return a word in which the low `count` bits are 1, or all bits if it has fewer."""
    return np.uint64(ONES) >> np.uint64(64 - min(count, 64))


@numba.njit(cache=True, nogil=True)
def mask_products(masks: np.ndarray, m: int, words: int) -> np.ndarray:
    """masks uint32[n] -> uint64[n, words]: every product of masks that `borrows` needs."""
    out = np.empty((masks.size, words), np.uint64)
    subsets = 1 << (m - 1)
    for i in range(masks.size):
        eps = (int(masks[i]) >> m) & (subsets - 1)
        offset, held = 0, np.uint64(0)
        for j in range(-1, m):  # -1: no gamma
            least = max(j, 0)
            keep = np.uint64(ONES) if j < 0 or (masks[i] >> j) & 1 else np.uint64(0)
            for word in range(_words(subsets >> least)):
                held |= (SUBSETS[eps >> least, word] & keep) << np.uint64(offset & 63)
                offset += min(subsets >> least, 64)
                if offset & 63 == 0:
                    out[i, (offset >> 6) - 1] = held
                    held = np.uint64(0)
        if offset & 63:
            out[i, offset >> 6] = held
    return out


@functools.lru_cache
def choices(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which products the opened bits select: gamma's by the unequal chunks, eps's by these and the opened gt."""
    return chosen_products(m, product_words(m))


@numba.njit(cache=True, nogil=True)
def chosen_products(m: int, words: int) -> tuple[np.ndarray, np.ndarray]:
    """Return masks on the words of products: uint64[2^(m-1), words], and [m / 4, 2^(m-1), 16, words].

    The latter holds, for every nibble of the gt bits, masks on the products of all subsets; those of the nibbles add up
    by xor.
    """
    subsets = 1 << (m - 1)
    gamma = np.zeros((subsets, words), np.uint64)
    eps = np.zeros((-(-m // NIBBLE), subsets, 1 << NIBBLE, _words(subsets)), np.uint64)
    for unequal in range(subsets):
        offset = subsets
        for j in range(m):
            length = subsets >> j
            z = unequal >> j
            for word in range(_words(length)):
                chosen = SUPERSETS[z, word] & _whole(length)
                gamma[unequal, (offset >> 6) + word] |= chosen << np.uint64(offset & 63)
            offset += length
            for above in range(1 << NIBBLE):
                if (above >> j % NIBBLE) & 1:
                    for word in range(_words(subsets)):
                        chosen = SUPERSETS[z << j, word] & LOW_ZERO[j, word] & _whole(subsets)
                        eps[j // NIBBLE, unequal, above, word] ^= chosen
    return gamma, eps


@numba.njit(cache=True, nogil=True)
def borrows(opened: np.ndarray, products: np.ndarray, m: int, gamma: np.ndarray, eps: np.ndarray) -> np.ndarray:
    """opened uint32[n], shared products uint64[n, words], `choices(m)` -> shares of the borrow: uint8[n].

    xor_j gt_j prod_{i>j} eq_i, with every bit opened under its mask, is the parity of the selected products.
    """
    out = np.empty(opened.size, np.uint8)
    subsets = (1 << (m - 1)) - 1
    for i in range(opened.size):
        unequal = ~(int(opened[i]) >> m) & subsets
        chosen = np.uint64(0)
        for word in range(products.shape[1]):
            chosen ^= products[i, word] & gamma[unequal, word]
        for part in range(eps.shape[0]):
            above = (int(opened[i]) & ((1 << m) - 1)) >> NIBBLE * part & 15
            for word in range(eps.shape[3]):
                chosen ^= products[i, word] & eps[part, unequal, above, word]
        out[i] = parity(chosen)
    return out


@numba.njit(cache=True, nogil=True)
def flip_to_signs(
    borrows: np.ndarray, top: np.ndarray, e: np.ndarray, thresholds: np.ndarray, bits: int, first: bool
) -> None:
    """Turn shares of the borrow, uint8[n, T], into shares of bit B - 1 = bits - 1 of e - t - r.

    `top` holds shares of that bit of r, uint8[n].
    """
    place = np.uint64(bits - 1)
    for i in range(e.size):
        for t in range(thresholds.size):
            sign = np.uint8((e[i] - thresholds[t]) >> place & np.uint64(1)) if first else np.uint8(0)
            borrows[i, t] ^= top[i] ^ sign


def ring_product_words(m: int) -> int:
    """Return the number of ring words that hold the products of m chunks."""
    return product_bits(m) - 1


@numba.njit(cache=True, nogil=True)
def ring_mask_products(masks: np.ndarray, m: int, words: int) -> np.ndarray:
    """masks uint32[n] -> 0 or 1 in uint64[n, words]: every product of masks that `ring_borrows` needs."""
    out = np.empty((masks.size, words), np.uint64)
    subsets = 1 << (m - 1)
    for i in range(masks.size):
        eps = (int(masks[i]) >> m) & (subsets - 1)
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
def ring_borrows(opened: np.ndarray, products: np.ndarray, one: np.ndarray, m: int) -> np.ndarray:
    """opened uint32[n], products[n, words] shared in the ring -> shares of the borrow as 0 or 1: uint64[n].

    `one` holds shares of the empty product, uint64[n]. If it and the products are multiplied by a factor, so is the
    borrow.

    At most one gt_j prod_{i>j} eq_i is 1, so their sum is the borrow. With a bit b = c xor mask as c + (1 - 2 c) mask,
    a product over opened bits c_i is a signed sum of the dealt products over the supersets of {i: c_i = 0}.
    """
    out = np.empty(opened.size, np.uint64)
    subsets = 1 << (m - 1)
    for i in range(opened.size):
        unequal = ~(int(opened[i]) >> m) & (subsets - 1)
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
                value = np.uint64(products[i, offset + s])
                if above:
                    whole = np.uint64(products[i, (s << j) - 1]) if s > 0 else one[i]
                    value = whole - value
                term += value if parity(np.uint64(t)) == 0 else ~value + np.uint64(1)
                if t == 0:
                    break
                t = (t - 1) & free
            total += term
            offset += subsets >> j
        out[i] = total
    return out
