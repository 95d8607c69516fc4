"""The sums of SoftSpoken: words r_x of all elements x of GF(2^k) -> the sum of r_x, and the sum of x r_x by bit of x.

Source     Roy, CRYPTO 2022
"""

from __future__ import annotations

import numba
import numpy as np

from mpc.kernels.aes import HAS_AES_NI
from protocols.ot.kernels import COMPILES, aes_blocks


@numba.njit(cache=True, nogil=True)
def fold_compiled(words: np.ndarray, sums: np.ndarray, planes: np.ndarray) -> None:
    """words uint64[T, 2^k, W] -> sums of r_x uint64[T, W]; the sums of x r_x are added to planes uint64[T k, W].

    `words` is overwritten.
    """
    trees, leaves = words.shape[0], words.shape[1]
    levels = planes.shape[0] // trees
    for j in range(trees):
        for level in range(0, levels - 1, 2):
            step, plane = 1 << level, j * levels + level
            for x in range(0, leaves, 4 * step):
                _add(
                    words[j, x],
                    words[j, x + step],
                    words[j, x + 2 * step],
                    words[j, x + 3 * step],
                    planes[plane],
                    planes[plane + 1],
                )
        for w in range(sums.shape[1]):
            sums[j, w] = words[j, 0, w]
            if levels % 2:
                last = words[j, 1 << levels - 1, w]
                planes[j * levels + levels - 1, w] ^= last
                sums[j, w] ^= last


@numba.njit(cache=True, nogil=True)
def _add(
    none: np.ndarray, one: np.ndarray, two: np.ndarray, three: np.ndarray, low: np.ndarray, high: np.ndarray
) -> None:
    """Fold two levels: sum the words of elements 0, 1, 2, 3 into the first, and add them to the planes bit by bit."""
    for w in range(none.size):
        a, b, c = one[w], two[w], three[w]
        low[w] ^= a ^ c
        high[w] ^= b ^ c
        none[w] ^= a ^ b ^ c


@numba.njit(cache=True, nogil=True)
def _fold_streams(
    schedules: np.ndarray,
    first: np.uint64,
    blocks: np.ndarray,
    sums: np.ndarray,
    planes: np.ndarray,
    given: np.ndarray,
    masks: np.ndarray,
) -> None:
    """`fold_streams`, whose words, a tree at a time, go through blocks uint64[2^k, W / 2, 2]."""
    trees, leaves = sums.shape[0], blocks.shape[0]
    levels = planes.shape[0] // trees
    for j in range(trees):
        for level in range(levels):
            for w in range(planes.shape[1]):
                planes[levels * j + level, w] = given[j, w] & masks[j, level]
        aes_blocks._counters(schedules[leaves * j : leaves * (j + 1)], first, blocks)
        fold_compiled(blocks.reshape(1, leaves, -1), sums[j : j + 1], planes[levels * j : levels * (j + 1)])


def fold_streams(
    schedules: np.ndarray,
    first: int,
    blocks: np.ndarray,
    sums: np.ndarray,
    planes: np.ndarray,
    given: np.ndarray | None = None,
    masks: np.ndarray | None = None,
) -> None:
    """Fold the words of AES in counter mode, from counter `first` on: a schedule per tree and leaf, in this order.

    Writes sums uint64[T, W] and planes uint64[T k, W], those of `fold`, to which it adds the words `given` uint64[T, W]
    under the masks of each bit, uint64[T, k], if there are any. blocks uint64[2^k, W / 2, 2] is room for words.
    """
    if given is None or masks is None:
        given, masks = np.zeros_like(sums), np.zeros((len(sums), len(planes) // len(sums)), np.uint64)
    if HAS_AES_NI:
        _fold_streams(schedules, np.uint64(first), blocks, sums, planes, given, masks)
        return
    planes[:] = (given[:, None] & masks[..., None]).reshape(planes.shape)
    words = np.empty((len(schedules), *blocks.shape[1:]), np.uint64)
    aes_blocks.counters(schedules, first, words)
    fold(words.reshape(len(sums), len(blocks), -1), sums, planes)


def fold_plainly(words: np.ndarray, sums: np.ndarray, planes: np.ndarray) -> None:
    """`fold_compiled` in numpy."""
    by_tree = planes.reshape(words.shape[0], -1, words.shape[2])
    for level in range(by_tree.shape[1]):
        even, odd = words[:, ::2], words[:, 1::2]
        by_tree[:, level] ^= np.bitwise_xor.reduce(odd, axis=1)
        words = even ^ odd
    sums[:] = words[:, 0]


fold = fold_compiled if COMPILES else fold_plainly
