"""Half-trees of seeds, a level at a time: s -> H(s), s xor H(s), H the hash of `aes_blocks` under one key."""

from __future__ import annotations

import numba
import numpy as np

from mpc.kernels.aes import HAS_AES_NI
from protocols.ot.kernels import aes_blocks

_BATCH = 32


@numba.njit(cache=True, nogil=True)
def _double(nodes: np.ndarray, words: int, schedule: np.ndarray, sums: np.ndarray) -> None:
    """`double` on flat words, of which the first `words` are the nodes so far; sums uint64[2, w]."""
    sums[:] = 0
    hashed, none = np.zeros(_BATCH, np.uint64), np.uint64(0)
    width, at = sums.shape[1], 0
    for i in range(0, words, _BATCH):
        count = min(_BATCH, words - i)
        if count == _BATCH:
            aes_blocks._hash(hashed, 0, nodes, i, schedule, 0, none, none)
        else:
            aes_blocks.copy_words(nodes, i, hashed, 0, count)
            aes_blocks._hash(hashed, 0, hashed, 0, schedule, 0, none, none)
        done = 0
        while done < count:
            run, start = min(count - done, width - at), i + done
            _put(
                nodes[start : start + run],
                nodes[words + start : words + start + run],
                hashed[done : done + run],
                sums[0, at : at + run],
                sums[1, at : at + run],
            )
            done, at = done + run, (at + run) % width


@numba.njit(cache=True, nogil=True)
def _put(node: np.ndarray, beside: np.ndarray, hashed: np.ndarray, of_left: np.ndarray, of_right: np.ndarray) -> None:
    """Put the left child in the place of a node and the right one beside it; add both to the sums."""
    for w in range(node.size):
        left = hashed[w]
        right = node[w] ^ left
        node[w], beside[w] = left, right
        of_left[w] ^= left
        of_right[w] ^= right


@numba.njit(cache=True, nogil=True)
def mend(
    leaves: np.ndarray,
    size: int,
    missing: np.ndarray,
    side: np.ndarray,
    known: np.ndarray,
    both: np.ndarray,
    others: np.ndarray,
) -> None:
    """After a level of `size` nodes has grown, correct the children of the node `missing` int64[T] of each tree.

    leaves uint64[n, T, 2]. The sum of all nodes on `side` uint8[T] is `known` uint64[T, 2]; what grew are the sums
    `both` uint64[2, T, 2]. This yields the child there. The other one is zero from now on: `missing` becomes its
    number, and `others` the sum of the other nodes on its side.
    """
    for tree in range(missing.size):
        at = np.int64(side[tree])
        there, gone = missing[tree] + at * size, missing[tree] + (1 - at) * size
        for w in range(2):
            leaves[there, tree, w] ^= known[tree, w] ^ both[at, tree, w]
            others[tree, w] = known[tree, w] ^ both[1 - at, tree, w] ^ leaves[gone, tree, w]
            leaves[gone, tree, w] = np.uint64(0)
        missing[tree] = gone


def double(leaves: np.ndarray, size: int, schedule: np.ndarray, sums: np.ndarray) -> None:
    """Put the children of the first `size` of leaves uint64[n, T, 2] at x and x + size, for node x.

    The xor of all children on each side is written to sums uint64[2, T, 2]. Fast if T is a multiple of 16.
    """
    if HAS_AES_NI:
        _double(leaves.reshape(-1), 2 * size * leaves.shape[1], schedule, sums.reshape(2, -1))
    else:
        double_portably(leaves, size, schedule, sums)


def double_portably(leaves: np.ndarray, size: int, schedule: np.ndarray, sums: np.ndarray) -> None:
    """`double` with `cryptography`."""
    nodes = leaves[:size].reshape(-1, 2)
    left = aes_blocks.hashes_portably(nodes, None, 2, schedule)
    put_children(leaves, left, nodes ^ left, sums)


def put_children(leaves: np.ndarray, left: np.ndarray, right: np.ndarray, sums: np.ndarray) -> None:
    """Put the children of some nodes, uint64[size T, 2] each, in their places, and sum each side as `double` does."""
    for side, children in enumerate((left, right)):
        of_side = children.reshape(-1, *leaves.shape[1:])
        leaves[side * len(of_side) : (side + 1) * len(of_side)] = of_side
        sums[side] = np.bitwise_xor.reduce(of_side, axis=0)
