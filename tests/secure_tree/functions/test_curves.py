"""Quadratics between knots and the logarithm over their ranges, and the integers of curve_tables.py."""

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np

from protocols.testing.two_parties import opened, ring_half, run_both
from secure_tree.functions import curve_tables
from secure_tree.functions.curves import (
    EXP,
    EXP_LAST,
    EXP_SCALE,
    EXP_SUM_SCALE,
    HUBER_CURVATURE,
    HUBER_LOSS,
    HUBER_SLOPE,
    LOG_SIGMOID,
    LOG_SQUARE_SCALE,
    LOG_SUM_SCALE,
    LOSS_SUM_SCALE,
    MARGIN_BITS,
    MARGIN_LIMIT,
    SOFTPLUS,
    SQUARE_SCALE,
    SUM_SCALE,
    both_quadratics,
    logarithm,
    quadratics,
)
from secure_tree.public.numerics import MARGIN_SCALE

UNIT = 1 << MARGIN_SCALE
ONE = Decimal(1)
DIGITS = 60
# On either side of 0.
HUBER_PIECES = 36
SOFT_PIECES = 27
HEAD = '''"""Integer coefficients of the public curves, the same on every machine.

`python -m tests.secure_tree.functions.test_curves` generates them in exact arithmetic, and the test repeats the
computation. Each triple is a piece of a curve: the coefficients of 1, x and x^2, at scales 50, 30 and 22 (for EXP and
the derivatives of the pseudo-Huber loss 58, 38 and 30, for that loss 40, 20 and 12, for LOG 58, 38 and 20), of the
quadratic through both ends and the middle of the piece.
"""

# fmt: off
'''


def pieces(
    function: Callable[[Decimal], Decimal],
    knots: Sequence[int],
    scale: int = SUM_SCALE,
    square: int = SQUARE_SCALE,
    joined: bool = False,
) -> list[list[int]]:
    """Compute the quadratic of every piece in exact arithmetic, from values with 60 digits.

    If `joined`, the lower coefficients make up for the rounding of the higher ones, which far from 0 matters.
    """
    scales = scale, scale - 20, scale - 2 * square

    def rounded(c: Fraction, s: int) -> Fraction:
        return Fraction(round(c * 2**s), 2**s) if joined else c

    lines = []
    with localcontext(prec=DIGITS):
        for left, right in pairwise(knots):
            ends = Fraction(left, UNIT), Fraction(left + right, 2 * UNIT), Fraction(right, UNIT)
            low, middle, high = (Fraction(function(Decimal(x.numerator) / x.denominator)) for x in ends)
            half = (ends[2] - ends[0]) / 2
            curve = rounded((low - 2 * middle + high) / (2 * half**2), scales[2])
            slope = rounded((high - low) / (2 * half) - 2 * curve * ends[1], scales[1])
            constant = middle - slope * ends[1] - curve * ends[1] ** 2
            lines.append([round(c * 2**s) for c, s in zip((constant, slope, curve), scales, strict=True)])
    return lines


def tables() -> dict[str, list]:
    """Compute the tables of the module, by name."""
    with localcontext(prec=DIGITS):
        # Cuts that divide a Laplace distribution of mean absolute deviation 1.5 into equal parts, at scale 31.
        quantiles = [-Decimal("1.5") * (ONE - Decimal(2 * k - 1) / 129).ln() for k in range(1, 65)]
        cuts = [[round(q * 2**31) for q in quantiles[i : i + 4]] for i in range(0, 64, 4)]
        # From -128 to 128, in equal steps of the inverse hyperbolic sine.
        step = (Decimal(128) + Decimal(128**2 + 1).sqrt()).ln() / HUBER_PIECES
        sines = [((k * step).exp() - (-k * step).exp()) / 2 for k in range(-HUBER_PIECES, HUBER_PIECES + 1)]
        places = [round(sine * UNIT) for sine in sines]
        # From -12 to 1/2, in steps that grow as the exponential falls.
        falls = [
            Decimal("6.75") - Decimal("6.25") * (ONE / SOFT_PIECES * k * Decimal(3).ln()).exp()
            for k in range(SOFT_PIECES + 1)
        ]
        low_bits = curve_tables.SOFT_COARSE
        soft = [round(fall * (UNIT >> low_bits)) << low_bits for fall in reversed(falls)]
        beyond = round((Decimal(curve_tables.EXP_KNOTS[-1]) / UNIT).exp() * 2**EXP_SUM_SCALE)
    huber = {
        "HUBER_LOSS": (lambda x: (1 + x * x).sqrt() + x, LOSS_SUM_SCALE),
        "HUBER_SLOPE": (lambda x: 1 + x / (1 + x * x).sqrt(), EXP_SUM_SCALE),
        "HUBER_CURVATURE": (lambda x: 1 / (1 + x * x).sqrt() ** 3, EXP_SUM_SCALE),
    }
    return {
        "HUBER_KNOTS": places,
        "SOFT_KNOTS": soft,
        "SOFT_EXP": pieces(lambda x: x.exp(), soft, EXP_SUM_SCALE),
        "SOFT_BEYOND": round(Decimal("0.5").exp() * 2**EXP_SUM_SCALE),
        **{name: pieces(function, places, scale, joined=True) for name, (function, scale) in huber.items()},
        "SOFTPLUS": pieces(lambda x: (ONE + x.exp()).ln(), curve_tables.KNOTS),
        "LOG_SIGMOID": pieces(lambda x: 12 - (ONE + (-x).exp()).ln(), curve_tables.KNOTS),
        "EXP": pieces(lambda x: x.exp(), curve_tables.EXP_KNOTS, EXP_SUM_SCALE),
        "EXP_BEYOND": beyond,
        "LOG": pieces(lambda x: x.ln(), curve_tables.LOG_KNOTS, LOG_SUM_SCALE, LOG_SQUARE_SCALE),
        "LAPLACE_CUTS": cuts,
    }


