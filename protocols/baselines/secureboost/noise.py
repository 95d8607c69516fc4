"""Gaussian noise in a host's sums: differential privacy of the bins behind them.

Functionality  sums of g and h in each bucket of a column and node -> the same plus noise that sums to zero over buckets
Messages       none of its own: a host blinds its sums with a fresh encryption, of the noise instead of zero
Cost           none. The noise changes which splits are found; leaf weights stay exact
Security       (epsilon, 10^-6)-DP against the guest, for all sums of a training together; two tables of bins are
               neighbours if they differ in one row, in any of the host's columns. A host counts its answers and
               refuses more than were announced. The bin edges are taken as given. The routes of splits that the host
               wins are exact, as without noise, and not covered by the guarantee
Source         Bun and Steinke, TCC 2016 (rho-zCDP, propositions 1.3 and 1.6, lemma 2.3)

A row is in one node per level and in one bucket per column. A change of its bin moves its g and h, each at most 1 in
units of the scale, from one sum to another: a squared distance of 2 for g and 2 for h, per column and level.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np

from mpc.errors import ConfigError
from protocols.baselines.secureboost.encoding import FRACTION_BITS, LARGEST_DEVIATION

DELTA = 1e-6


def deviation(epsilon: float | None, questions: int) -> float:
    """Return the standard deviation of the noise in a sum, in units of a row's largest g or h; 0 without epsilon.

    `questions`: columns summed, over all levels of all trees. Raises ConfigError if the deviation would be too large.
    """
    if epsilon is None:
        return 0.0
    spread = math.sqrt(2 * questions / zcdp(epsilon))
    if spread > LARGEST_DEVIATION:
        raise ConfigError(f"epsilon must be larger for {questions} sums of columns, got {epsilon:g}")
    return spread


def zcdp(epsilon: float, delta: float = DELTA) -> float:
    """Return the rho for which rho-zCDP gives (epsilon, delta)-DP: epsilon = rho + 2 sqrt(rho ln(1 / delta))."""
    power = math.log(1 / delta)
    return (math.sqrt(power + epsilon) - math.sqrt(power)) ** 2


def noise(shape: tuple[int, ...], spread: float, random: Callable[[int], bytes] = os.urandom) -> np.ndarray:
    """Draw noise int64[columns, buckets, 2] with deviation `spread`; over the buckets of a column it sums to zero.

    The guest knows the sums over all buckets, so it could also subtract the excess evenly by itself.
    """
    drawn = np.rint(_normal(math.prod(shape), random).reshape(shape) * spread * 2.0**FRACTION_BITS).astype(np.int64)
    excess = drawn.sum(axis=1, keepdims=True)
    each, left = np.divmod(excess, shape[1])
    return drawn - each - (np.arange(shape[1])[:, None] < left)


def _normal(count: int, random: Callable[[int], bytes]) -> np.ndarray:
    """Draw standard normal values, float64[count], by Box and Muller."""
    uniform = (np.frombuffer(random(16 * count), np.uint64) >> np.uint64(11)) * 2.0**-53
    radius, angle = np.sqrt(-2 * np.log1p(-uniform[:count])), 2 * np.pi * uniform[count:]
    return radius * np.cos(angle)
