"""Transpose 128 bit planes into blocks of 128 bits: 32 columns of words at a time, by quartering squares.

Source     Eklundh, IEEE Transactions on Computers 1972
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from protocols.ot.kernels import COMPILES

COLUMNS = 32
_HALVES, _QUARTERS = np.uint64(0x00000000FFFFFFFF), np.uint64(0x0000FFFF0000FFFF)
_BYTES, _NIBBLES = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0F0F0F0F0F0F0F0F)
_PAIRS, _BITS = np.uint64(0x3333333333333333), np.uint64(0x5555555555555555)


@numba.njit(inline="always")
def _exchanged(a: Any, b: Any, c: Any, d: Any, distance: int, far: np.uint64, near: np.uint64) -> Any:
    """Exchange the off-diagonal halves of a square of 4 `distance` bits, of which these are words, then of its
    quarters.
    """
    shift, less = np.uint64(2 * distance), np.uint64(distance)
    first, second = (a >> shift ^ c) & far, (b >> shift ^ d) & far
    a, b, c, d = a ^ first << shift, b ^ second << shift, c ^ first, d ^ second
    first, second = (a >> less ^ b) & near, (c >> less ^ d) & near
    return a ^ first << less, b ^ first, c ^ second << less, d ^ second


@numba.njit(cache=True, nogil=True)
def _enter(planes: np.ndarray, start: int, square: np.ndarray) -> None:
    """Write COLUMNS words of every plane to the square, with halves and quarters of 64 bits exchanged."""
    stop = start + COLUMNS
    for base in range(0, 128, 64):
        for row in range(base, base + 16):
            a, b, c, d = planes[row], planes[row + 16], planes[row + 32], planes[row + 48]
            a, b, c, d = a[start:stop], b[start:stop], c[start:stop], d[start:stop]
            e, f, g, h = square[row], square[row + 16], square[row + 32], square[row + 48]
            for i in range(COLUMNS):
                e[i], f[i], g[i], h[i] = _exchanged(a[i], b[i], c[i], d[i], 16, _HALVES, _QUARTERS)


@numba.njit(cache=True, nogil=True)
def _exchange(square: np.ndarray, distance: int, far: np.uint64, near: np.uint64) -> None:
    """Exchange halves of all squares of 4 `distance` bits, then of their quarters."""
    words = square.reshape(-1)
    part = COLUMNS * distance
    for base in range(0, words.size, 4 * part):
        a, b = words[base : base + part], words[base + part : base + 2 * part]
        c, d = words[base + 2 * part : base + 3 * part], words[base + 3 * part : base + 4 * part]
        for i in range(part):
            a[i], b[i], c[i], d[i] = _exchanged(a[i], b[i], c[i], d[i], distance, far, near)


@numba.njit(cache=True, nogil=True)
def transpose_compiled(planes: np.ndarray, blocks: np.ndarray) -> None:
    """planes uint64[128, W], W a multiple of 32 -> blocks uint64[64 W, 2]: bit p of block i is bit i of plane p."""
    square = np.empty((128, COLUMNS), np.uint64)
    words, out, half = square.reshape(-1), blocks.reshape(-1), 64 * COLUMNS
    for start in range(0, planes.shape[1], COLUMNS):
        _enter(planes, start, square)
        _exchange(square, 4, _BYTES, _NIBBLES)
        _exchange(square, 1, _PAIRS, _BITS)
        for column in range(COLUMNS):
            place = 128 * (start + column)
            for row in range(64):
                out[place + 2 * row] = words[COLUMNS * row + column]
                out[place + 2 * row + 1] = words[COLUMNS * row + column + half]


def transpose_plainly(planes: np.ndarray, blocks: np.ndarray) -> None:
    """`transpose_compiled` in numpy."""
    bits = np.unpackbits(planes.view(np.uint8), axis=1, bitorder="little")
    packed = np.packbits(bits.T, axis=1, bitorder="little")
    blocks[:] = np.ascontiguousarray(packed).view(np.uint64)


transpose = transpose_compiled if COMPILES else transpose_plainly
