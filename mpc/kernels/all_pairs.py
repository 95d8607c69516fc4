"""Kernels for the first maximum of small groups by comparing all pairs (see mpc/comparison/all_pairs.py).

All groups have the same size; the pairs of a group are (0, 1), (0, 2) .. (1, 2) .. `first` marks the party that adds
public values.
"""

from __future__ import annotations

import functools

import numba
import numpy as np

# With at most this many chunks, a table of all products has at most 1,024 rows.
_TABULATED = 5


@numba.njit(cache=True, nogil=True)
def differences(words: np.ndarray) -> np.ndarray:
    """Return w_i - w_j of every pair, i < j: words[n, r] -> uint64[n r (r - 1) / 2], significant to a word's width."""
    groups, size = words.shape
    out = np.empty(groups * (size * (size - 1) // 2), np.uint64)
    pair = 0
    for group in range(groups):
        for i in range(size):
            for j in range(i + 1, size):
                out[pair] = np.uint64(words[group, i]) - np.uint64(words[group, j])
                pair += 1
    return out


@numba.njit(cache=True, nogil=True)
def signed_products(apart: np.ndarray, place: int, masks: np.ndarray, m: int, width: int) -> np.ndarray:
    """For every pair, the bit t at `place` of uint64[n], then 1 - 2 t times each of `borrow.ring_mask_products`.

    The masks are uint32[n]. The results are modulo 2^width, packed into bytes, lowest first: uint8[n, words].
    """
    subsets = 1 << (m - 1)
    out = np.empty((masks.size, -(-(3 * subsets - 1) * width // 8)), np.uint8)
    for i in range(masks.size):
        top = int(apart[i] >> np.uint64(place)) & 1
        factor = 1 + top * ((1 << width) - 2)
        word, held, filled = 0, top, width
        for j in range(-1, m):  # -1: no gamma
            least = max(j, 0)
            value = factor if j < 0 else factor * (int(masks[i] >> j) & 1)
            lacking = ~(int(masks[i]) >> m) >> least
            for s in range(j < 0, subsets >> least):
                if filled == 8:
                    out[i, word] = held
                    word, held, filled = word + 1, 0, 0
                held |= value * (s & lacking == 0) << filled
                filled += width
        out[i, word] = held
    return out


@functools.lru_cache
def _signed_rows(m: int, width: int) -> np.ndarray:
    """Tabulate `signed_products` for every t and every word of masks; t is the bit above the masks."""
    keys = np.arange(1 << 2 * m, dtype=np.uint64)
    masks = (keys & np.uint64((1 << 2 * m - 1) - 1)).astype(np.uint32)
    return signed_products(keys, 2 * m - 1, masks, m, width)


def look_up_signed_products(apart: np.ndarray, place: int, masks: np.ndarray, m: int, width: int) -> np.ndarray:
    """Compute `signed_products`, from a table if that is small."""
    if m > _TABULATED:
        return signed_products(apart, place, masks, m, width)
    top = (apart >> np.uint64(place) & np.uint64(1)).astype(np.uint32)
    return _signed_rows(m, width).take(masks | top << np.uint32(2 * m - 1), axis=0)


@numba.njit(cache=True, nogil=True)
def count_wins(
    opened: np.ndarray, top: np.ndarray, borrowed: np.ndarray, place: int, groups: int, size: int, first: bool
) -> np.ndarray:
    """Return shares of the number of keys in its group that each key precedes: uint8[n, r], modulo 256.

    For every pair: the opened difference, uint64; shares, uint64, of the top bit t, at `place`, of the difference of
    the masks; and shares of (1 - 2 t) times the borrow.
    """
    out = np.zeros((groups, size), np.uint8)
    one = np.uint64(first)
    pair = 0
    for group in range(groups):
        for i in range(size):
            for j in range(i + 1, size):
                less = top[pair] + borrowed[pair]
                if opened[pair] >> np.uint64(place) & np.uint64(1):
                    less = one - less
                out[group, i] = np.uint8((np.uint64(out[group, i]) + one - less) & np.uint64(255))
                out[group, j] = np.uint8((np.uint64(out[group, j]) + less) & np.uint64(255))
                pair += 1
    return out


@numba.njit(cache=True, nogil=True)
def to_look_up(rho: np.ndarray, r: np.ndarray, places: int) -> np.ndarray:
    """Return the table for `look_up`, words[n, r - 1, K - 1, 2], for uint8[n, r] modulo K = `places`."""
    groups, size = r.shape
    out = np.zeros((groups, size - 1, places - 1, 2), r.dtype)
    for group in range(groups):
        for i in range(1, size):
            k = rho[group, i] & (places - 1)
            if k < places - 1:
                out[group, i - 1, k, 0] = 1
                out[group, i - 1, k, 1] = r[group, i] - r[group, 0]
    return out


@numba.njit(cache=True, nogil=True)
def to_spread(rho: np.ndarray, alpha: np.ndarray, places: int) -> np.ndarray:
    """Return the table for `spread`, uint8[n, r, K - 1, M], for uint8[n, r] modulo K = `places`."""
    groups, size, members = alpha.shape
    out = np.zeros((groups, size, places - 1, members), np.uint8)
    for group in range(groups):
        for i in range(size):
            k = rho[group, i] & (places - 1)
            if k < places - 1:
                for member in range(members):
                    out[group, i, k, member] = alpha[group, i, member]
    return out


@numba.njit(cache=True, nogil=True)
def look_up(
    table: np.ndarray, place: np.ndarray, e: np.ndarray, r: np.ndarray, first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return shares of the one-hot of every group's winner, uint8[n, r], and of the winning key, words[n].

    For every key i except the first, `table` has shares of 1{k = rho_i} and 1{k = rho_i} (r_i - r_0) for all k but the
    last, words[n, r - 1, K - 1, 2]. The entries for all k, including the last, add up to 1 and r_i - r_0. The keys are
    e - r with e opened.
    """
    groups, others, entries, _ = table.shape
    won = np.empty((groups, 1 + others), np.uint8)
    key = np.empty(groups, e.dtype)
    for group in range(groups):
        none = np.uint8(first)
        total = (np.uint64(e[group, 0]) if first else np.uint64(0)) - np.uint64(r[group, 0])
        for i in range(1, 1 + others):
            k = place[group, i]
            if k < entries:
                hit, hidden = np.uint64(table[group, i - 1, k, 0]), np.uint64(table[group, i - 1, k, 1])
            else:
                hit, hidden = np.uint64(first), np.uint64(r[group, i]) - np.uint64(r[group, 0])
                for other in range(entries):
                    hit -= np.uint64(table[group, i - 1, other, 0])
                    hidden -= np.uint64(table[group, i - 1, other, 1])
            won[group, i] = np.uint8(hit & np.uint64(1))
            none ^= won[group, i]
            total += hit * (np.uint64(e[group, i]) - np.uint64(e[group, 0])) - hidden
        won[group, 0] = none
        key[group] = total
    return won, key


@numba.njit(cache=True, nogil=True)
def spread(table: np.ndarray, place: np.ndarray, won: np.ndarray, opened: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return shares of <won> and <b_1 .. b_M>, uint8[n, r, M], for opened b xor alpha.

    `table` has shares of 1{k = rho} alpha for all k but the last, uint8[n, r, K - 1, M].
    """
    groups, size, entries, members = table.shape
    out = np.empty_like(opened)
    for group in range(groups):
        for i in range(size):
            k = place[group, i]
            for m in range(members):
                if k < entries:
                    hidden = table[group, i, k, m]
                else:
                    hidden = alpha[group, i, m]
                    for other in range(entries):
                        hidden ^= table[group, i, other, m]
                out[group, i, m] = won[group, i] & opened[group, i, m] ^ hidden
    return out
