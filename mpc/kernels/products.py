"""Kernels of share arithmetic: a party's share of a product from opened differences and dealt shares.

Arrays are flat, but for matrices.
`first` tells the party that adds what is public. All words are of one unsigned dtype and wrap around.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def product(d: np.ndarray, e: np.ndarray, a: np.ndarray, b: np.ndarray, ab: np.ndarray, first: bool) -> np.ndarray:
    """x y for opened d = x - a, e = y - b and shares of a, b, a b."""
    out = np.empty_like(ab)
    for i in range(out.size):
        out[i] = d[i] * b[i] + (a[i] + d[i] if first else a[i]) * e[i] + ab[i]
    return out


@numba.njit(cache=True, nogil=True)
def square(d: np.ndarray, a: np.ndarray, aa: np.ndarray, first: bool) -> np.ndarray:
    """x^2 for opened d = x - a and shares of a, a^2."""
    out = np.empty_like(aa)
    for i in range(out.size):
        out[i] = d[i] * (a[i] + a[i] + (d[i] if first else d[i] - d[i])) + aa[i]
    return out


@numba.njit(cache=True, nogil=True)
def conjunction(d: np.ndarray, e: np.ndarray, a: np.ndarray, b: np.ndarray, ab: np.ndarray, first: bool) -> np.ndarray:
    """x and y, packed bits, for opened d = x xor a, e = y xor b and shares of a, b, a and b."""
    out = np.empty_like(ab)
    for i in range(out.size):
        out[i] = (d[i] & b[i]) ^ ((a[i] ^ d[i] if first else a[i]) & e[i]) ^ ab[i]
    return out


@numba.njit(cache=True, nogil=True)
def powers(d: np.ndarray, a: np.ndarray, aa: np.ndarray, aaa: np.ndarray, first: bool) -> np.ndarray:
    """x^2 and x^3, [2, n], for opened d = x - a and shares of a, a^2, a^3."""
    out = np.empty((2, d.size), d.dtype)
    for i in range(d.size):
        public = d[i] if first else d[i] - d[i]
        out[0, i] = d[i] * (a[i] + a[i] + public) + aa[i]
        three_a, three_aa = a[i] + a[i] + a[i], aa[i] + aa[i] + aa[i]
        out[1, i] = d[i] * (d[i] * (three_a + public) + three_aa) + aaa[i]
    return out


@numba.njit(cache=True, nogil=True)
def product_with_square(
    d: np.ndarray,
    e: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    ab: np.ndarray,
    bb: np.ndarray,
    abb: np.ndarray,
    first: bool,
) -> np.ndarray:
    """x y^2 for opened d = x - a, e = y - b and shares of a, b, a b, b^2, a b^2."""
    out = np.empty_like(abb)
    for i in range(out.size):
        linear = d[i] * b[i] + ab[i]
        fixed = (a[i] + d[i] if first else a[i]) * e[i]
        out[i] = e[i] * (linear + linear + fixed) + d[i] * bb[i] + abb[i]
    return out


@numba.njit(cache=True, nogil=True)
def weighted_choice(
    c: np.ndarray, d: np.ndarray, beta: np.ndarray, a: np.ndarray, product: np.ndarray, weights: np.ndarray, first: bool
) -> np.ndarray:
    """s = sum_j w_j b_j and s x, [2, n], for opened bits c = b xor beta, [n, J], opened d = x - a, and shares of
    beta, [n, J], a, and beta a, [n, J]."""
    n, count = c.shape
    out = np.empty((2, n), d.dtype)
    for i in range(n):
        one = np.uint64(first)
        whole = a[i] + d[i] if first else a[i]
        s, sx = one - one, one - one
        for j in range(count):
            bit, part = beta[i, j], beta[i, j] * d[i] + product[i, j]
            if c[i, j]:
                bit, part = one - bit, whole - part
            s += weights[j] * bit
            sx += weights[j] * part
        out[0, i], out[1, i] = s, sx
    return out


@numba.njit(cache=True, nogil=True)
def sum_of_three(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x + y + z, [n, m]."""
    out = np.empty_like(x)
    for i in range(len(x)):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] + y[i, j] + z[i, j]
    return out


@numba.njit(cache=True, nogil=True)
def add_matrix_product(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """total [n, m] += a [n, k] b [k, m], with half the multiplications: those of 64 bits are what takes time.

    x_0 y_0 + x_1 y_1 = (x_0 + y_1) (x_1 + y_0) - x_0 x_1 - y_0 y_1, where the last two are of a row or a column alone
    (Winograd, IEEE ToC 1968). Two rows of eight terms each time that words of `total` are touched.
    """
    n, inner = a.shape
    whole = inner - inner % 8
    _subtract_pairs(total, a[:, :whole], b[:whole])
    for s in range(0, whole, 8):
        b0, b1, b2, b3, b4, b5, b6, b7 = b[s], b[s + 1], b[s + 2], b[s + 3], b[s + 4], b[s + 5], b[s + 6], b[s + 7]
        for v in range(0, n, 2):
            upper, p = total[v], a[v, s : s + 8]
            p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
            w = min(v + 1, n - 1)  # an odd row out pairs with itself, and is written twice alike
            lower, q = total[w], a[w, s : s + 8]
            q0, q1, q2, q3, q4, q5, q6, q7 = q[0], q[1], q[2], q[3], q[4], q[5], q[6], q[7]
            for k in range(upper.size):
                y0, y1, y2, y3, y4, y5, y6, y7 = b0[k], b1[k], b2[k], b3[k], b4[k], b5[k], b6[k], b7[k]
                above = (p0 + y1) * (p1 + y0) + (p2 + y3) * (p3 + y2) + (p4 + y5) * (p5 + y4) + (p6 + y7) * (p7 + y6)
                below = (q0 + y1) * (q1 + y0) + (q2 + y3) * (q3 + y2) + (q4 + y5) * (q5 + y4) + (q6 + y7) * (q7 + y6)
                upper[k], lower[k] = upper[k] + above, lower[k] + below
    for i in range(whole, inner):
        for v in range(n):
            row, factor, line = total[v], a[v, i], b[i]
            for k in range(row.size):
                row[k] += factor * line[k]


@numba.njit(cache=True, nogil=True)
def _subtract_pairs(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """total[v, k] -= sum_j a[v, 2j] a[v, 2j + 1] + b[2j, k] b[2j + 1, k]."""
    columns = np.zeros(b.shape[1], b.dtype)
    for h in range(0, len(b), 2):
        x, y = b[h], b[h + 1]
        for k in range(columns.size):
            columns[k] += x[k] * y[k]
    for v in range(len(a)):
        row = np.zeros(1, a.dtype)
        for h in range(0, a.shape[1], 2):
            row[0] += a[v, h] * a[v, h + 1]
        for k in range(columns.size):
            total[v, k] -= row[0] + columns[k]
