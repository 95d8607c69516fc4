"""Binary trees of seeds: one party grows them whole, the other all but one path.

Many trees of one depth are grown together. The nodes of level d are uint64[2^d, T, 2]: node x of tree j is at [x, j],
and its children are x and x + 2^d, so bit d of a leaf's number is the side that its path takes at level d.

Source     Goldreich, Goldwasser and Micali 1986; with an unknown path: Boyle et al., CCS 2019;
           half-tree: Guo, Yang, Wang, Zhang, Xie, Liu and Zhao, EUROCRYPT 2023
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from mpc.kernels import aes
from protocols.ot.kernels import aes_blocks
from protocols.ot.kernels.children import put_children

# Nodes uint64[n, 2] -> their left and right children.
Children = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def ggm(key: bytes) -> Children:
    """s -> H(s), H(s xor 1): for independent roots."""

    def children(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = aes.expand(nodes, (0, 1), key)
        return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])

    return children


def half_tree(key: bytes) -> Children:
    """s -> H(s), s xor H(s): every level has the same sum, the sender's delta in all trees."""
    (schedule,) = aes_blocks.schedules(np.frombuffer(key, np.uint64)[None])

    def children(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        left = aes_blocks.hashes(nodes, schedule)
        return left, nodes ^ left

    return children


def grow(leaves: np.ndarray, levels: int, children: Children) -> np.ndarray:
    """Grow `levels` more levels in place: in leaves uint64[n, T, 2], the first n / 2^levels are the nodes so far.

    Returns the xor sums of both sides of each level, uint64[levels, 2, T, 2].
    """
    sums = np.empty((levels, 2, *leaves.shape[1:]), np.uint64)
    for level in range(levels):
        _double(leaves, leaves.shape[0] >> levels - level, children, sums[level])
    return sums


def grow_punctured(
    leaves: np.ndarray, missing: np.ndarray, sides: np.ndarray, sums: np.ndarray, children: Children
) -> np.ndarray:
    """Grow trees of which node `missing` int64[T] is not known, and zero, in each.

    At each level the sum of the side off the path is known: `sides` uint8[levels, T], `sums` uint64[levels, T, 2].
    Returns the numbers of the missing leaves, which are zero.
    """
    levels, every = sides.shape[0], np.arange(leaves.shape[1])
    both = np.empty((2, *leaves.shape[1:]), np.uint64)
    for level, side in enumerate(sides.astype(np.int64)):
        size = leaves.shape[0] >> levels - level
        _double(leaves, size, children, both)
        # The missing node was expanded like any other, but its children are not valid.
        sibling, missing = missing + side * size, missing + (1 - side) * size
        leaves[sibling, every] ^= sums[level] ^ both[side, every]
        leaves[missing, every] = 0
    return missing


def _double(leaves: np.ndarray, size: int, children: Children, sums: np.ndarray) -> None:
    """Put the children of the first `size` nodes in their place; write each side's sum to sums uint64[2, T, 2]."""
    left, right = (side.reshape(size, -1) for side in children(leaves[:size].reshape(-1, 2)))
    put_children(leaves[: 2 * size].reshape(2 * size, -1), left, right, sums.reshape(2, -1))


def permutation_key(session: bytes, purpose: str) -> bytes:
    """Return the public key of a fixed-key permutation: 16 bytes, one for each purpose in a session."""
    return hashlib.sha256(b"sharewood OT, " + session + purpose.encode()).digest()[:16]
