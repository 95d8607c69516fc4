"""Kernels of the trigonometric sigmoid (see mpc/functions/sigmoid.py): angles are words modulo 2^28, one period.

Both parties must derive the same public integers from an opened angle on any machine, so the kernels use only IEEE sums
and products, in a fixed order, and no library sine.
"""

from __future__ import annotations

import numba
import numpy as np

ANGLE_BITS = 28
TERMS = 11
TRIG_SCALE = 22
# The angles of a block go through each term together, so that the compiler can vectorise the loops.
BLOCK = 256

_UNIT = 2 * 3.141592653589793 / 2**ANGLE_BITS


@numba.njit(cache=True, nogil=True)
def _sine_cosine(angle: int) -> tuple[float, float]:
    """(sin, cos) of angle * 2 pi / 2^28, error below 1e-12: Taylor on an eighth, then three doublings."""
    signed = angle - (1 << ANGLE_BITS) if angle >= 1 << (ANGLE_BITS - 1) else angle
    x = signed * (_UNIT / 8)
    y = x * x
    s = x * (1 - y / 6 * (1 - y / 20 * (1 - y / 42 * (1 - y / 72 * (1 - y / 110)))))
    c = 1 - y / 2 * (1 - y / 12 * (1 - y / 30 * (1 - y / 56 * (1 - y / 90 * (1 - y / 132)))))
    for _ in range(3):
        s, c = 2 * s * c, c * c - s * s
    return s, c


@numba.njit(cache=True, nogil=True)
def harmonics(angles: np.ndarray) -> np.ndarray:
    """uint32[n] -> words of sin(k a), cos(k a) for k = 1 .. 11 at scale 22: uint64[11, 2, n]."""
    out = np.empty((TERMS, 2, angles.size), np.uint64)
    s1, c1, s, c = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, angles.size, BLOCK):
        stop = min(start + BLOCK, angles.size)
        for i in range(start, stop):
            s1[i - start], c1[i - start] = _sine_cosine(int(angles[i]))
            s[i - start], c[i - start] = s1[i - start], c1[i - start]
        for k in range(TERMS):
            sines, cosines = out[k, 0, start:stop], out[k, 1, start:stop]
            for j in range(stop - start):
                sines[j] = np.uint64(np.int64(np.rint(s[j] * (1 << TRIG_SCALE))))
                cosines[j] = np.uint64(np.int64(np.rint(c[j] * (1 << TRIG_SCALE))))
                s[j], c[j] = s[j] * c1[j] + c[j] * s1[j], c[j] * c1[j] - s[j] * s1[j]
    return out


@numba.njit(cache=True, nogil=True)
def series(angles: np.ndarray, shares: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Shares of sum a_k cos(k (e - r)) + b_k sin(k (e - r)), k = 1 .. 11, of each of f series: uint64[f, n].

    angles: opened e, uint32[n]; shares: this party's half of `harmonics(r)`; factors: a and b, float64[f, 2, 11].
    """
    out = np.zeros((len(factors), angles.size), np.uint64)
    s1, c1, s, c = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, angles.size, BLOCK):
        stop = min(start + BLOCK, angles.size)
        for i in range(start, stop):
            s1[i - start], c1[i - start] = _sine_cosine(int(angles[i]))
            s[i - start], c[i - start] = s1[i - start], c1[i - start]
        for k in range(TERMS):
            sines, cosines = shares[k, 0, start:stop], shares[k, 1, start:stop]
            for f in range(len(factors)):
                total, a, b = out[f, start:stop], factors[f, 0, k], factors[f, 1, k]
                for j in range(stop - start):
                    total[j] += np.uint64(np.int64(np.rint(a * c[j] + b * s[j]))) * cosines[j]
                    total[j] += np.uint64(np.int64(np.rint(a * s[j] - b * c[j]))) * sines[j]
            for j in range(stop - start):
                s[j], c[j] = s[j] * c1[j] + c[j] * s1[j], c[j] * c1[j] - s[j] * s1[j]
    return out
