"""Equality with zero on a small domain.

Functionality  [x] in Z_2^m, m <= 8 -> <x = 0>
Messages       x + r mod 2^m                                                 (one round)
Cost           8 |x| payload bits each way; offline: r, and 2^m bits per element from the dealer
Security       semi-honest, perfect: the message is a one-time pad
Source         one-time truth tables: Ishai et al., TCC 2013
"""

from __future__ import annotations

import numpy as np

from mpc.endpoint import Endpoint
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import OneHotOf
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Enumerated, word
from mpc.rings import GF2, Z8
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, BShare
from mpc.words import U8, Shape, low_bits


@correlation
class EqualityMasks:
    """[r] in Z_2^m and <1{k = r}> for k = 0 .. 2^m - 1."""

    shape: Shape
    bits: int

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        r = view.mask(Z8, self.shape)
        table = view.derived(GF2, (*self.shape, 1 << self.bits), OneHotOf(r.reshape(-1), self.bits))
        return r, table


@protocol(cost=lambda x, bits: Cost(1, both(8 * x.size)), elementwise=True)
def equals_zero(party: Endpoint, x: AShare, bits: int) -> Steps[BShare]:
    """[x] of uint8 words, read modulo 2^bits -> <x = 0>, shape of x."""
    r, table = party.randomness.take(EqualityMasks(x.shape, bits))
    (e,) = yield from open_shares(x.map(lambda w: low_bits(w + r, bits)))
    places = low_bits(e, bits)[..., None].astype(np.int64)
    return BShare(np.take_along_axis(table, places, axis=-1)[..., 0], party.rank)


describe(
    equals_zero,
    samples=calls(lambda i, n: [i.words(0, 9, n, ring=Z8), 4]),
    priced=calls(lambda i, n: [i.words(0, 1, n, ring=Z8), 4], element="word of 4 bits"),
    evidence=[Enumerated(f"Z_{2**k}", (word(k, dtype=U8), k), lambda x: x == 0) for k in (2, 3)],
)
