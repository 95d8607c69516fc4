"""Label differential privacy: discrete Gaussian noise on the shared counts of positives.

Functionality  [p], [p + q] -> [p'], [q'] with noise from both parties; negative counts become 0
Privacy        what is computed from p' and q' is rho-zero-concentrated differentially private with respect to one
               label, also against either party, which knows its own noise: each party's own noise has the full
               deviation. The bins themselves, the number of rows, and what a floor refuses are not private
Messages       two comparisons and selections, for the counts that noise has made negative
Security       the noise is drawn from the system's generator by a table of 64 bits: a total variation below 2^-50
Source         discrete Gaussian: Canonne, Kamath and Steinke, NeurIPS 2020; concentrated privacy: Bun and Steinke, TCC
               2016
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np

from mpc.arithmetic.bits import select
from mpc.comparison.comparison import below
from mpc.errors import ConfigError
from mpc.party import Party
from mpc.rounds import Steps
from mpc.shares import AShare, stack

# The noise is cut off at so many deviations, beyond which its probability is below 2^-60.
_TAIL = 9.3
LARGEST = 1 << 16


def deviation(rho: float, features: int, groups: int) -> float:
    """Return the deviation of the noise: a label is in one bin of each feature, in one or, of several classes, in two
    of the histograms. Raises ConfigError.
    """
    found = math.sqrt(features * (2 if groups > 1 else 1) / (2 * rho))
    if found * _TAIL + 1 >= LARGEST:
        raise ConfigError(
            f"privacy.rho must be larger for {features} features, got {rho:g}: the noise would be too large"
        )
    return found


def epsilon(rho: float, delta: float) -> float:
    """Return epsilon such that rho-zero-concentrated privacy implies (epsilon, delta)."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


@lru_cache(maxsize=4)
def _thresholds(sigma: float) -> np.ndarray:
    """Return 2^64 times the distribution function at -m, 1 - m .. m - 1, uint64."""
    most = math.ceil(_TAIL * sigma) + 1
    with localcontext() as context:
        context.prec = 40
        whole = [(-(Decimal(x) ** 2) / (2 * Decimal(sigma) ** 2)).exp() for x in range(-most, most + 1)]
        total, up_to, found = sum(whole), Decimal(0), []
        for mass in whole[:-1]:
            up_to += mass
            found.append(min(int(up_to / total * 2**64), 2**64 - 1))
    return np.array(found, np.uint64)


def draw(sigma: float, shape: tuple[int, ...], source: Callable[[int], bytes]) -> np.ndarray:
    """Return discrete Gaussian noise, int64, from the bytes of `source`."""
    words = np.frombuffer(source(8 * math.prod(shape)), "<u8")
    thresholds = _thresholds(sigma)
    return (np.searchsorted(thresholds, words, side="right") - len(thresholds) // 2).reshape(shape)


def noisy(party: Party, p: AShare, q: AShare, own: np.ndarray, bits: int) -> Steps[tuple[AShare, AShare]]:
    """[p], [q], integers whose sums and noise are below 2^(bits - 1), and own noise -> [p'], [q']."""
    moved = AShare(p.words + own.view(np.uint64), party.rank)
    cells = stack([moved, p + q - moved])
    negative = yield from below.steps(party, cells, [0], bits)
    cells = cells - (yield from select.steps(party, negative[..., 0], cells))
    return cells[0], cells[1]
