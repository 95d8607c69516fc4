"""Pads from the blocks of correlated OTs: a hash under which x and x xor delta look independent.

Functionality  block x with number i -> H_j(i, x) = pi(s(x) xor (i, j)) xor s(x), parts j = 0, 1, .. of two words each
Messages       none
Cost           one AES call per part
Security       pi = AES-128 is an ideal cipher, re-keyed every 2^16 numbers; a number is used for one block per key
Source         Guo, Katz, Wang and Yu, IEEE S&P 2020; re-keying: Guo, Katz, Wang, Weng and Yu, CRYPTO 2020 (MITCCRH)
"""

from __future__ import annotations

import numpy as np

from protocols.ot.kernels import aes_blocks

_PERIOD = 16


def pads(blocks: np.ndarray, first: int, words: int, key: bytes) -> np.ndarray:
    """Blocks uint64[n, 2], numbered from `first` -> `words` pseudorandom words of each, uint64[n, words].

    `key`, 16 bytes, is known to both parties and specific to session and direction. The caller must not use a number
    again except for the other block of the same OT; a longer pad of a number begins with the shorter one.
    """
    end = first + blocks.shape[0]
    assert first >= 0 and end <= 1 << 64, "numbers must not wrap around, or one would be used twice"
    out = np.empty((blocks.shape[0], words), np.uint64)
    epochs = range(first >> _PERIOD, -(-end >> _PERIOD))
    keys = np.empty((1, len(epochs), 2), np.uint64)
    aes_blocks.counters(aes_blocks.schedules(np.frombuffer(key, np.uint64)[None]), epochs.start, keys)
    for epoch, schedule in zip(epochs, aes_blocks.schedules(keys[0]), strict=True):
        start, stop = max(first, epoch << _PERIOD), min(end, epoch + 1 << _PERIOD)
        part = slice(start - first, stop - first)
        out[part] = aes_blocks.tweaked_hashes(blocks[part], start, words, schedule)
    return out
