"""Pads from the blocks of correlated OTs: a hash under which x and x xor delta look independent.

Functionality  block x with number i -> H_j(i, x) = pi(s(x) xor (i, j mod 16)) xor s(x), parts j = 0, 1, .. of two words
Messages       none
Cost           one AES call per part
Security       pi = AES-128 is an ideal cipher, with a key for every 2^14 numbers and 16 parts, so that a key hashes at
               most 2^18 times; a number is used for one block per key
Source         Guo, Katz, Wang and Yu, IEEE S&P 2020; re-keying: Guo, Katz, Wang, Weng and Yu, CRYPTO 2020 (MITCCRH)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from protocols.ot.kernels import aes_blocks

_NUMBERS, _PARTS = 14, 4
# The key of numbers and parts is the image of e + g 2^42, for the e-th period of numbers and the g-th of parts.
_KEYS = 42


def pads(blocks: np.ndarray, first: int, words: int, key: bytes) -> np.ndarray:
    """Blocks uint64[n, 2], numbered from `first` -> `words` pseudorandom words of each, uint64[n, words].

    `key`, 16 bytes, is known to both parties and specific to session and direction. The caller must not use a number
    again except for the other block of the same OT; a longer pad of a number begins with the shorter one.
    """
    out = np.empty((blocks.shape[0], words), np.uint64)
    for rows, columns, start, schedule in _pieces(blocks.shape[0], first, words, key):
        out[rows, columns] = aes_blocks.tweaked_hashes(blocks[rows], start, columns.stop - columns.start, schedule)
    return out


def pads_of_both(
    blocks: np.ndarray, flips: np.ndarray, delta: np.ndarray, first: int, words: int, key: bytes
) -> tuple[np.ndarray, np.ndarray]:
    """Return `pads` of x xor flip delta, and of that xor delta; flips uint8[n] are bits."""
    zero, other = np.empty((2, blocks.shape[0], words), np.uint64)
    for rows, columns, start, schedule in _pieces(blocks.shape[0], first, words, key):
        pair = zero[rows, columns], other[rows, columns]
        aes_blocks.hashes_of_both(blocks[rows], flips[rows], delta, start, schedule, *pair)
    return zero, other


def _pieces(count: int, first: int, words: int, key: bytes) -> Iterator[tuple[slice, slice, int, np.ndarray]]:
    """Yield what one key hashes: rows, columns of words, the number of the first row, and the key's schedule."""
    end = first + count
    assert first >= 0 and end <= 1 << _KEYS + _NUMBERS, "numbers must not wrap around, or one would be used twice"
    periods = range(first >> _NUMBERS, -(-end >> _NUMBERS))
    main, keys = aes_blocks.schedules(np.frombuffer(key, np.uint64)[None]), np.empty((1, len(periods), 2), np.uint64)
    width = 2 << _PARTS
    for column in range(0, words, width):
        aes_blocks.counters(main, periods.start + (column // width << _KEYS), keys)
        for period, schedule in zip(periods, aes_blocks.schedules(keys[0]), strict=True):
            start, stop = max(first, period << _NUMBERS), min(end, period + 1 << _NUMBERS)
            yield slice(start - first, stop - first), slice(column, min(column + width, words)), start, schedule
