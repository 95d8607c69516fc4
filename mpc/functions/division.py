"""Division of shared integers.

Functionality  [x], [y] -> [floor(x / y 2^scale)], 2^lo <= y < 2^(hi + 1); 0 where y < 2^lo
Error          relative 2^-16 of the quotient, and one unit of the result
Range          |x / y| < 2^q and q + hi + 18 <= 61; hi - lo = 20 covers six decades of y with quotients up to about 2^15
Messages       a reciprocal, with x s computed alongside; one product; one floor
Security       semi-honest, perfect: composition of perfect protocols
Source         see mpc/functions/reciprocal.py
"""

from __future__ import annotations

from mpc.arithmetic.beaver import multiply
from mpc.errors import RangeError, ScaleMismatch
from mpc.functions.reciprocal import invert, normalise
from mpc.protocol import AShare, Endpoint, Steps, calls, composed, describe, parallel, protocol
from mpc.rounding.truncation import floor

MANTISSA = 18


@protocol()
def divide(party: Endpoint, x: AShare, y: AShare, lo: int, hi: int, scale: int) -> Steps[AShare]:
    """[x], [y] of one shape and scale -> [x / y] at `scale` < hi + 18.

    Raises RangeError, ScaleMismatch, ShapeMismatch.
    """
    if x.scale != y.scale:
        raise ScaleMismatch(f"cannot divide scale {x.scale} by scale {y.scale}")
    shift = MANTISSA + hi - scale
    if shift < 1:
        raise RangeError(f"the scale of the quotient must be below {MANTISSA + hi}, got {scale}")
    u, s, _ = yield from normalise.steps(party, y, lo, hi)
    inverse, scaled = yield from parallel(invert.steps(party, u), multiply.steps(party, x, s))
    product = yield from multiply.steps(party, scaled, inverse)
    return (yield from floor.steps(party, product, shift))


describe(
    divide,
    samples=calls(lambda i, n: [i.words(1, 2**15, n), i.words(1, 2**15, n), 4, 15, 9]),
    priced=calls(lambda i, n: [i.words(0, 1, n), i.words(0, 1, n), 0, 19, 16], element="quotient by 1 .. 2^20"),
    evidence=composed(normalise, invert, multiply, floor),
)
