"""Functions of a shared number: quadratics between public knots, and the logarithm of an integer of any magnitude.

quadratics     [x] at MARGIN_SCALE -> [f(x)], by default at the same scale. If f ends as a line, |x| <= MARGIN_LIMIT;
               otherwise x may be anything in the range of the comparison. Two rounds compare x with all knots on one
               opening and compute x^2 in parallel; then two products and one truncation
logarithm      [x] -> [ln x] at MARGIN_SCALE within 1.2e-5; within 5e-6 if x has at most 18 significant bits

The coefficients are the same integers at both parties (secure_tree/functions/curve_tables.py).
Security       semi-honest, perfect: composition of perfect protocols
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import to_ring
from mpc.comparison.comparison import below
from mpc.functions.reciprocal import MANTISSA, normalise
from mpc.party import Party
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, stack
from mpc.words import U64
from secure_tree.functions import curve_tables
from secure_tree.public.exact import ln
from secure_tree.public.numerics import MARGIN_SCALE

# Metrics clip margins to this: e^-1024 is 0 in float64 as well.
MARGIN_LIMIT = 1 << 10
MARGIN_BITS = MARGIN_LIMIT.bit_length() + MARGIN_SCALE + 1
SQUARE_SCALE = 14
SUM_SCALE = 50
# The exponential is finer, because it is small in most of its range, and is at most 2.02.
EXP_SUM_SCALE, EXP_SCALE = 58, 28
# The derivatives of the pseudo-Huber loss are likewise at most 2; the loss becomes a line.
LOSS_SUM_SCALE = 40
# The logarithm is of a mantissa of 17 bits, whose square is exact.
LOG_SUM_SCALE, LOG_SQUARE_SCALE = 58, 19


@dataclass(frozen=True)
class Curve:
    """A piecewise quadratic function, 0 before the first knot.

    knots: [k + 1] at MARGIN_SCALE. steps: the changes of the coefficients of 1, x and x^2 at each knot, at `scales`.
    scale: that of the sum of the three terms. square: that of x before it is squared. coarse: the low bits that are
    ignored when x is compared with the knots, which are multiples of 2^coarse; just above a knot, x may then count as
    below it.
    """

    knots: list[int]
    steps: np.ndarray
    scale: int = SUM_SCALE
    square: int = SQUARE_SCALE
    coarse: int = 0

    @classmethod
    def of(
        cls,
        knots: Sequence[int],
        pieces: list[list[int]],
        constant: int = 0,
        slope: int = 0,
        scale: int = SUM_SCALE,
        square: int = SQUARE_SCALE,
        coarse: int = 0,
    ) -> Curve:
        """Join the pieces. From the last knot on the function is `constant` + `slope` x, at the scales of 1 and x."""
        coefficients = np.array([[0, 0, 0], *pieces, [constant, slope, 0]])
        return cls(list(knots), np.diff(coefficients.T), scale, square, coarse)

    @property
    def scales(self) -> tuple[int, int, int]:
        """The scales of the coefficients of 1, x and x^2."""
        return self.scale, self.scale - MARGIN_SCALE, self.scale - 2 * self.square


BOUND = 12
# log(1 + e^x), and 12 + log(1 / (1 + e^-x)) with x clipped at +-12 as in mpc/functions/sigmoid.py.
SOFTPLUS = Curve.of(curve_tables.KNOTS, curve_tables.SOFTPLUS, slope=1 << SUM_SCALE - MARGIN_SCALE)
LOG_SIGMOID = Curve.of(curve_tables.KNOTS, curve_tables.LOG_SIGMOID, constant=BOUND << SUM_SCALE)
# The exponential, constant from EXP_LAST on, and 0 where it is below 2^-20.
EXP_LAST = curve_tables.EXP_KNOTS[-1] / (1 << MARGIN_SCALE)
EXP = Curve.of(curve_tables.EXP_KNOTS, curve_tables.EXP, constant=curve_tables.EXP_BEYOND, scale=EXP_SUM_SCALE)
# The exponential of numbers below 1/2, for softmax, and 0 where it is below e^-12.
SOFT_EXP = Curve.of(
    curve_tables.SOFT_KNOTS,
    curve_tables.SOFT_EXP,
    constant=curve_tables.SOFT_BEYOND,
    scale=EXP_SUM_SCALE,
    coarse=curve_tables.SOFT_COARSE,
)
# The pseudo-Huber loss sqrt(1 + x^2) - 1, plus 1 + x, and its derivatives, the first plus 1.
HUBER_LOSS = Curve.of(
    curve_tables.HUBER_KNOTS, curve_tables.HUBER_LOSS, 0, 2 << LOSS_SUM_SCALE - MARGIN_SCALE, LOSS_SUM_SCALE
)
HUBER_SLOPE = Curve.of(
    curve_tables.HUBER_KNOTS, curve_tables.HUBER_SLOPE, constant=2 << EXP_SUM_SCALE, scale=EXP_SUM_SCALE
)
HUBER_CURVATURE = Curve.of(curve_tables.HUBER_KNOTS, curve_tables.HUBER_CURVATURE, scale=EXP_SUM_SCALE)
LOG = Curve.of(curve_tables.LOG_KNOTS, curve_tables.LOG, scale=LOG_SUM_SCALE, square=LOG_SQUARE_SCALE)


def quadratics(
    party: Party, x: AShare, curve: Curve, bits: int = MARGIN_BITS, scale: int = MARGIN_SCALE
) -> Steps[AShare]:
    """[x] at MARGIN_SCALE -> [f(x)] at `scale`, [n]; |x| < 2^(bits - 2) units. Five rounds.

    Errors: 1e-4 for SOFTPLUS and LOG_SIGMOID. EXP: a relative error of 1e-3 at most, with a mean below 1.2e-4, plus
    2e-7 and one unit of the scale. HUBER_LOSS: 2e-5, and 1e-4 of x. SOFT_EXP: relative 5e-3 at most,
    1e-3 above -5, 1e-4 in the mean. The others: see `both_quadratics`.
    """
    return (yield from both_quadratics(party, x, [curve], bits, scale))[0]


def both_quadratics(party: Party, x: AShare, curves: Sequence[Curve], bits: int, scale: int) -> Steps[AShare]:
    """[x] at MARGIN_SCALE -> [f(x)] of curves with the same knots and scales, [curves, n]; see `quadratics`.

    Errors: HUBER_SLOPE 2e-4; HUBER_CURVATURE 4e-4, and 5% of it plus 2e-8; 2e-6 in the mean.
    """
    curve = curves[0]
    coarse = x.map(lambda w: w >> U64.type(curve.coarse)).at_scale(0) if curve.coarse else x
    knots = [knot >> curve.coarse for knot in curve.knots]
    rough, low = yield from parallel(
        truncate.steps(party, x, MARGIN_SCALE - curve.square),
        below.steps(party, coarse, knots, bits - curve.coarse),
    )
    square, reached = yield from parallel(multiply.steps(party, rough, rough), to_ring.steps(party, ~low))
    # Beyond the pieces the square of x may wrap around, but its coefficient is exactly 0 there.
    constant, slope, curved = (
        stack([reached.times(each.steps[power], fine).sum(axis=-1) for each in curves])
        for power, fine in enumerate(curve.scales)
    )
    linear, quadratic = yield from parallel(
        multiply.steps(party, slope, stack([x] * len(curves))),
        multiply.steps(party, curved, stack([square] * len(curves))),
    )
    return (yield from truncate.steps(party, constant + linear + quadratic, curve.scale - scale))


def logarithm(party: Party, x: AShare, low: int, high: int) -> Steps[AShare]:
    """[x] -> [ln x], [n]: the octave of x, then quadratics on its mantissa. Twelve rounds.

    The integer word of x must be below 2^(high + 1). Words below 2^low count as 2^low.
    """
    octaves = [1 << j for j in range(low + 1, high + 1)]
    mantissa, _, below_octave = yield from normalise.steps(party, x, low, high, also=octaves)
    # The mantissa is below the last knot, 2.
    logs, reached = yield from parallel(
        quadratics(party, mantissa.times(1 << MARGIN_SCALE - MANTISSA, MARGIN_SCALE - MANTISSA), LOG),
        to_ring.steps(party, ~below_octave),
    )
    # Rounded octave by octave, so that the errors of many do not add up.
    logs_of_octaves = [round(j * ln(2) * (1 << MARGIN_SCALE)) for j in range(low - x.scale, high + 1 - x.scale)]
    octave = reached.times(np.diff(logs_of_octaves), MARGIN_SCALE).sum(axis=-1)
    return logs + octave + logs_of_octaves[0]
