"""Prefix conjunction: which of a row of shared bits, from the highest down, come before the first 0.

Functionality  <b_1 .. b_m> -> for each j, <b_j and all b_i, i > j, are 1>
Messages       b xor r                                                                          (one round)
Cost           m bits per row each way; offline: r, and the 2^m bits of its one-hot per row from the dealer
Security       semi-honest, perfect: the message is a one-time pad
How            b_j .. b_m are 1 where the bits of r from j up are the complement of those opened. Then the 1 of r's
               one-hot is in an aligned block of 2^j entries, whose sum is local
Source         one-time truth tables: Ishai et al., TCC 2013
"""

from __future__ import annotations

import numpy as np

from mpc.endpoint import Endpoint
from mpc.kernels import windows as kernels
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import OneHotWindows, number
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Bits, Enumerated, bit
from mpc.rings import PackedBits
from mpc.rounds import Steps, open_shares
from mpc.shares import BShare
from mpc.words import U16, U64, low_bits, packed_size, smallest_word

MOST_BITS = 16


@correlation
class PrefixMasks:
    """<r>, `bits` bits for each of `count` rows, in words, and the one-hot of each, in words of up to 64 bits."""

    count: int
    bits: int

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        words = low_bits(view.mask(PackedBits(U16), (self.count,)), self.bits)
        hot = PackedBits(smallest_word(min(64, 1 << self.bits)))
        shape = self.count, 1, kernels.hot_words(self.bits)
        recipe = OneHotWindows(words.astype(U64), 0, 1, 1, self.bits)
        return words, view.derived(hot, shape, recipe)[:, 0]


@protocol(cost=lambda bits: Cost(1, both(8 * packed_size(bits.size, 1))))
def prefix_and(party: Endpoint, bits: BShare) -> Steps[BShare]:
    """<bits>, shape [n, m], lowest first, m <= 16 -> <bit j and all above it are 1>, shape [n, m]."""
    count, length = bits.shape
    r, hot = party.randomness.take(PrefixMasks(count, length))
    places = np.arange(length, dtype=U16)
    (opened,) = yield from open_shares(bits.map(lambda b: b ^ (r[:, None] >> places & U16.type(1)).astype(np.uint8)))
    complement = number(1 - opened)
    return BShare(kernels.block_parities(hot.astype(U64, copy=False), complement, length), party.rank)


describe(
    prefix_and,
    samples=calls(lambda i, n: [i.bits(n, 5)]) + calls(lambda i, n: [i.bits(n, 8)]),
    priced=calls(lambda i, n: [i.bits(n, 8)], element="8 bits"),
    evidence=[
        Enumerated(
            f"{m} bits",
            (bit(m),),
            lambda b: np.logical_and.accumulate(b[:, ::-1] == 1, axis=1)[:, ::-1],
            draws=[Bits(m), Bits(1 << m)],
        )
        for m in (1, 2)
    ],
)
