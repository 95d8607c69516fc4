"""Logistic function as in CrypTen: 1 / (1 + exp(-|x|)) with exp by repeated squaring, then the sign.

Functionality  [x] at scale f -> [sigma(x)] at scale f
Error          0.001, from exp(-|x|) as (1 - |x| / 2^8)^(2^8), which is replaced by 0 beyond |x| = 2^7. Kept for
               comparison with mpc/functions/sigmoid.py. Range |x| < 2^61
Messages       sign, |x| and a clip at 2^7; eight squarings with a truncation each; a reciprocal; the choice by sign
Security       semi-honest, perfect: composition of perfect protocols
Source         CrypTen: Knott et al., NeurIPS 2021
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.beaver import square
from mpc.arithmetic.bits import select
from mpc.comparison.comparison import below
from mpc.endpoint import Endpoint, Variant
from mpc.functions.division import divide
from mpc.protocol.catalogue import BOTH, calls, describe
from mpc.protocol.contract import protocol
from mpc.protocol.evidence import composed
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps
from mpc.shares import AShare, public_ring

SQUARINGS = 8
SCALE = 30


@protocol()
def sigmoid_exponential(party: Endpoint, x: AShare, by: Variant | None = None) -> Steps[AShare]:
    """[x] at scale f <= 22 -> [sigma(x)] at scale f."""
    limit = 1 << SQUARINGS - 1 + x.scale
    bits = yield from below.steps(party, x, [0, -limit, limit], 64, by)
    negative, inside = bits[..., 0], bits[..., 1] ^ bits[..., 2]
    size = x - (yield from select.steps(party, negative, x)).times(2)
    near = yield from select.steps(party, inside, limit - size)
    # 1 - |x| / 2^8, or 1/2 outside the range: its 2^8-th power is 0.
    power = near.times(1 << SCALE - SQUARINGS - x.scale, SCALE - x.scale) + (1 << SCALE - 1)
    for _ in range(SQUARINGS):
        power = yield from truncate.steps(party, (yield from square.steps(party, power)), SCALE)
    one = public_ring(np.full(x.shape, 1 << SCALE), party.rank, SCALE)
    positive = yield from divide.steps(party, one, power + (1 << SCALE), SCALE, SCALE + 1, x.scale, by)
    return positive + (yield from select.steps(party, negative, (1 << x.scale) - positive.times(2)))


describe(
    sigmoid_exponential,
    samples=calls(lambda i, n: [i.words(-(2**20), 2**20, n, scale=16)], *BOTH),
    priced=calls(lambda i, n: [i.words(0, 1, n, scale=16)], *BOTH, element="value"),
    evidence=composed(below, select, square, truncate, divide),
)
