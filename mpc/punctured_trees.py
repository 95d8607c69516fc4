"""Trees of seeds of which one party knows all leaves, and the other all but one.

Functionality  q: roots of n trees of K leaves; p: a leaf of each -> p gets the seeds that lead to all but its own
Messages       of each level the sums of the left and of the right children: p chooses that of the side which its path
               leaves, by a transfer; q tells what hides it                        (one wave, then one message)
Cost           ceil(log2 K) transfers of 128 bits per tree, and as many bits told
Security       semi-honest: the seed of p's leaf looks uniform to p where AES with a fixed key is a correlation-robust
               hash
Source         Goldreich, Goldwasser and Micali, J. ACM 1986; (K-1)-of-K: Schoppmann et al., CCS 2019; Boyle et al.,
               CCS 2019
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mpc.kernels import aes
from mpc.ring import U64
from mpc.rings import packed_bits
from mpc.transfers import Making, Told, private

BLOCK = packed_bits(U64)


def depth_of(leaves: int) -> int:
    """Levels below the root."""
    return max(1, (leaves - 1).bit_length())


def _sizes(leaves: int) -> list[int]:
    """How many nodes are needed at each level below the root."""
    depth = depth_of(leaves)
    return [-(-leaves // (1 << depth - level)) for level in range(1, depth + 1)]


def _children(nodes: np.ndarray, count: int, key: bytes) -> np.ndarray:
    """Nodes uint64[n, m, 2] -> their first `count` children, left and right in turn, [n, count, 2]."""
    n, m, _ = nodes.shape
    return aes.expand(nodes.reshape(-1, 2), (0, 1), key).reshape(n, 2 * m, 2)[:, :count]


def _sides(nodes: np.ndarray) -> np.ndarray:
    """Sums of the left and of the right children, uint64[n, 2, 2]."""
    return np.stack([np.bitwise_xor.reduce(nodes[:, side::2], axis=1) for side in (0, 1)], axis=1)


def levels(roots: np.ndarray, leaves: int, key: bytes) -> Iterator[np.ndarray]:
    """The nodes below roots uint64[n, 2], level by level, [n, m, 2]; the last are the leaves."""
    nodes = roots[:, None]
    for size in _sizes(leaves):
        nodes = _children(nodes, size, key)
        yield nodes


def known_levels(siblings: np.ndarray, path: np.ndarray, leaves: int, key: bytes) -> Iterator[np.ndarray]:
    """The same for the party that knows the siblings of a path, uint64[n, depth, 2], to the leaf path int64[n]: nodes
    on the path are 0. May be sent the siblings level by level, as `siblings` is read when a level is yielded.
    """
    depth, every = depth_of(leaves), np.arange(len(path))
    nodes = np.zeros((len(path), 1, 2), U64)
    for level, size in enumerate(_sizes(leaves)):
        nodes = _children(nodes, size, key)
        own = path >> depth - 1 - level
        for place, seeds in ((own, np.zeros_like(siblings[:, level])), (own ^ 1, siblings[:, level])):
            inside = place < size
            nodes[every[inside], place[inside]] = seeds[inside]
        yield nodes


def puncture(rank: int, owner: int, roots: np.ndarray, path: np.ndarray, leaves: int, key: bytes) -> Making[np.ndarray]:
    """Roots uint64[n, 2] of the other party, path int64[n] of the owner (zeros where they are not known) -> siblings at
    the owner, uint64[n, depth, 2]; the roots at the other.
    """
    depth, n = depth_of(leaves), len(roots)
    if rank == owner:
        turns = (path[:, None] >> np.arange(depth - 1, -1, -1) & 1).astype(np.uint8)
        (share,) = yield [private(rank, owner, (1 - turns).reshape(-1), BLOCK, 2)]
        (told,) = yield [Told(1 - owner, 2 * n * depth, BLOCK, None)]
        sums = (share.reshape(-1) ^ told).reshape(n, depth, 2)
        return _solve(sums, turns, path, leaves, key)
    sides = np.stack([_sides(nodes) for nodes in levels(roots, leaves, key)], axis=1)
    (share,) = yield [private(rank, owner, (sides[:, :, 0] ^ sides[:, :, 1]).reshape(-1, 2), BLOCK, 2)]
    yield [Told(1 - owner, 2 * n * depth, BLOCK, (sides[:, :, 0].reshape(-1, 2) ^ share).reshape(-1))]
    return roots


def _solve(sums: np.ndarray, turns: np.ndarray, path: np.ndarray, leaves: int, key: bytes) -> np.ndarray:
    """Siblings from the sums of the sides that the path leaves: what is missing in a sum is the sibling."""
    siblings = np.zeros_like(sums)
    every = np.arange(len(path))
    for level, nodes in enumerate(known_levels(siblings, path, leaves, key)):
        side = 1 - turns[:, level]
        seed = sums[:, level] ^ _sides(nodes)[every, side]
        siblings[:, level] = seed
        place = path >> depth_of(leaves) - 1 - level ^ 1
        inside = place < nodes.shape[1]
        nodes[every[inside], place[inside]] = seed[inside]
    return siblings
