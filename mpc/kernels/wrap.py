"""Kernels for the wrap of two shares' sum, for a secret with top bit 0 (see mpc/rounding/wrap.py). Arrays are flat.

A party's bit n is 1 where the top bit of its own word is 0; the sum stays below 2^k where both bits are 1, n_0 n_1 = 1.
`first` tells party 0 from party 1.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def mask_tops(words: np.ndarray, offset: np.uint64, beta: np.ndarray) -> np.ndarray:
    """n xor beta, 0 or 1 in uint8[n], for the top bit of words + offset and the low bit of beta, uint8[n]."""
    out = np.empty(words.size, np.uint8)
    top = np.uint64(8 * words.itemsize - 1)
    for i in range(words.size):
        out[i] = (np.uint8(np.uint64(words[i]) + offset >> top) ^ beta[i] ^ np.uint8(1)) & np.uint8(1)
    return out


@numba.njit(cache=True, nogil=True)
def add_halves(
    words: np.ndarray,
    offset: np.uint64,
    own: np.ndarray,
    other: np.ndarray,
    beta: np.ndarray,
    product: np.ndarray,
    down: int,
    up: int,
    constant: np.uint64,
    first: bool,
) -> np.ndarray:
    """Shares of (x_0 >> down) + (x_1 >> down) + 2^up n_0 n_1 + constant in uint64[n], x_i party i's words + offset.

    `own` and `other` are the masked bits that this party sent and received, `product` uint64[n] its share of
    beta_0 beta_1: n_0 n_1 = n_0 g_1 + (1 - 2 g_1) (g_0 beta_1 + (1 - 2 g_0) beta_0 beta_1) for the messages g_0, g_1.
    """
    out = np.empty(words.size, np.uint64)
    one = np.uint64(1)
    public = constant if first else constant - constant
    ring = ~np.uint64(0) >> np.uint64(64 - 8 * words.itemsize)
    for i in range(words.size):
        mine, theirs, bit = np.uint64(own[i]), np.uint64(other[i]), np.uint64(beta[i]) & one
        dealt = product[i]
        both = dealt if mine == theirs else ~dealt + one
        if first:
            both += (mine ^ bit) & theirs
        else:
            local = theirs & bit
            both += ~local + one if mine else local
        word = np.uint64(words[i]) + offset & ring
        out[i] = (word >> np.uint64(down)) + (both << np.uint64(up)) + public
    return out
