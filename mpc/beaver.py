"""Beaver multiplication over Z_2^k.

Functionality  ([x], [y]) -> [x * y], elementwise
Messages       P_i -> P_(1-i): x_i - a_i, y_i - b_i                            (one round)
Cost           k (|x| + |y|) payload bits each way; offline: |x| triples, k |x| bits from the dealer
Security       semi-honest, perfect: both messages are one-time pads
Source         Beaver, CRYPTO 1991
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.contract import Cost, both, protocol
from mpc.correlation import Hand
from mpc.party import Party, Steps, open_shares
from mpc.ring import Shape
from mpc.shares import AShare, same_shape


@dataclass(frozen=True)
class Triples:
    """[a], [b], [a b]."""

    shape: Shape
    dtype: np.dtype

    def deal(self, hand: Hand):
        a = hand.mask(self.shape, self.dtype)
        b = hand.mask(self.shape, self.dtype)
        return a, b, hand.derived(lambda: a * b, self.shape, self.dtype)


@protocol(cost=lambda x, y: Cost(rounds=1, bits=both(2 * x.bits * x.size)))
def multiply(party: Party, x: AShare, y: AShare) -> Steps:
    """[x], [y] -> [x y], same shape and ring; scales add. Raises ShapeMismatch."""
    same_shape(x, y)
    a, b, ab = party.randomness.take(Triples(x.shape, x.dtype))
    d, e = yield from open_shares("beaver.multiply", x.map(lambda w: w - a), y.map(lambda w: w - b))
    words = d * b + a * e + ab
    return AShare(words + d * e if party.rank == 0 else words, party.rank, x.scale + y.scale)
