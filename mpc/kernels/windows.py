"""Kernels of mpc/lookup/windows.py: one-hot windows of a mask, public tables at windows of a sum."""

from __future__ import annotations

import numba
import numpy as np

from mpc.kernels.parity import parity


def hot_words(width: int) -> int:
    """Return the number of 64-bit words of a one-hot window."""
    return max(1, (1 << width) // 64)


@numba.njit(cache=True, nogil=True)
def one_hot(words: np.ndarray, places: np.ndarray, width: int) -> np.ndarray:
    """words uint64[n], places int64[k] -> bit b of uint64[n, k, hot words] is 1 where the window at that place is b."""
    out = np.zeros((words.size, places.size, max(1, (1 << width) // 64)), np.uint64)
    for i in range(words.size):
        for j in range(places.size):
            window = int(words[i] >> np.uint64(places[j])) & ((1 << width) - 1)
            out[i, j, window >> 6] = np.uint64(1) << np.uint64(window & 63)
    return out


@numba.njit(cache=True, nogil=True)
def block_parities(hot: np.ndarray, place: np.ndarray, bits: int) -> np.ndarray:
    """hot uint64[n, hot words], place int64[n] -> parities of aligned blocks, uint8[n, bits].

    For each j below `bits`, the block is the one of 2^j bits that contains the place.
    """
    out = np.empty((place.size, bits), np.uint8)
    for i in range(place.size):
        for j in range(bits):
            start = place[i] >> j << j
            if j < 6:
                x = hot[i, start >> 6] >> np.uint64(start & 63) & ((np.uint64(1) << np.uint64(1 << j)) - np.uint64(1))
            else:
                x = np.uint64(0)
                for w in range(start >> 6, (start >> 6) + (1 << (j - 6))):
                    x ^= hot[i, w]
            out[i, j] = parity(x)
    return out


@numba.njit(cache=True, nogil=True)
def turned(table: np.ndarray, outputs: int) -> np.ndarray:
    """table uint64[m] -> uint64[m, hot words, outputs]: for every e, bit o of table[(e - b) mod m] at bit b."""
    m = table.size
    out = np.zeros((m, max(1, m // 64), outputs), np.uint64)
    for e in range(m):
        for b in range(m):
            value = table[(e - b) & (m - 1)]
            for o in range(outputs):
                if (value >> np.uint64(o)) & np.uint64(1):
                    out[e, b >> 6, o] |= np.uint64(1) << np.uint64(b & 63)
    return out


@numba.njit(cache=True, nogil=True)
def look_up(e: np.ndarray, places: np.ndarray, hot: np.ndarray, tables: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Return shares of tables at e - r, uint64[n, k].

    e: uint64[n]; hot: shared one-hot windows of r, [n, k, hot words]; tables: as `turned` returns them, [t, m, hot
    words, outputs]; which: the table of each place, int64[k].
    """
    n, k = e.size, places.size
    m, words, outputs = tables.shape[1], tables.shape[2], tables.shape[3]
    out = np.empty((n, k), np.uint64)
    for i in range(n):
        for j in range(k):
            table = tables[which[j], int(e[i] >> np.uint64(places[j])) & (m - 1)]
            word = np.uint64(0)
            for o in range(outputs):
                chosen = np.uint64(0)
                for w in range(words):
                    chosen ^= hot[i, j, w] & table[w, o]
                word |= parity(chosen) << np.uint64(o)
            out[i, j] = word
    return out
