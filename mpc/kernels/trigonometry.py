"""Kernels of the trigonometric sigmoid (see mpc/sigmoid.py): angles are words modulo 2^25 of one period of 32.

Both parties must derive the same public integers from an opened angle, on whatever machine: the kernels use
IEEE sums and products alone, in a fixed order, and no library sine.
"""

from __future__ import annotations

import numba
import numpy as np

ANGLE_BITS = 25
TERMS = 24
TRIG_SCALE = 30

_UNIT = 2 * 3.141592653589793 / 2**ANGLE_BITS


@numba.njit(cache=True, nogil=True)
def _sine_cosine(angle: int) -> tuple[float, float]:
    """(sin, cos) of angle * 2 pi / 2^25, error below 1e-12: Taylor on an eighth, then three doublings."""
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
    """uint32[n] -> words of sin(k a), cos(k a) for k = 1 .. 24 at scale 30: uint64[n, 24, 2]."""
    out = np.empty((angles.size, TERMS, 2), np.uint64)
    for i in range(angles.size):
        s1, c1 = _sine_cosine(int(angles[i]))
        s, c = s1, c1
        for k in range(TERMS):
            out[i, k, 0] = np.uint64(np.int64(np.round(s * (1 << TRIG_SCALE))))
            out[i, k, 1] = np.uint64(np.int64(np.round(c * (1 << TRIG_SCALE))))
            s, c = s * c1 + c * s1, c * c1 - s * s1
    return out


@numba.njit(cache=True, nogil=True)
def series(angles: np.ndarray, shares: np.ndarray, odd: np.ndarray, even: np.ndarray) -> np.ndarray:
    """Shares of sum odd_k sin(k (e - r)) and sum even_k cos(k (e - r)), k = 1 .. 24: uint64[2, n].

    angles: opened e, uint32[n]; shares: this party's half of `harmonics(r)`; odd, even: coefficients as float64.
    """
    out = np.zeros((2, angles.size), np.uint64)
    for i in range(angles.size):
        s1, c1 = _sine_cosine(int(angles[i]))
        s, c = s1, c1
        first, second = np.uint64(0), np.uint64(0)
        for k in range(TERMS):
            sine, cosine = shares[i, k, 0], shares[i, k, 1]
            first += np.uint64(np.int64(np.round(odd[k] * s))) * cosine
            first -= np.uint64(np.int64(np.round(odd[k] * c))) * sine
            second += np.uint64(np.int64(np.round(even[k] * c))) * cosine
            second += np.uint64(np.int64(np.round(even[k] * s))) * sine
            s, c = s * c1 + c * s1, c * c1 - s * s1
        out[0, i], out[1, i] = first, second
    return out
