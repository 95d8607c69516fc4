"""Fixed against random: Welch's t of every bit of every byte of a transcript, Bonferroni-corrected over the positions.

The mean of a bit shows what the mean of a byte hides: a mask that lacks its lowest bit moves a byte by half a unit,
with a standard deviation of 74. A comparison of two groups reports a false leak with probability ALPHA; where few runs
make p-values coarse, `false_alarm` gives the exact figure.

Source  Goodwill, Jun, Jaffe and Rohatgi, NIAT 2011 (test vector leakage assessment)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

ALPHA = 1e-5


class FixedInputs:
    """A substitute for a generator: every lane gets the same value, drawn once from the seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def integers(self, low, high, shape):
        one = self._rng.integers(low, high, shape[1:])
        return np.broadcast_to(one, shape).copy()


@dataclass
class Tally:
    """The number of runs in which each bit of a transcript is 1, int64[positions], and the number of runs."""

    ones: np.ndarray
    runs: int

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.ones + other.ones, self.runs + other.runs)

    @classmethod
    def by_lane(cls, messages: list[bytes], lanes: int) -> Tally:
        """Tally messages that hold equally many bits per lane, lane after lane: each lane is a run."""
        counts = [cls._of_message(np.frombuffer(message, np.uint8), lanes) for message in messages if message]
        return cls(np.concatenate([np.zeros(0, np.int64), *counts]), lanes)

    @staticmethod
    def _of_message(data: np.ndarray, lanes: int) -> np.ndarray:
        if data.size % lanes == 0:
            return _ones(data.reshape(lanes, -1))
        per_lane, rest = divmod(data.size * 8, lanes)
        assert per_lane and rest < 8, f"{data.size} bytes cannot be divided among {lanes} lanes"
        bits = np.unpackbits(data, bitorder="little")[: per_lane * lanes]
        return bits.reshape(lanes, per_lane).sum(axis=0, dtype=np.int64)

    @classmethod
    def by_run(cls, transcripts: list[bytes]) -> Tally:
        """Tally transcripts of equal length, one per run."""
        return cls(_ones(np.stack([np.frombuffer(t, np.uint8) for t in transcripts])), len(transcripts))


def _ones(runs: np.ndarray) -> np.ndarray:
    """uint8[runs, bytes] -> how often each bit is 1, [8 * bytes]."""
    counts = [(runs >> bit & 1).sum(axis=0, dtype=np.int64) for bit in range(8)]
    return np.stack(counts, axis=1).reshape(-1)


def welch(fixed: Tally, other: Tally) -> tuple[np.ndarray, np.ndarray]:
    """Return t and the two-sided p of every position; 0 and 1 where both groups are the same constant."""
    means = [group.ones / group.runs for group in (fixed, other)]
    squares = [mean * (1 - mean) / (group.runs - 1) for mean, group in zip(means, (fixed, other), strict=True)]
    total, gap = squares[0] + squares[1], means[0] - means[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(gap == 0, 0.0, gap / np.sqrt(total))
        parts = [s**2 / (group.runs - 1) for s, group in zip(squares, (fixed, other), strict=True)]
        freedom = np.where(total == 0, 1.0, total**2 / (parts[0] + parts[1]))
    return t, np.where(gap == 0, 1.0, 2 * stats.t.sf(np.abs(t), freedom))


def leaking_positions(fixed: Tally, other: Tally) -> np.ndarray:
    """Return the bits whose means differ between the two groups."""
    return np.flatnonzero(welch(fixed, other)[1] <= ALPHA / max(1, fixed.ones.size))


def false_alarm(runs: int, positions: int) -> float:
    """Bound the probability that `leaking_positions` is not empty for uniform bits, with `runs` in either group."""
    count = np.arange(runs + 1)
    first, second = np.meshgrid(count, count)
    p = welch(Tally(first.ravel(), runs), Tally(second.ravel(), runs))[1]
    chance = stats.binom.pmf(first.ravel(), runs, 0.5) * stats.binom.pmf(second.ravel(), runs, 0.5)
    return float(positions * chance[p <= ALPHA / positions].sum())
