"""Functions of a shared number: quadratics between public knots, and the logarithm of an integer of any magnitude.

quadratics     [x] at MARGIN_SCALE -> [f(x)] at MARGIN_SCALE; |x| < 2^11 where f is the last quadratic, a line.
               Comparison with every knot on one opening (2 rounds), x^2 alongside; two products; one truncation
logarithm      [x], 2^low <= x < 2^(high + 1) -> [ln x] at MARGIN_SCALE within 1e-4

Security       semi-honest, perfect: composition of perfect protocols
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpc.beaver import multiply
from mpc.bit_product import to_ring
from mpc.comparison import below
from mpc.party import Party
from mpc.reciprocal import MANTISSA, normalise
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, stack
from mpc.truncation import truncate
from secure_tree.numerics import MARGIN_SCALE

MARGIN_BITS = 48
SQUARE_SCALE = 14
SUM_SCALE = 50


@dataclass(frozen=True)
class Curve:
    """knots [k + 1] at MARGIN_SCALE; steps: by how much the coefficients of 1, x, x^2 change at each knot.

    Before the first knot the function is 0.
    """

    knots: list[int]
    steps: tuple[np.ndarray, np.ndarray, np.ndarray]

    @classmethod
    def of(
        cls,
        function: Callable[[np.ndarray], np.ndarray],
        first: float,
        last: float,
        pieces: int,
        beyond: tuple[float, float] = (0.0, 0.0),
    ) -> Curve:
        """Quadratics through both ends and the middle of each piece; beyond the last knot beyond[0] + beyond[1] x."""
        knots = np.linspace(first, last, pieces + 1)
        places = np.stack([knots[:-1], (knots[1:] + knots[:-1]) / 2, knots[1:]], axis=1)
        inner = np.linalg.solve(places[:, :, None] ** np.arange(3), function(places)[:, :, None])[:, :, 0]
        coefficients = np.concatenate([np.zeros((1, 3)), inner, [[*beyond, 0.0]]])
        scales = SUM_SCALE, SUM_SCALE - MARGIN_SCALE, SUM_SCALE - 2 * SQUARE_SCALE
        rounded = [np.round(c * 2.0**scale).astype(int) for c, scale in zip(coefficients.T, scales, strict=True)]
        constant, slope, curve = (np.diff(c) for c in rounded)
        return cls(np.round(knots * (1 << MARGIN_SCALE)).astype(int).tolist(), (constant, slope, curve))


BOUND = 12
# log(1 + e^x), and 12 + log(1 / (1 + e^-x)) with x clipped at +-12, as mpc/sigmoid.py clips it.
SOFTPLUS = Curve.of(lambda x: np.logaddexp(0, x), -BOUND, BOUND, 64, beyond=(0.0, 1.0))
LOG_SIGMOID = Curve.of(lambda x: BOUND - np.logaddexp(0, -x), -BOUND, BOUND, 64, beyond=(float(BOUND), 0.0))
# The exponential up to EXP_LAST, and constant from there; 0 below 2^-20.
EXP_LAST = 0.7
EXP = Curve.of(np.exp, -14.5, EXP_LAST, 64, beyond=(float(np.exp(EXP_LAST)), 0.0))
_LOG = Curve.of(np.log, 1, 2, 16)


def quadratics(party: Party, x: AShare, curve: Curve) -> Steps:
    """[x] -> [f(x)], both at MARGIN_SCALE, [n]. Five rounds.

    SOFTPLUS and LOG_SIGMOID are within 1e-4, EXP within 2e-4 of its value and 3e-5.
    """
    rough, low = yield from parallel(
        truncate.steps(party, x, MARGIN_SCALE - SQUARE_SCALE), below.steps(party, x, curve.knots, MARGIN_BITS)
    )
    rough = rough.at_scale(0)
    square, reached = yield from parallel(multiply.steps(party, rough, rough), to_ring.steps(party, ~low))
    # Where x is beyond the pieces its square may wrap around, and its coefficient is exactly 0.
    constant, slope, curved = (reached.times(step).sum(axis=-1) for step in curve.steps)
    products = yield from multiply.steps(party, stack([slope, curved]), stack([x, square]))
    total = constant + products.sum(axis=0)
    return (yield from truncate.steps(party, total, SUM_SCALE - MARGIN_SCALE)).at_scale(0)


def logarithm(party: Party, x: AShare, low: int, high: int) -> Steps:
    """[x] -> [ln x], [n]; the octave of x, then quadratics on its mantissa. Twelve rounds."""
    octaves = [1 << j for j in range(low + 1, high + 1)]
    mantissa, _, below_octave = yield from normalise.steps(party, x, low, high, also=octaves)
    # The mantissa is below 2, the last knot.
    logs, reached = yield from parallel(
        quadratics(party, mantissa.times(1 << MARGIN_SCALE - MANTISSA), _LOG),
        to_ring.steps(party, ~below_octave),
    )
    octave = reached.sum(axis=-1) + low
    return logs + octave.times(round(np.log(2) * (1 << MARGIN_SCALE)))
