"""Kernels of share arithmetic: a party's share of a product from opened differences and dealt shares.

Arrays are flat. `first` marks the party that adds public values. All words are of one unsigned dtype and wrap around.
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
def flipped(c: np.ndarray, beta: np.ndarray, first: bool) -> np.ndarray:
    """b for opened bits c = b xor beta and shares of beta."""
    out = np.empty_like(beta)
    for i in range(out.size):
        one = beta.dtype.type(first)
        out[i] = one - beta[i] if c[i] else beta[i]
    return out


@numba.njit(cache=True, nogil=True)
def choice(
    c: np.ndarray, d: np.ndarray, beta: np.ndarray, a: np.ndarray, product: np.ndarray, first: bool
) -> np.ndarray:
    """b x for opened bits c = b xor beta, opened d = x - a, and shares of beta, a, beta a."""
    out = np.empty_like(product)
    for i in range(out.size):
        part = beta[i] * d[i] + product[i]
        whole = a[i] + d[i] if first else a[i]
        out[i] = whole - part if c[i] else part
    return out


@numba.njit(cache=True, nogil=True)
def weighted_choice(
    c: np.ndarray, d: np.ndarray, beta: np.ndarray, a: np.ndarray, product: np.ndarray, weights: np.ndarray, first: bool
) -> np.ndarray:
    """s = sum_j w_j b_j and s x, [2, n], for opened bits c = b xor beta, [n, J], and opened d = x - a.

    beta, [n, J], a, and product = beta a, [n, J], are shares.
    """
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
