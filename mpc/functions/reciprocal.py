"""Reciprocal of a shared positive integer as a mantissa and a power of two.

Functionality  [x], 2^lo <= x < 2^(hi + 1) -> [y], [s] with 1 / x = y s 2^-(18 + hi) (1 + error)
Error          |error| <= 2^-16; y is in 2^17 .. 2^18, s is a power of two up to 2^(hi - lo)
               x < 2^lo gives s = 0, so that a quotient by an empty sum is 0; deterministic in x
Range          0 <= lo <= hi <= 44
Messages       octave of x by public thresholds (2 rounds), s and U = s x (1), floor to 18 bits (2); twice a Newton
               step on one opened word (1) and a floor (2)
Security       semi-honest, perfect: every message is a one-time pad
How            u = U / 2^hi is in [1, 2). Start with y = (24 - 8 u) / 17 (6% error), then y <- 2 y - u y^2 twice. The
               dealer shares the monomials of the masks a of u and b of y up to a^3 and a b^2, so that a cubic takes one
               round, and u is opened once for both steps. Exact floors in between keep every product below 2^62. The
               last step centres Newton's one-sided error.
Source         Goldschmidt and Newton iterations; normalisation as in Catrina and Saxena, FC 2010; products of any
               degree on one opening: Ohata and Nuida, FC 2020
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mpc.arithmetic.bits import select
from mpc.arithmetic.public_factor import choose
from mpc.comparison.comparison import below
from mpc.endpoint import Endpoint
from mpc.kernels import products
from mpc.offline.correlation import Recipe, View, correlation
from mpc.offline.recipes import Later, Product
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import protocol
from mpc.protocol.evidence import Argued, composed
from mpc.rings import Z32, Z64
from mpc.rounding.truncation import floor, shift_right, truncate
from mpc.rounding.widening import widen
from mpc.rounds import Steps, open_shares, parallel
from mpc.shares import AShare, BShare
from mpc.words import Shape

MANTISSA = 17
START_SCALE = 5
START_CONSTANT = round(24 / 17 * 2 ** (MANTISSA + START_SCALE))
START_SLOPE = round(8 / 17 * 2**START_SCALE)
NEWTON_SCALE, RESULT_SCALE = 19, 18
NEWTON_SHIFT = 2 * (MANTISSA + START_SCALE) + MANTISSA - NEWTON_SCALE
LAST_SHIFT = 2 * NEWTON_SCALE + MANTISSA - RESULT_SCALE


def leading_power(short: BShare) -> BShare:
    """<x < 2^j> for ascending j along the last axis -> <2^j is the highest of these powers that is <= x>. Local."""
    reached = ~short
    return reached.map(lambda b: b ^ np.concatenate([b[..., 1:], np.zeros_like(b[..., :1])], axis=-1))


@protocol()
def normalise(
    party: Endpoint,
    x: AShare,
    lo: int,
    hi: int,
    also: Sequence[int] = (),
    exact: bool = True,
) -> Steps[tuple[AShare, AShare, BShare]]:
    """[x] -> ([u], [s], <x < t> for t in `also`): u = floor(s x 2^(17 - hi)) in 2^17 .. 2^18, s of the header.

    Octaves and thresholds refer to the integers behind x. u is at scale 17, in 1 .. 2, and s at scale hi minus that of
    x, so that the reciprocal of the number that x stands for is s / u. Words of 32 bits, below 2^30, are widened beside
    the comparison; then hi is at most 29.
    """
    octaves = hi - lo + 1
    comparing = below.steps(party, x, [*(1 << j for j in range(lo, hi + 1)), *also], hi + 2)
    if x.ring == Z32:
        compared, x = yield from parallel(comparing, widen.steps(party, x))
    else:
        compared = yield from comparing
    powers = [1 << (hi - j) for j in range(lo, hi + 1)]
    s, u = yield from choose.steps(party, leading_power(compared[..., :octaves]), x, powers)
    s, u = s.at_scale(hi - x.scale), u.at_scale(hi)
    if hi > MANTISSA:
        u = yield from shift_right(party, u, hi - MANTISSA, exact)
    else:
        u = u.times(1 << (MANTISSA - hi), MANTISSA - hi)
    return u, s, compared[..., octaves:]


@correlation
class NewtonMasks:
    """[a], [b] and their monomials [a^2], [a^3], [a b], [b^2], [a b^2] in Z_2^64."""

    shape: Shape

    def deal(self, view: View) -> tuple[np.ndarray, ...]:
        a, b = (view.mask(Z64, (math.prod(self.shape),)) for _ in range(2))

        def derived(recipe: Recipe) -> np.ndarray:
            return view.derived(Z64, a.shape, recipe)

        aa = derived(Product(Z64, a, a))
        aaa, ab = derived(Later(Product(Z64, aa, a))), derived(Product(Z64, a, b))
        bb = derived(Product(Z64, b, b))
        return a, b, aa, aaa, ab, bb, derived(Later(Product(Z64, ab, b)))


def _apart(party: Endpoint, first: AShare, second: AShare, u: AShare, exact: bool = True) -> Steps[AShare]:
    """Return the difference of two reciprocals, or 0 where u is 0: x was too small, and has no reciprocal."""
    none = yield from below.steps(party, u, [1], MANTISSA + 3)
    return (yield from select.steps(party, ~none[..., 0], first - second))


@protocol(exact=lambda u, exact=True: exact, near=_apart, elementwise=True)
def invert(party: Endpoint, u: AShare, exact: bool = True) -> Steps[AShare]:
    """[u] in 1 .. 2 at scale 17 -> [y], 1 / u at scale 18, of relative error 2^-16 without the error of flooring u."""
    a, b, aa, aaa, ab, bb, abb = party.randomness.take(NewtonMasks(u.shape))
    first = party.rank == 0
    (d,) = yield from open_shares(u.map(lambda w: w.reshape(-1) - a))
    uu, uuu = (
        AShare(w.reshape(u.shape), party.rank, power * MANTISSA)
        for power, w in enumerate(products.powers(d, a, aa, aaa, first), 2)
    )
    # A step is y <- 2 y - u y^2 over a common scale. The first y is C - S u, so that u y^2 is a cubic in u only.
    one = MANTISSA + START_SCALE
    y = START_CONSTANT - u.times(START_SLOPE, START_SCALE)
    cubic = (
        u.times(START_CONSTANT**2, 2 * one)
        - uu.times(2 * START_CONSTANT * START_SLOPE, one + START_SCALE)
        + uuu.times(START_SLOPE**2, 2 * START_SCALE)
    )
    step = y.times(2 << MANTISSA + one, MANTISSA + one) - cubic
    y = yield from shift_right(party, step, NEWTON_SHIFT, exact)
    (e,) = yield from open_shares(y.map(lambda w: w.reshape(-1) - b))
    words = products.product_with_square(d, e, a, b, ab, bb, abb, first).reshape(u.shape)
    uyy = AShare(words, party.rank, MANTISSA + 2 * NEWTON_SCALE)
    # Newton's error is negative, at most 2^-16.3 after two steps; adding half of that makes it two-sided.
    two = (2 << MANTISSA + NEWTON_SCALE) + (4 << MANTISSA)
    return (yield from shift_right(party, y.times(two, MANTISSA + NEWTON_SCALE) - uyy, LAST_SHIFT, exact))


@protocol()
def reciprocal(party: Endpoint, x: AShare, lo: int, hi: int, exact: bool = True) -> Steps[tuple[AShare, AShare]]:
    """[x] -> ([y], [s]) with 1 / x = y s, each at its scale, shape of x; see the header for range and error.

    With `exact` False, rounding is random instead of down: fewer rounds and far fewer bytes from the dealer, but an
    error of up to 2^-15, and a result that differs from run to run.
    """
    u, s, _ = yield from normalise.steps(party, x, lo, hi, (), exact)
    y = yield from invert.steps(party, u, exact)
    return y, s


describe(
    normalise,
    samples=calls(lambda i, n: [i.words(1, 2**19, n), 4, 20, [77]])
    + calls(lambda i, n: [i.words(1, 2**19, n, ring=Z32), 4, 20, [77]]),
    priced=calls(lambda i, n: [i.words(0, 1, n), 0, 19], element="word in 1 .. 2^20"),
    evidence=composed(below, choose, floor, truncate, widen),
)
describe(
    invert,
    samples=calls(lambda i, n: [i.words(2**17, 2**18, n, scale=MANTISSA)]),
    priced=calls(lambda i, n: [i.words(0, 1, n, scale=MANTISSA)], element="mantissa"),
    evidence=[
        Argued(
            "its words have 64 bits; it opens u and y as a product does, and rounds down by floor",
            "perfect: every message is a one-time pad",
        )
    ],
)
describe(
    reciprocal,
    samples=calls(lambda i, n: [i.words(1, 2**15, n), 4, 15], {}, {"exact": False}),
    priced=calls(lambda i, n: [i.words(0, 1, n), 0, 19], element="word in 1 .. 2^20")
    + calls(lambda i, n: [i.words(0, 1, n), 0, 19], {"exact": False}, element="word in 1 .. 2^20, rounded at random"),
    evidence=composed(normalise, invert, truncate),
)
