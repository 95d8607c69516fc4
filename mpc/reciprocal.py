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

import numpy as np

from mpc.beaver import multiply
from mpc.bit_product import select
from mpc.comparison import below
from mpc.contract import Cost, protocol
from mpc.party import Party, Steps
from mpc.shares import AShare, public_ring, stack
from mpc.truncation import floor

MANTISSA = 17
START_SCALE = 5
START_CONSTANT = round(24 / 17 * 2 ** (MANTISSA + START_SCALE))
START_SLOPE = round(8 / 17 * 2**START_SCALE)


def _cost(x: AShare, lo: int, hi: int) -> Cost:
    octaves = np.empty((*x.shape, hi - lo + 1, 1), np.uint8)
    factors = stack([x, x], axis=-1).reshape(*x.shape, 1, 2)
    bits = (
        below.cost(x, range(octaves.shape[-2]), hi + 2).bits[0]
        + select.cost(octaves, factors).bits[0]
        + (floor.cost(x, 1).bits[0] if hi > MANTISSA else 0)
        + 4 * multiply.cost(x, x).bits[0]
        + 2 * floor.cost(x, 1).bits[0]
    )
    return Cost(2 + 1 + (3 if hi > MANTISSA else 0) + 10, (bits, bits))


@protocol(cost=_cost)
def reciprocal(party: Party, x: AShare, lo: int, hi: int) -> Steps:
    """[x] (read as integers) -> ([y], [s]), scale 0, shape of x; see the header for range and error."""
    x = x.at_scale(0)
    reached = ~(yield from below.steps(party, x, [1 << j for j in range(lo, hi + 1)], hi + 2))
    octave = reached.map(lambda b: b ^ np.concatenate([b[..., 1:], np.zeros_like(b[..., :1])], axis=-1))
    one = public_ring(np.ones(x.shape, np.int64), party.rank)
    factors = stack([one, x], axis=-1).reshape(*x.shape, 1, 2)
    chosen = yield from select.steps(party, octave.reshape(*octave.shape, 1), factors)
    powers = np.array([1 << (hi - j) for j in range(lo, hi + 1)])[:, None]
    scaled = chosen.times(powers).sum(axis=-2)
    s, u = scaled[..., 0], scaled[..., 1]
    wide = hi > MANTISSA
    u = (yield from floor.steps(party, u, hi - MANTISSA)).at_scale(0) if wide else u.times(1 << (MANTISSA - hi))
    y = START_CONSTANT - u.times(START_SLOPE)
    y_scale = MANTISSA + START_SCALE
    for centre, result_scale in ((0, 19), (4, 18)):
        t = yield from multiply.steps(party, u, y)
        one_scale = MANTISSA + y_scale
        # Newton's error is negative, 2^-16.3 at most after two steps: half of it makes it two-sided.
        two = (2 << one_scale) + (centre << max(0, one_scale - 19))
        y = yield from multiply.steps(party, y, two - t)
        y = (yield from floor.steps(party, y, y_scale + one_scale - result_scale)).at_scale(0)
        y_scale = result_scale
    return y, s
