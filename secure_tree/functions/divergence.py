"""Divergence of shared histograms: information value, weight of evidence and stability index.

Functionality  [p], [q], counts by bin -> [sum (p/P - q/N) w], and the weights of evidence [w = ln (p/P) / (q/N)]
Error          1e-5 of w and of the divergence for up to 2^20 rows; 1e-4 for 2^24
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
from mpc.functions.division import MANTISSA, divide
from mpc.party import Party
from mpc.rounds import Steps
from mpc.shares import AShare, concatenate, stack
from secure_tree.functions.curves import logarithm
from secure_tree.public.numerics import MARGIN_SCALE

# The bits of a quotient in units, with room for a weight of evidence of 31.
_QUOTIENT_BITS, _WOE_BITS = 61, 5
MOST_BITS = 26


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
    totals = stack([p.sum(axis=1), q.sum(axis=1)])
    cells = stack([p, q])
    logs = yield from logarithm(party, concatenate([cells.reshape(-1), totals.reshape(-1)]), 0, high)
    of_cells, of_totals = logs[: cells.size].reshape(2, d, k), logs[cells.size :].reshape(2, d, 1)
    apart = of_cells.map(lambda w: w - of_totals.words)
    woe = apart[0] - apart[1]
    products = yield from multiply.steps(party, cells, woe.map(lambda w: np.broadcast_to(w, cells.shape)))
    # The means are at MARGIN_SCALE, less what their quotients have no room for.
    less = max(0, MARGIN_SCALE + _WOE_BITS + high + MANTISSA - _QUOTIENT_BITS)
    sums = products.sum(axis=2).at_scale(0)
    means = yield from divide.steps(party, sums, totals.times(1 << less), less, high + less, 0)
    return (means[0] - means[1]).times(1 << less).at_scale(MARGIN_SCALE), woe
