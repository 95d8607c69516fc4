"""Put the children of the nodes of many trees in their places, and sum them."""

from __future__ import annotations

import numba
import numpy as np

from protocols.ot.kernels import COMPILES


@numba.njit(cache=True, nogil=True)
def put_children_compiled(nodes: np.ndarray, left: np.ndarray, right: np.ndarray, sums: np.ndarray) -> None:
    """Copy left, right uint64[n, w] to the halves of nodes uint64[2 n, w]; write their xor to sums uint64[2, w]."""
    sums[:] = 0
    size = left.shape[0]
    for i in range(size):
        _put(nodes[i], left[i], sums[0])
        _put(nodes[size + i], right[i], sums[1])


@numba.njit(cache=True, nogil=True)
def _put(node: np.ndarray, child: np.ndarray, total: np.ndarray) -> None:
    for w in range(child.size):
        word = child[w]
        node[w] = word
        total[w] ^= word


def put_children_plainly(nodes: np.ndarray, left: np.ndarray, right: np.ndarray, sums: np.ndarray) -> None:
    """`put_children_compiled` in numpy."""
    size = left.shape[0]
    for place, side in enumerate((left, right)):
        nodes[place * size : (place + 1) * size] = side
        sums[place] = np.bitwise_xor.reduce(side, axis=0)


put_children = put_children_compiled if COMPILES else put_children_plainly
