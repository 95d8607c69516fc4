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
from protocols.ot.kernels import aes_blocks, children

# Put the children of the first nodes of leaves uint64[n, T, 2], as many as the second argument says, in their places;
# write the xor sum of each side to the third, uint64[2, T, 2].
Double = Callable[[np.ndarray, int, np.ndarray], None]


def ggm(key: bytes) -> Double:
    """s -> H(s), H(s xor 1): for independent roots."""

    def double(leaves: np.ndarray, size: int, sums: np.ndarray) -> None:
        both = aes.expand(leaves[:size].reshape(-1, 2), (0, 1), key)
        children.put_children(leaves, both[:, 0], both[:, 1], sums)

    return double


def half_tree(key: bytes) -> Double:
    """s -> H(s), s xor H(s): every level has the same sum, the sender's delta in all trees."""
    (schedule,) = aes_blocks.schedules(np.frombuffer(key, np.uint64)[None])

    def double(leaves: np.ndarray, size: int, sums: np.ndarray) -> None:
        children.double(leaves, size, schedule, sums)

    return double


def grow(leaves: np.ndarray, levels: int, double: Double) -> np.ndarray:
    """Grow `levels` more levels in place: in leaves uint64[n, T, 2], the first n / 2^levels are the nodes so far.

    Returns the xor sums of both sides of each level, uint64[levels, 2, T, 2].
    """
    sums = np.empty((levels, 2, *leaves.shape[1:]), np.uint64)
    for level in range(levels):
        double(leaves, leaves.shape[0] >> levels - level, sums[level])
    return sums


def grow_punctured(
    leaves: np.ndarray, missing: np.ndarray, sides: np.ndarray, sums: np.ndarray, double: Double
) -> tuple[np.ndarray, np.ndarray]:
    """Grow trees of which node `missing` int64[T] is not known, and zero, in each.

    At each level the sum of the side off the path is known: `sides` uint8[levels, T], `sums` uint64[levels, T, 2].
    Returns the numbers of the missing leaves, which are zero, and the sums of the others, uint64[T, 2].
    """
    levels, missing = sides.shape[0], missing.copy()
    sides, sums = np.ascontiguousarray(sides, np.uint8), np.ascontiguousarray(sums)
    known = np.bitwise_xor.reduce(leaves[: leaves.shape[0] >> levels], axis=0)
    both = np.empty((2, *leaves.shape[1:]), np.uint64)
    for level in range(levels):
        size = leaves.shape[0] >> levels - level
        double(leaves, size, both)
        # The missing node was expanded like any other, but its children are not valid.
        children.mend(leaves, size, missing, sides[level], sums[level], both, known)
    return missing, known


def permutation_key(session: bytes, purpose: str) -> bytes:
    """Return the public key of a fixed-key permutation: 16 bytes, one for each purpose in a session."""
    return hashlib.sha256(b"sharewood OT, " + session + purpose.encode()).digest()[:16]
