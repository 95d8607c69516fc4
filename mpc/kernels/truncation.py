"""Kernel of the division by 2^f: the step after the opening (see mpc/rounding/truncation.py)."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def shift_opened(e: np.ndarray, high: np.ndarray, msb: np.ndarray, shift: int, first: bool) -> np.ndarray:
    """Shares of (e >> f) - (r >> f) + 2^(64 - f) wrap - 2^(62 - f) for e = x + 2^62 + r, from those of r >> f, msb r.

    Flat arrays of 64-bit words; `first` marks the party that adds public values.
    """
    low, top = np.uint64(shift), np.uint64(64 - shift)
    offset = np.uint64(1) << np.uint64(62 - shift)
    out = np.empty_like(e)
    for i in range(e.size):
        wrap = np.uint64(0) if e[i] >> np.uint64(63) else msb[i]
        words = (wrap << top) - high[i]
        out[i] = words + (e[i] >> low) - offset if first else words
    return out
