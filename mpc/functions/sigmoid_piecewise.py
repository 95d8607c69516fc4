"""Logistic function in three linear pieces: 0 below -1/2, x + 1/2 between, 1 above.

Functionality  [x] at scale f -> [approximation], [its derivative 1 or 0] at scale f
Error          at most 0.378, at |x| = 1/2: a substitute used in training, not the function itself. Range |x| < 2^61
Messages       one comparison with both ends, then the choice
Security       semi-honest, perfect: composition of perfect protocols
Source         SecureML: Mohassel and Zhang, IEEE S&P 2017
"""

from __future__ import annotations

from mpc.arithmetic.bits import select, to_ring
from mpc.comparison.comparison import below
from mpc.endpoint import Endpoint, Variant
from mpc.protocol.catalogue import BOTH, calls, describe
from mpc.protocol.contract import protocol
from mpc.protocol.evidence import composed
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, stack


@protocol()
def sigmoid_piecewise(party: Endpoint, x: AShare, by: Variant | None = None) -> Steps[tuple[AShare, AShare]]:
    """[x] at scale >= 1 -> ([approximation], [derivative]) at the scale of x."""
    half = 1 << x.scale - 1
    bits = yield from below.steps(party, x, [-half, half + 1], 64, by)
    over = ~bits[..., 1]
    between = ~(bits[..., 0] ^ over)
    line, ends = yield from parallel(
        select.steps(party, between, x + half), to_ring.steps(party, stack([over, between]))
    )
    ends = ends.times(1 << x.scale, x.scale)
    return line + ends[0], ends[1]


describe(
    sigmoid_piecewise,
    samples=calls(lambda i, n: [i.words(-(2**20), 2**20, n, scale=16)], *BOTH),
    priced=calls(lambda i, n: [i.words(0, 1, n, scale=16)], *BOTH, element="value and slope"),
    evidence=composed(below, select, to_ring),
)
