"""The parity of a word."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def parity(x: np.uint64) -> np.uint64:
    """Return 1 if an odd number of bits are 1, else 0. Compiled, the loop is the processor's population count."""
    count = 0
    while x != 0:
        x &= x - np.uint64(1)
        count += 1
    return np.uint64(count & 1)
