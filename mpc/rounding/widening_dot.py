"""Inner products of integers shared in Z_2^32 with words of a wider ring: widening and product on one opening.

Functionality  [x] in Z_2^32, |x| < 2^30, and [y] in Z_2^64, k > 32 -> [sum of x y along the last axis] in Z_2^k
Messages       x + 2^30 - a modulo 2^32, y - b modulo 2^k                                      (one round)
Cost           32 |x| + k |y| bits each way; offline: k bits per sum, and 3 (k - 32) bits per product
Security       semi-honest, perfect: every message is a one-time pad
How            let z = x + 2^30 - a be opened, and x + 2^30 be below 2^31. As an integer it is z + a, less 2^32 if the
               top bit of z or that of a is 1. The dealer shares a as an integer, the top bit t of a, a b and t b
Source         wrap by known top bits: Rathee et al. (SIRNN), IEEE S&P 2021; on the mask of a product: ours
"""

from __future__ import annotations

import numpy as np

from mpc.endpoint import Endpoint
from mpc.offline.correlation import View, correlation, private_to_each
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Argued
from mpc.rings import Z32, Z2k, integers
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, product_scale
from mpc.words import U32, U64, Shape, low_bits, packed_size

OFFSET = 1 << 30


@correlation
class WideningDotMasks:
    """Own words whose sum modulo 2^32 is a; [b]; [1 if the words' sum exceeds 2^32], [t] and [t b] modulo 2^(k - 32);
    and the inner products of a and b.
    """

    shape: Shape
    other: Shape
    ring: Z2k

    def deal(self, view: View) -> tuple[np.ndarray, ...]:
        (first, second), own = private_to_each(view, Z32, self.shape)
        b, low = view.mask(self.ring, self.other), integers(U32, self.ring.bits - Z32.bits)
        whole = np.broadcast_shapes(self.shape, self.other)

        def made() -> tuple[np.ndarray, ...]:
            total = first.astype(U64) + second
            a, top = low_bits(total, Z32.bits), total >> U64.type(Z32.bits - 1) & U64.type(1)
            product = low_bits((a * b).sum(axis=-1, dtype=U64), self.ring.bits)
            return total >> U64.type(Z32.bits), top, low_bits(top * b, low.bits), product

        results = [(low, self.shape), (low, self.shape), (low, whole), (self.ring, whole[:-1])]
        return own, b, *view.derived_many(results, made)


def _cost(x: AShare, y: AShare, ring: Z2k) -> Cost:
    return Cost(1, both(8 * (packed_size(x.size, Z32.bits) + packed_size(y.size, ring.bits))))


@protocol(cost=_cost)
def widening_dot(party: Endpoint, x: AShare, y: AShare, ring: Z2k) -> Steps[AShare]:
    """[x], uint32 [.., m], and [y], uint64 [.., m], of shapes that broadcast -> [inner products], [..], in `ring`.

    Scales add.
    """
    own, b, carry, top, of_top, product = party.randomness.take(WideningDotMasks(x.shape, y.shape, ring))
    first, high = party.rank == 0, U64.type(Z32.bits)
    opened, f = yield from open_shares(
        x.map(lambda w: w + U32.type(OFFSET * first) - own),
        y.map(lambda w: low_bits(w - b, ring.bits)),
        bits=[Z32.bits, ring.bits],
    )
    e = opened.astype(U64)
    wrapped = e >> high - U64.type(1)
    unknown = U64.type(1) - wrapped
    e -= wrapped << high
    wide = own.astype(U64) - (carry + unknown * top << high)
    if first:
        wide += e
    words = (wide * f + e * b - (unknown * of_top << high)).sum(axis=-1, dtype=U64) + product
    words -= (U64.type(OFFSET) * np.broadcast_to(y.words, of_top.shape)).sum(axis=-1, dtype=U64)
    return AShare(low_bits(words, ring.bits), party.rank, product_scale(y, x.scale))


describe(
    widening_dot,
    samples=calls(
        lambda i, n: [
            i.words(-(2**29), 2**29, n, 3, 2, ring=Z32),
            i.words(-(2**30), 2**30, n, 1, 2),
            Z2k(U64, 62),
        ]
    ),
    priced=calls(
        lambda i, n: [i.words(0, 1, n, 2, ring=Z32), i.words(0, 1, 1, 2), Z2k(U64, 62)],
        element="pair times a fixed pair",
    ),
    evidence=[
        Argued(
            "its words have 32 bits; it opens both operands as a product does",
            "perfect: the messages are one-time pads",
        )
    ],
)
