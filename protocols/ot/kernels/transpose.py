"""Transpose 128 bit planes into blocks of 128 bits: 32 columns of words at a time, by halving squares.

Source     Eklundh, IEEE Transactions on Computers 1972
"""

from __future__ import annotations

import numba
import numpy as np

from protocols.ot.kernels import COMPILES
from protocols.ot.kernels.aes_blocks import copy_words

COLUMNS = 32


@numba.njit(cache=True, nogil=True)
def _exchange(square: np.ndarray, distance: int, mask: np.uint64) -> None:
    """Exchange the off-diagonal halves of all squares of 2 `distance` bits."""
    shift, half = np.uint64(distance), COLUMNS * distance
    for base in range(0, square.size, 2 * half):
        upper, lower = square[base : base + half], square[base + half : base + 2 * half]
        for i in range(half):
            crossed = ((upper[i] >> shift) ^ lower[i]) & mask
            upper[i] ^= crossed << shift
            lower[i] ^= crossed


@numba.njit(cache=True, nogil=True)
def transpose_compiled(planes: np.ndarray, blocks: np.ndarray) -> None:
    """planes uint64[128, W], W a multiple of 32 -> blocks uint64[64 W, 2]: bit p of block i is bit i of plane p."""
    square, out, half = np.empty(128 * COLUMNS, np.uint64), blocks.reshape(-1), 64 * COLUMNS
    for start in range(0, planes.shape[1], COLUMNS):
        for row in range(128):
            copy_words(planes[row], start, square, COLUMNS * row, COLUMNS)
        _exchange(square, 32, np.uint64(0x00000000FFFFFFFF))
        _exchange(square, 16, np.uint64(0x0000FFFF0000FFFF))
        _exchange(square, 8, np.uint64(0x00FF00FF00FF00FF))
        _exchange(square, 4, np.uint64(0x0F0F0F0F0F0F0F0F))
        _exchange(square, 2, np.uint64(0x3333333333333333))
        _exchange(square, 1, np.uint64(0x5555555555555555))
        for column in range(COLUMNS):
            place = 128 * (start + column)
            for row in range(64):
                out[place + 2 * row] = square[COLUMNS * row + column]
                out[place + 2 * row + 1] = square[COLUMNS * row + column + half]


def transpose_plainly(planes: np.ndarray, blocks: np.ndarray) -> None:
    """`transpose_compiled` in numpy."""
    bits = np.unpackbits(planes.view(np.uint8), axis=1, bitorder="little")
    packed = np.packbits(bits.T, axis=1, bitorder="little")
    blocks[:] = np.ascontiguousarray(packed).view(np.uint64)


transpose = transpose_compiled if COMPILES else transpose_plainly
