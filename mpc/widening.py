"""Extension of a shared integer from Z_2^32 to Z_2^64.

Functionality  [x] mod 2^32 -> [x] mod 2^64, |x| < 2^30
Messages       one masked bit of mpc/wrap.py                                  (one round)
Cost           |x| payload bits each way; offline: [beta_0 beta_1] modulo 2^32, 32 |x| bits
Security       semi-honest, perfect: the message is a one-time pad
How            x + 2^30 < 2^31, so that the wrap of its shares is told by their top bits; x = x_0 + x_1 - 2^32 w
Source         as mpc/wrap.py
"""

from __future__ import annotations

from mpc.catalogue import calls, describe
from mpc.contract import Cost, both, protocol
from mpc.endpoint import Endpoint
from mpc.evidence import Enumerated, Window, in_half_range, signed, word
from mpc.ring import U32
from mpc.rings import Z32
from mpc.rounds import Steps
from mpc.shares import AShare
from mpc.wrap import add_halves, wire_bits

OFFSET_32 = 1 << 30


@protocol(cost=lambda x: Cost(1, both(wire_bits(x.size))))
def widen(party: Endpoint, x: AShare) -> Steps[AShare]:
    """[x] in Z_2^32 -> [x] in Z_2^64, same shape and scale."""
    words = yield from add_halves(party, x, OFFSET_32, 0, 32, -OFFSET_32)
    return AShare(words.reshape(x.shape), party.rank, x.scale)


def _widened(k: int) -> Enumerated:
    return Enumerated(
        f"the {k} top bits",
        (word(k, dtype=U32, low=32 - k),),
        lambda x: signed(x, k),
        draws=[Window(1), Window(1), Window(2)],
        output=Window(k + 2, 32 - k),
        promise=in_half_range(k),
        fresh=False,
    )


describe(
    widen,
    samples=calls(lambda i, n: [i.words(-(2**29), 2**29, n, ring=Z32)]),
    priced=calls(lambda i, n: [i.words(0, 1, n, ring=Z32)], element="word"),
    evidence=[_widened(k) for k in (3, 8)],
)