def on_shares(function, words, *arguments, scale=MARGIN_SCALE):
    results, _ = run_both(
        lambda party: party.run(function(party, ring_half(words, party.rank, scale=scale), *arguments))
    )
    return opened(results) / UNIT


def written() -> str:
    """Return the source of the module's tables."""
    knots = {
        "KNOTS": "range(-12 << 20, (12 << 20) + 1, 24 << 14)",
        "EXP_KNOTS": "range(734003 - 64 * 249036, 734003 + 1, 249036)",
        "LOG_KNOTS": "range(1 << 20, (2 << 20) + 1, 1 << 16)",
        "SOFT_COARSE": "13",
    }
    parts = [HEAD, *(f"{name} = {value}\n" for name, value in knots.items())]
    for name, lines in tables().items():
        if isinstance(lines, int):
            parts.append(f"{name} = {lines}\n")
            continue
        rows, many = [str(line) for line in lines], 8 if isinstance(lines[0], int) else 2
        pairs = [", ".join(rows[i : i + many]) for i in range(0, len(rows), many)]
        parts.append(f"{name} = [\n" + "".join(f"    {pair},\n" for pair in pairs) + "]\n")
    return "".join(parts)


def test_the_tables_are_what_exact_arithmetic_gives():
    for name, lines in tables().items():
        assert getattr(curve_tables, name) == lines


def test_quadratics():
    x = np.concatenate([np.linspace(-20, 20, 4001), [-MARGIN_LIMIT, MARGIN_LIMIT]])
    assert np.abs(on_shares(quadratics, np.round(x * UNIT), SOFTPLUS) - np.logaddexp(0, x)).max() < 1e-4
    grown = np.exp(np.minimum(x, EXP_LAST))
    assert (np.abs(on_shares(quadratics, np.round(x * UNIT), EXP) - grown) < 1e-3 * grown + 2e-6).all()
    fine = on_shares(quadratics, np.round(x * UNIT), EXP, MARGIN_BITS, EXP_SCALE) * 2.0 ** (MARGIN_SCALE - EXP_SCALE)
    inside = x > EXP.knots[0] / UNIT
    assert (np.abs(fine - grown)[inside] < 1e-3 * grown[inside] + 2e-7).all() and not fine[~inside].any()
    # The mean error over each octave, where neighbouring pieces err in both directions.
    octave, off = np.floor(x[inside]), fine[inside] / grown[inside] - 1
    for one in np.unique(octave):
        assert abs(off[octave == one].mean()) < 1.2e-4 + 2e-7 * np.exp(-one)
    clipped = 12 - np.logaddexp(0, -np.clip(x, -12, 12))
    assert np.abs(on_shares(quadratics, np.round(x * UNIT), LOG_SIGMOID) - clipped).max() < 1e-4


def test_the_pseudo_huber_loss():
    x = np.concatenate([np.sinh(np.linspace(-5.54, 5.54, 8001)), [0, -(2.0**19), 2.0**19]])
    words = np.round(x * UNIT)
    x = words / UNIT
    root = np.hypot(1, x)
    both = on_shares(both_quadratics, words, [HUBER_SLOPE, HUBER_CURVATURE], 43, EXP_SCALE) / 2.0**8
    assert np.abs(both[0] - 1 - x / root).max() < 2e-4
    off = np.abs(both[1] - root**-3)
    assert off.max() < 4e-4 and (off < 0.05 * root**-3 + 2e-8)[:-2].all() and (both[1] >= -(2.0**-EXP_SCALE)).all()
    # On average, pieces err as much upwards as downwards.
    assert abs((both[0] - 1 - x / root).mean()) < 2e-6 and abs((both[1] - root**-3).mean()) < 2e-6
    loss = on_shares(quadratics, words, HUBER_LOSS, 43) - 1 - x
    assert (np.abs(loss - x**2 / (1 + root)) < 2e-5 + 1e-4 * np.abs(x)).all()


def test_logarithm():
    x = np.unique(np.round(np.geomspace(1 << 6, (1 << 29) - 1, 3000)).astype(int))
    off = np.abs(on_shares(logarithm, x, 6, 28, scale=0) - np.log(x))
    assert off.max() < 1.2e-5 and off[x < 1 << 18].max() < 5e-6


def test_the_logarithm_of_few_is_that_of_the_least():
    x = np.array([0, 1, 2, 63, 64])
    for low in (0, 1, 6):
        found = on_shares(logarithm, x, low, 20, scale=0)
        assert np.abs(found - np.log(np.maximum(x, 1 << low))).max() < 1e-5


if __name__ == "__main__":
    Path(curve_tables.__file__).write_text(written())
