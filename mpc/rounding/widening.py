"""Extension of a shared integer from Z_2^b to Z_2^64.

Functionality  [x] mod 2^b -> [x] mod 2^64, |x| < 2^(b-2)
Messages       one masked bit of mpc/rounding/wrap.py                                  (one round)
Cost           |x| payload bits each way; offline: [beta_0 beta_1] modulo 2^(64-b), (64 - b) |x| bits
Security       semi-honest, perfect: the message is a one-time pad
How            x + 2^(b-2) < 2^(b-1), so the top bits of its shares determine the wrap w; x = x_0 + x_1 - 2^b w.
               Shares in wider words are first shifted to the top of the word
Source         see mpc/rounding/wrap.py
"""

from __future__ import annotations

from mpc.endpoint import Endpoint
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Bits, Enumerated, in_half_range, signed, word
from mpc.rings import Z32
from mpc.rounding.wrap import add_halves, wire_bits
from mpc.rounds import Steps
from mpc.shares import AShare
from mpc.words import U32


@protocol(cost=lambda x, bits=None: Cost(1, both(wire_bits(x.size))), elementwise=True)
def widen(party: Endpoint, x: AShare, bits: int | None = None) -> Steps[AShare]:
    """[x] modulo 2^bits, by default the width of its words, at most 63 -> [x] in Z_2^64, same shape and scale."""
    width = x.ring.bits
    bits = bits or width
    down = width - bits
    top = x.map(lambda w: w << w.dtype.type(down))
    words = yield from add_halves(party, top, 1 << width - 2, down, bits, -(1 << bits - 2))
    return AShare(words.reshape(x.shape), party.rank, x.scale)


def _widened(k: int) -> Enumerated:
    return Enumerated(
        f"the {k} top bits",
        (word(k, dtype=U32, low=32 - k),),
        lambda x: signed(x, k),
        draws=[Bits(1), Bits(1), Bits(2)],
        output=Bits(k + 2, 32 - k),
        promise=in_half_range(k),
        fresh=False,
    )


describe(
    widen,
    samples=calls(lambda i, n: [i.words(-(2**29), 2**29, n, ring=Z32)])
    + calls(lambda i, n: [i.words(-(2**37), 2**37, n), 40]),
    priced=calls(lambda i, n: [i.words(0, 1, n, ring=Z32)], element="word of 32 bits")
    + calls(lambda i, n: [i.words(0, 1, n), 40], element="word of 40 bits"),
    evidence=[
        *(_widened(k) for k in (3, 8)),
        Enumerated(
            "Z_8 in words of 64 bits",
            (word(3), 3),
            lambda x: signed(x, 3),
            draws=[Bits(1), Bits(1), Bits(2)],
            output=Bits(5),
            promise=in_half_range(3),
            fresh=False,
        ),
    ],
)
