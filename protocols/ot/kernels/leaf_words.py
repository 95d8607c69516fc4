"""Pseudorandom words of the leaves of seed trees, summed by leaf and by tree."""

from __future__ import annotations

import numba
import numpy as np

from mpc.kernels.aes import HAS_AES_NI
from protocols.ot.kernels import aes_blocks

_BLOCKS = 16


@numba.njit(cache=True, nogil=True)
def _add_words(
    leaves: np.ndarray,
    schedule: np.ndarray,
    first: int,
    hashed: np.ndarray,
    words: np.ndarray,
    by_leaf: np.ndarray,
    by_tree: np.ndarray,
) -> None:
    """Compute `add_words`; `words` is a view of `hashed`, uint64[32]."""
    flat, rest, count = leaves.reshape(-1), np.zeros(2 * _BLOCKS, np.uint64), leaves.shape[1]
    per = by_leaf.shape[2]
    lanes = np.zeros_like(words)
    for k in range(leaves.shape[0]):
        for part in range(by_leaf.shape[1]):
            lanes[:] = 0
            for j in range(0, count, _BLOCKS):
                size, number = min(_BLOCKS, count - j), np.uint64(j)
                place = 2 * (k * count + j)
                if size == _BLOCKS:
                    aes_blocks._hash_numbered(hashed, 0, flat, place, schedule, 0, number, np.uint64(first + part))
                else:
                    aes_blocks.copy_words(flat, place, rest, 0, 2 * size)
                    aes_blocks._hash_numbered(hashed, 0, rest, 0, schedule, 0, number, np.uint64(first + part))
                _add(words, size * per, lanes, by_tree[part, j * per :])
            for i in range(lanes.size):
                by_leaf[k, part, i % per] += lanes[i]


@numba.njit(cache=True, nogil=True)
def _add(words: np.ndarray, count: int, lanes: np.ndarray, sums: np.ndarray) -> None:
    for i in range(count):
        lanes[i] += words[i]
        sums[i] += words[i]


@numba.njit(cache=True, nogil=True)
def add_at_compiled(sums: np.ndarray, places: np.ndarray, words: np.ndarray) -> None:
    """Add row i of words [n, v] to row places[i] of sums [m, v]."""
    for i in range(places.size):
        for v in range(sums.shape[1]):
            sums[places[i], v] += words[i, v]


def add_words(leaves: np.ndarray, schedule: np.ndarray, first: int, by_leaf: np.ndarray, by_tree: np.ndarray) -> None:
    """Hash leaves uint64[K, T, 2], leaf (k, j) with tweaks (j, first), (j, first + 1), ..

    The hashes are read as integers, `per` per block, and added to by_leaf [K, parts, per] and by_tree [parts, T per].
    """
    if HAS_AES_NI:
        hashed = np.empty(2 * _BLOCKS, np.uint64)
        _add_words(leaves, schedule, first, hashed, hashed.view(by_leaf.dtype), by_leaf, by_tree)
    else:
        add_words_portably(leaves, schedule, first, by_leaf, by_tree)


def add_words_portably(
    leaves: np.ndarray, schedule: np.ndarray, first: int, by_leaf: np.ndarray, by_tree: np.ndarray
) -> None:
    """`add_words` with `cryptography`."""
    parts = by_leaf.shape[1]
    for blocks, sums in zip(leaves, by_leaf, strict=True):
        hashed = aes_blocks.hashes_portably(blocks, 0, 2 * (first + parts), schedule)[:, 2 * first :]
        words = np.ascontiguousarray(hashed).view(by_leaf.dtype).reshape(len(blocks), parts, -1)
        sums += words.sum(axis=0, dtype=sums.dtype)
        by_tree += words.swapaxes(0, 1).reshape(parts, -1)


def add_at_plainly(sums: np.ndarray, places: np.ndarray, words: np.ndarray) -> None:
    """`add_at_compiled` in numpy."""
    np.add.at(sums, places, words)


# numba sets its configuration as attributes at run time.
add_at = add_at_plainly if numba.config.DISABLE_JIT else add_at_compiled  # type: ignore[attr-defined]
