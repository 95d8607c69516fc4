"""Sums of ten rows of a table, at random places: the linear map of primal LPN.

Source     Yang, Weng, Lan, Zhang and Wang, CCS 2020, section 5.2
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from mpc.kernels.aes import HAS_AES_NI
from protocols.ot.kernels import aes_blocks

ROW_WEIGHT = 10
# Blocks of AES per sum: each word has three places of 21 bits, of which a table of up to 2^21 rows uses the lowest.
_BLOCKS, _PLACE_BITS = 2, 21
_SUMS = 16 // _BLOCKS


@numba.njit(inline="always")
def _add(low: Any, high: Any, table: np.ndarray, word: Any, last: np.uint64) -> tuple[Any, Any]:
    """Add the row of the table, uint64[2 r], that the lowest bits of a word choose."""
    row = (word & last) << np.uint64(1)
    return low ^ table[row], high ^ table[row + np.uint64(1)]


@numba.njit(cache=True, nogil=True)
def add_rows_compiled(
    out: np.ndarray, leaves: np.ndarray, table: np.ndarray, schedule: np.ndarray, first: int, lowest: np.ndarray
) -> None:
    """`add_rows` on flat words."""
    last, one, none, bits = np.uint64(table.size // 2 - 1), np.uint64(1), np.uint64(0), np.uint64(_PLACE_BITS)
    words = np.empty(32, np.uint64)
    for start in range(0, lowest.size, _SUMS):
        aes_blocks._encrypt_numbers(words, 0, words, 0, schedule, 0, np.uint64(_BLOCKS * (first + start)), none)
        for i in range(min(_SUMS, lowest.size - start)):
            to = 2 * (start + i)
            low, high = leaves[to] & ~one, leaves[to + 1]
            for j in range(4 * i, 4 * i + 3):
                word = words[j]
                low, high = _add(low, high, table, word, last)
                low, high = _add(low, high, table, word >> bits, last)
                low, high = _add(low, high, table, word >> bits + bits, last)
            low, high = _add(low, high, table, words[4 * i + 3], last)
            out[to], out[to + 1], lowest[start + i] = low, high, low & one


def places(schedules: np.ndarray, first: int, count: int, rows: int) -> np.ndarray:
    """Return the places in a table of `rows` rows, a power of 2, of sums from number `first` on: int64[count, 10]."""
    words = np.empty((1, _BLOCKS * count, 2), np.uint64)
    aes_blocks.counters(schedules, _BLOCKS * first, words)
    shifts = np.uint64(_PLACE_BITS) * np.arange(3, dtype=np.uint64)
    every = words.reshape(count, 2 * _BLOCKS, 1) >> shifts & np.uint64(rows - 1)
    return every.reshape(count, -1)[:, :ROW_WEIGHT].astype(np.int64)


def add_rows_plainly(
    out: np.ndarray, leaves: np.ndarray, table: np.ndarray, schedules: np.ndarray, first: int, lowest: np.ndarray
) -> None:
    """`add_rows` in numpy."""
    out[:] = leaves
    out[:, 0] &= ~np.uint64(1)
    out ^= np.bitwise_xor.reduce(table[places(schedules, first, len(out), len(table))], axis=1)
    lowest[:] = out[:, 0] & np.uint64(1)


def add_rows(
    out: np.ndarray, leaves: np.ndarray, table: np.ndarray, schedules: np.ndarray, first: int, lowest: np.ndarray
) -> None:
    """out uint64[n, 2] = leaves, less their lowest bits, plus ten rows of the table uint64[2^m, 2] each, by xor.

    The rows of sum `first` + i are chosen by AES in counter mode; schedules[0] is that of its key. The lowest bits of
    the result are written to lowest uint8[n], too.
    """
    if HAS_AES_NI:
        add_rows_compiled(out.reshape(-1), leaves.reshape(-1), table.reshape(-1), schedules.reshape(-1), first, lowest)
    else:
        for start in range(0, len(out), 1 << 12):
            of = slice(start, start + (1 << 12))
            add_rows_plainly(out[of], leaves[of], table, schedules, first + start, lowest[of])
