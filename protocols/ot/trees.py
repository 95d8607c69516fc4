"""Binary trees of seeds, grown whole by one party and but for one path by the other.

Many trees of one depth grow together. Their nodes of a level are uint64[2^d, T, 2]: node x of tree j at [x, j], and
the children of node x are x and x + 2^d, so that bit d of a leaf's number is the side that its path takes at level d.

Source     Goldreich, Goldwasser and Micali 1986; of one path unknown: Boyle et al., CCS 2019;
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
    """s -> H(s), H(s xor 1): for roots that are independent."""

    def children(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = aes.expand(nodes, (0, 1), key)
        return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])

    return children


def half_tree(key: bytes) -> Children:
    """s -> H(s), s xor H(s): every level has the same sum, which is the sender's delta in all trees."""
    (schedule,) = aes_blocks.schedules(np.frombuffer(key, np.uint64)[None])

    def children(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        left = aes_blocks.hashes(nodes, schedule)
        return left, nodes ^ left

    return children


def grow(leaves: np.ndarray, levels: int, children: Children) -> np.ndarray:
    """The last `levels` levels of trees, in place: leaves uint64[n, T, 2], of which the first n / 2^levels are nodes.

    The sums by xor of either side of each level, uint64[levels, 2, T, 2].
    """
    sums = np.empty((levels, 2, *leaves.shape[1:]), np.uint64)
    for level in range(levels):
        _double(leaves, leaves.shape[0] >> levels - level, children, sums[level])
    return sums


def grow_punctured(
    leaves: np.ndarray, missing: np.ndarray, sides: np.ndarray, sums: np.ndarray, children: Children
) -> np.ndarray:
    """The same for whoever lacks node `missing` int64[T] of each tree, and has zero there.

    At each level the sum uint64[levels, T, 2] of one side is known: `sides` uint8[levels, T], the one off the path.
    The numbers of the missing leaves, which are zero.
    """
    levels, every = sides.shape[0], np.arange(leaves.shape[1])
    both = np.empty((2, *leaves.shape[1:]), np.uint64)
    for level, side in enumerate(sides.astype(np.int64)):
        size = leaves.shape[0] >> levels - level
        _double(leaves, size, children, both)
        # A missing node was doubled like any other, but its children are none.
        sibling, missing = missing + side * size, missing + (1 - side) * size
        leaves[sibling, every] ^= sums[level] ^ both[side, every]
        leaves[missing, every] = 0
    return missing


def _double(leaves: np.ndarray, size: int, children: Children, sums: np.ndarray) -> None:
    """Put the children of the first `size` nodes in their place; to sums uint64[2, T, 2] those of either side."""
    left, right = (side.reshape(size, -1) for side in children(leaves[:size].reshape(-1, 2)))
    put_children(leaves[: 2 * size].reshape(2 * size, -1), left, right, sums.reshape(2, -1))


def permutation_key(session: bytes, purpose: str) -> bytes:
    """The public key of a fixed-key permutation: 16 bytes, one for each purpose in a session."""
    return hashlib.sha256(b"sharewood OT, " + session + purpose.encode()).digest()[:16]
