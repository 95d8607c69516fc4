"""Kernels of the product of shared matrices: what each party and the dealer multiply, and the product itself.

All words are of one unsigned dtype and wrap around. Matrices with an even inner dimension 2 h are two halves, of
columns or of rows. z maps (u, v) to (v, v - u) when it acts on columns from the right, and (u; v) to (-v; u + v) when
it acts on rows from the left. It satisfies z + 1/z = 1, and 1/z is z with the halves swapped.
"""

from __future__ import annotations

import numba
import numpy as np

_PAGE = 4096


@numba.njit(cache=True, nogil=True)
def share_of_product(
    x: np.ndarray,
    a: np.ndarray,
    received_x: np.ndarray,
    y: np.ndarray,
    b: np.ndarray,
    received_y: np.ndarray,
    rest: np.ndarray,
    first: bool,
) -> np.ndarray:
    """rest + (x + received_x - a z) (z (y + received_y) + 1/z b) for party 0, with z and 1/z exchanged for party 1.

    x, a, received_x [n, 2 h]; y, b, received_y [2 h, m]; rest [n, m].
    """
    return _added_product(rest, _left(x, a, received_x, first), _right(y, b, received_y, first))


@numba.njit(cache=True, nogil=True)
def dealt_product(a0: np.ndarray, a1: np.ndarray, b0: np.ndarray, b1: np.ndarray) -> np.ndarray:
    """(a_0 z + a_1) (b_0 + 1/z b_1) for a_i [n, 2 h], b_i [2 h, m]."""
    nothing = np.zeros((len(a0), b0.shape[1]), a0.dtype)
    return _added_product(nothing, _dealt_left(a0, a1), _dealt_right(b0, b1))


@numba.njit(cache=True, nogil=True)
def _left(x: np.ndarray, mask: np.ndarray, received: np.ndarray, first: bool) -> np.ndarray:
    """x + received - mask z for party 0, with 1/z for party 1."""
    out = np.empty_like(x)
    half = x.shape[1] // 2
    u, v = (0, half) if first else (half, 0)
    for i in range(len(x)):
        own, hidden, other, row = x[i], mask[i], received[i], out[i]
        own_u, hidden_u, other_u, row_u = own[u:][:half], hidden[u:][:half], other[u:][:half], row[u:][:half]
        own_v, hidden_v, other_v, row_v = own[v:][:half], hidden[v:][:half], other[v:][:half], row[v:][:half]
        for j in range(half):
            row_u[j] = own_u[j] + other_u[j] - hidden_v[j]
        for j in range(half):
            row_v[j] = own_v[j] + other_v[j] - hidden_v[j] + hidden_u[j]
    return out


