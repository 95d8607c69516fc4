"""Sums of ten rows of a table, chosen by public random words: the linear map of primal LPN.

Source     Yang, Weng, Lan, Zhang and Wang, CCS 2020, section 5.2
"""

from __future__ import annotations

import numba
import numpy as np

from protocols.ot.kernels import COMPILES

ROW_WEIGHT = 10


@numba.njit(cache=True, nogil=True)
def add_rows_compiled(blocks: np.ndarray, table: np.ndarray, choices: np.ndarray, lowest: np.ndarray) -> None:
    """blocks uint64[n, 2], less their lowest bits, ^= rows of table uint64[2^m, 2] at choices uint32[n, 10] modulo 2^m.

    The lowest bits of the result are written to lowest uint8[n], too.
    """
    mask, one = np.uint32(table.shape[0] - 1), np.uint64(1)
    for i in range(blocks.shape[0]):
        low, high = blocks[i, 0] & ~one, blocks[i, 1]
        for j in range(ROW_WEIGHT):
            row = choices[i, j] & mask
            low ^= table[row, 0]
            high ^= table[row, 1]
        blocks[i, 0], blocks[i, 1], lowest[i] = low, high, low & one


def add_rows_plainly(blocks: np.ndarray, table: np.ndarray, choices: np.ndarray, lowest: np.ndarray) -> None:
    """`add_rows_compiled` in numpy."""
    blocks[:, 0] &= ~np.uint64(1)
    blocks ^= np.bitwise_xor.reduce(table[choices % np.uint32(table.shape[0])], axis=1)
    lowest[:] = blocks[:, 0] & np.uint64(1)


add_rows = add_rows_compiled if COMPILES else add_rows_plainly
