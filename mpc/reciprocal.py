"""Reciprocal of a shared positive integer as a mantissa and a power of two.

Functionality  [x], 2^lo <= x < 2^(hi + 1) -> [y], [s] with 1 / x = y s 2^-(18 + hi) (1 + error)
Error          |error| <= 2^-16; y is in 2^17 .. 2^18, s is a power of two up to 2^(hi - lo)
               x < 2^lo gives s = 0, so that a quotient by an empty sum is 0; deterministic in x
Range          0 <= lo <= hi <= 44
Messages       octave of x by public thresholds (2 rounds), s and U = s x (1), floor to 18 bits (3), two Newton
               steps of two products and a floor each (10)
Security       semi-honest, perfect: composition of perfect protocols
How            U / 2^hi is in [1, 2); start y = (24 - 8 u) / 17 (6%), y <- y (2 - u y) twice; exact floors in between
               keep every product below 2^62. The last step centres Newton's one-sided error.
Source         Goldschmidt and Newton iterations; normalisation as in Catrina and Saxena, FC 2010
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpc.beaver import multiply
from mpc.bit_product import select
from mpc.comparison import below
from mpc.contract import Cost, in_sequence, protocol
from mpc.party import Party, Steps, Variant
from mpc.shares import AShare, public_ring, stack
from mpc.truncation import floor

MANTISSA = 17
START_SCALE = 5
START_CONSTANT = round(24 / 17 * 2 ** (MANTISSA + START_SCALE))
START_SLOPE = round(8 / 17 * 2**START_SCALE)


def _normalise_cost(x: AShare, lo: int, hi: int, also: Sequence[int] = (), by: Variant = "bits") -> Cost:
    octaves = np.empty((*x.shape, hi - lo + 1, 1), np.uint8)
    factors = stack([x, x], axis=-1).reshape(*x.shape, 1, 2)
    parts = [below.cost(x, range(octaves.shape[-2] + len(also)), hi + 2, by), select.cost(octaves, factors)]
    return in_sequence(*parts, *([floor.cost(x, 1, by)] if hi > MANTISSA else []))


@protocol(cost=_normalise_cost)
def normalise(party: Party, x: AShare, lo: int, hi: int, also: Sequence[int] = (), by: Variant | None = None) -> Steps:
    """[x] -> ([u], [s], <x < t> for t in `also`): u = floor(s x 2^(17 - hi)) in 2^17 .. 2^18, s of the header."""
    x = x.at_scale(0)
    octaves = hi - lo + 1
    compared = yield from below.steps(party, x, [*(1 << j for j in range(lo, hi + 1)), *also], hi + 2, by)
    reached = ~compared[..., :octaves]
    octave = reached.map(lambda b: b ^ np.concatenate([b[..., 1:], np.zeros_like(b[..., :1])], axis=-1))
    one = public_ring(np.ones(x.shape, np.int64), party.rank)
    factors = stack([one, x], axis=-1).reshape(*x.shape, 1, 2)
    chosen = yield from select.steps(party, octave.reshape(*octave.shape, 1), factors)
    powers = np.array([1 << (hi - j) for j in range(lo, hi + 1)])[:, None]
    scaled = chosen.times(powers).sum(axis=-2)
    s, u = scaled[..., 0], scaled[..., 1]
    if hi > MANTISSA:
        u = (yield from floor.steps(party, u, hi - MANTISSA, by)).at_scale(0)
    else:
        u = u.times(1 << (MANTISSA - hi))
    return u, s, compared[..., octaves:]


def _invert_cost(u: AShare, by: Variant = "bits") -> Cost:
    return in_sequence(*[multiply.cost(u, u)] * 4, *[floor.cost(u, 1, by)] * 2)


@protocol(cost=_invert_cost)
def invert(party: Party, u: AShare, by: Variant | None = None) -> Steps:
    """[u] in 2^17 .. 2^18 -> [y], 2^35 / u with relative error 2^-16, less what u was floored by."""
    y = START_CONSTANT - u.times(START_SLOPE)
    y_scale = MANTISSA + START_SCALE
    for centre, result_scale in ((0, 19), (4, 18)):
        t = yield from multiply.steps(party, u, y)
        one_scale = MANTISSA + y_scale
        # Newton's error is negative, 2^-16.3 at most after two steps: half of it makes it two-sided.
        two = (2 << one_scale) + (centre << max(0, one_scale - 19))
        y = yield from multiply.steps(party, y, two - t)
        y = (yield from floor.steps(party, y, y_scale + one_scale - result_scale, by)).at_scale(0)
        y_scale = result_scale
    return y


@protocol(cost=lambda x, lo, hi, by="bits": in_sequence(normalise.cost(x, lo, hi, by=by), invert.cost(x, by)))
def reciprocal(party: Party, x: AShare, lo: int, hi: int, by: Variant | None = None) -> Steps:
    """[x] (read as integers) -> ([y], [s]), scale 0, shape of x; see the header for range and error."""
    u, s, _ = yield from normalise.steps(party, x, lo, hi, by=by)
    y = yield from invert.steps(party, u, by)
    return y, s
