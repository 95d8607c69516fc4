"""Divergence of shared histograms: information value, weight of evidence and stability index.

Functionality  [p], [q], counts by bin -> [sum (p/P - q/N) w], and the weights of evidence [w = ln (p/P) / (q/N)]
Error          1e-5 of w and of the divergence for counts below 2^18, 2e-5 for larger ones
Empty cells    in the logarithm, an empty cell counts as one row. Where no cell is empty, the values are those of the
               textbook
Messages       logarithms of all cells and totals together; two products; two quotients per histogram
Security       semi-honest, perfect: composition of perfect protocols
How            p and q are divided by their totals only at the end: sum p w / P - sum q w / N
Source         Jeffreys, 1946; information value and weight of evidence: Siddiqi, Credit Risk Scorecards, 2006
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.errors import RangeError
from mpc.functions.reciprocal import reciprocal
from mpc.party import Party
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps
from mpc.shares import AShare, concatenate, stack
from secure_tree.functions.curves import logarithm

# A weight of evidence is below 2^5, and a sum of as many at MARGIN_SCALE must fit a word.
MOST_BITS = 36


def divergence(party: Party, p: AShare, q: AShare, bits: int) -> Steps[tuple[AShare, AShare]]:
    """[p], [q], integers [d, k] with sums below 2^bits -> [divergence], [d], and [w], [d, k], at MARGIN_SCALE.

    The divergence of a histogram without rows is meaningless. Raises RangeError.
    """
    d, k = p.shape
    if bits > MOST_BITS:
        raise RangeError(
            f"counts must be below 2^{MOST_BITS}, got up to 2^{bits}: explore fewer rows, or smaller weights"
        )
    high = max(2, bits - 1)
    cells = stack([p, q])
    totals = cells.sum(axis=2)
    logs = yield from logarithm(party, concatenate([cells.reshape(-1), totals.reshape(-1)]), 0, high)
    of_cells, of_totals = logs[: cells.size].reshape(2, d, k), logs[cells.size :].reshape(2, d, 1)
    apart = of_cells.map(lambda w: w - of_totals.words)
    woe = apart[0] - apart[1]
    products = yield from multiply.steps(party, cells, woe.map(lambda w: np.broadcast_to(w, cells.shape)))
    means = yield from quotients(party, products.sum(axis=2), totals, bits)
    return means[0] - means[1], woe


def quotients(party: Party, sums: AShare, totals: AShare, bits: int) -> Steps[AShare]:
    """[x], [y], integers 1 <= y < 2^bits -> [x / y] at the scale of x, within 2^-16 of it and two units.

    |x / y| < 2^(61 - bits) units.
    """
    inverse, power = yield from reciprocal.steps(party, totals, 0, max(2, bits - 1))
    # Between x / y and twice it; the inverse undoes that.
    scaled = yield from multiply.steps(party, sums, power)
    rough = yield from truncate.steps(party, scaled, power.scale)
    found = yield from multiply.steps(party, rough, inverse)
    return (yield from truncate.steps(party, found, inverse.scale))
