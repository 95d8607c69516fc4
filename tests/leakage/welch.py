"""Fixed against random: Welch's t of every bit of every byte of a transcript, Bonferroni-corrected over the positions.

A bit's mean shows what a byte's mean hides: a mask that lacks its lowest bit moves a byte by half a unit in 74.

Source  Goodwill, Jun, Jaffe and Rohatgi, NIAT 2011 (test vector leakage assessment)
"""

from __future__ import annotations

import numpy as np
from scipy import stats

ALPHA = 1e-5


class FixedInputs:
    """Stands in for a generator: every lane gets the same value, drawn once from the seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def integers(self, low, high, shape):
        one = self._rng.integers(low, high, shape[1:])
        return np.broadcast_to(one, shape).copy()


def by_lane(messages: list[bytes], lanes: int) -> np.ndarray:
    """Messages with as many bits for every lane -> these bits, uint8[lanes, positions]; others are left out."""
    columns = []
    for message in messages:
        data = np.frombuffer(message, np.uint8)
        if data.size and data.size % lanes == 0:
            columns.append(np.unpackbits(data.reshape(lanes, -1), axis=1, bitorder="little"))
        elif data.size * 8 // lanes and data.size < lanes:
            bits = np.unpackbits(data, bitorder="little")
            columns.append(bits[: bits.size // lanes * lanes].reshape(lanes, -1))
    return np.concatenate(columns, axis=1)


def leaking_positions(fixed: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Positions whose mean differs between the two groups, uint8[runs, positions] each."""
    constant = (fixed.std(axis=0) == 0) & (other.std(axis=0) == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = stats.ttest_ind(fixed.astype(float), other.astype(float), axis=0, equal_var=False).pvalue
    same = constant & (fixed[0] == other[0])
    return np.flatnonzero(~same & ~(p > ALPHA / fixed.shape[1]))