@numba.njit(cache=True, nogil=True)
def _right(y: np.ndarray, mask: np.ndarray, received: np.ndarray, first: bool) -> np.ndarray:
    """z (y + received) + 1/z mask for party 0, with z and 1/z exchanged for party 1."""
    out = _room(y, _PAGE // 4)
    half = len(y) // 2
    u, v = (0, half) if first else (half, 0)
    for i in range(half):
        own_u, hidden_u, other_u, row_u = y[u + i], mask[u + i], received[u + i], out[u + i]
        own_v, hidden_v, other_v, row_v = y[v + i], mask[v + i], received[v + i], out[v + i]
        for j in range(row_u.size):
            row_u[j] = hidden_u[j] + hidden_v[j] - own_v[j] - other_v[j]
        for j in range(row_v.size):
            row_v[j] = own_u[j] + other_u[j] + own_v[j] + other_v[j] - hidden_u[j]
    return out


@numba.njit(cache=True, nogil=True)
def _dealt_left(a0: np.ndarray, a1: np.ndarray) -> np.ndarray:
    """a_0 z + a_1."""
    out = np.empty_like(a0)
    half = a0.shape[1] // 2
    for i in range(len(a0)):
        turned, added, row = a0[i], a1[i], out[i]
        for j in range(half):
            row[j] = turned[half + j] + added[j]
            row[half + j] = turned[half + j] - turned[j] + added[half + j]
    return out


@numba.njit(cache=True, nogil=True)
def _dealt_right(b0: np.ndarray, b1: np.ndarray) -> np.ndarray:
    """b_0 + 1/z b_1."""
    out = _room(b0, _PAGE // 4)
    half = len(b0) // 2
    for i in range(half):
        upper, lower = out[i], out[half + i]
        added_u, added_v, turned_u, turned_v = b0[i], b0[half + i], b1[i], b1[half + i]
        for j in range(upper.size):
            upper[j], lower[j] = added_u[j] + turned_u[j] + turned_v[j], added_v[j] - turned_u[j]
    return out


@numba.njit(cache=True, nogil=True)
def _room(like: np.ndarray, place: int) -> np.ndarray:
    """Return an uninitialised array like `like` that starts `place` bytes into a page.

    Arrays that are read and written start at different offsets: when the low bits of two addresses agree, a load waits
    for a store.
    """
    room = np.empty(like.size + _PAGE // like.itemsize, like.dtype)
    start = (place - room.ctypes.data) % _PAGE // like.itemsize
    return room[start : start + like.size].reshape(like.shape)


@numba.njit(cache=True, nogil=True)
def _added_product(start: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """start + a b for start [n, m], a [n, k], b [k, m], with half the 64-bit multiplications, which dominate the time.

    x_0 y_0 + x_1 y_1 = (x_0 + y_1) (x_1 + y_0) - x_0 x_1 - y_0 y_1, where each of the last two terms depends on one row
    or one column (Winograd, IEEE ToC 1968). Each pass over the words of the sum handles two rows of eight terms.
    """
    out = _room(start, 0)
    n, inner = a.shape
    whole = inner - inner % 8
    _less_pairs(start, a[:, :whole], b[:whole], out)
    for s in range(0, whole, 8):
        b0, b1, b2, b3, b4, b5, b6, b7 = b[s], b[s + 1], b[s + 2], b[s + 3], b[s + 4], b[s + 5], b[s + 6], b[s + 7]
        for v in range(0, n, 2):
            upper, p = out[v], a[v, s : s + 8]
            p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
            w = min(v + 1, n - 1)  # an odd last row pairs with itself, and is written twice with the same values
            lower, q = out[w], a[w, s : s + 8]
            q0, q1, q2, q3, q4, q5, q6, q7 = q[0], q[1], q[2], q[3], q[4], q[5], q[6], q[7]
            for k in range(upper.size):
                y0, y1, y2, y3, y4, y5, y6, y7 = b0[k], b1[k], b2[k], b3[k], b4[k], b5[k], b6[k], b7[k]
                above = (p0 + y1) * (p1 + y0) + (p2 + y3) * (p3 + y2) + (p4 + y5) * (p5 + y4) + (p6 + y7) * (p7 + y6)
                below = (q0 + y1) * (q1 + y0) + (q2 + y3) * (q3 + y2) + (q4 + y5) * (q5 + y4) + (q6 + y7) * (q7 + y6)
                upper[k], lower[k] = upper[k] + above, lower[k] + below
    for i in range(whole, inner):
        for v in range(n):
            row, factor, line = out[v], a[v, i], b[i]
            for k in range(row.size):
                row[k] += factor * line[k]
    return out


@numba.njit(cache=True, nogil=True)
def _less_pairs(start: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out[v, k] = start[v, k] - sum_j a[v, 2j] a[v, 2j + 1] + b[2j, k] b[2j + 1, k]."""
    columns = np.zeros(b.shape[1], b.dtype)
    for h in range(0, len(b), 2):
        x, y = b[h], b[h + 1]
        for k in range(columns.size):
            columns[k] += x[k] * y[k]
    for v in range(len(a)):
        row = np.zeros(1, a.dtype)
        for h in range(0, a.shape[1], 2):
            row[0] += a[v, h] * a[v, h + 1]
        before, line, one = start[v], out[v], row[0]
        for k in range(columns.size):
            line[k] = before[k] - one - columns[k]
