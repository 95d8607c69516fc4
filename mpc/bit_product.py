"""Products of shared bits, and of a shared bit with shared ring elements.

conjoin        (<a>, <b>) -> <a and b>                    one round, 2 bits each way an element
disjoin        (<a>, <b>) -> <a or b>                     as conjoin, of the complements
to_ring        <b> -> [b] in Z_2^k                        one round, 1 bit
select         (<b>, [x]) -> [b x]                        one round, 1 bit and k bits an element of x

Messages       conjoin: a xor alpha, b xor beta;  to_ring: b xor beta;  select: b xor beta, x - a
Offline        conjoin: <alpha beta>;  to_ring: [beta];  select: [beta], [beta a]
Security       semi-honest, perfect: every message is a one-time pad
Source         Beaver, CRYPTO 1991; daBits: Rotaru and Wood, INDOCRYPT 2019
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.contract import Cost, both, protocol
from mpc.correlation import Hand
from mpc.party import Party, Steps, open_shares
from mpc.ring import U64, Shape, packed_size
from mpc.shares import AShare, BShare, same_shape


def _wire_bits(count: int) -> int:
    return 8 * packed_size(count, 1)


@dataclass(frozen=True)
class BitTriples:
    """<alpha>, <beta>, <alpha and beta>."""

    shape: Shape

    def deal(self, hand: Hand):
        alpha, beta = hand.mask_bits(self.shape), hand.mask_bits(self.shape)
        return alpha, beta, hand.derived_bits(lambda: alpha & beta, self.shape)


@dataclass(frozen=True)
class RingBits:
    """<beta> and the same bits as [beta] in Z_2^k."""

    shape: Shape
    dtype: np.dtype

    def deal(self, hand: Hand):
        beta = hand.mask_bits(self.shape)
        return beta, hand.derived(lambda: beta.astype(self.dtype), self.shape, self.dtype)


@dataclass(frozen=True)
class SelectMasks:
    """<beta>, [beta], [a], [beta a] for a bit array and a ring array that broadcast together."""

    bit_shape: Shape
    shape: Shape
    dtype: np.dtype

    def deal(self, hand: Hand):
        beta = hand.mask_bits(self.bit_shape)
        a = hand.mask(self.shape, self.dtype)
        ring = hand.derived(lambda: beta.astype(self.dtype), self.bit_shape, self.dtype)
        product = np.broadcast_shapes(self.bit_shape, self.shape)
        return beta, ring, a, hand.derived(lambda: beta.astype(self.dtype) * a, product, self.dtype)


@protocol(cost=lambda a, b: Cost(rounds=1, bits=both(2 * _wire_bits(a.size))))
def conjoin(party: Party, a: BShare, b: BShare) -> Steps:
    """<a>, <b> -> <a and b>, same shape. Raises ShapeMismatch."""
    same_shape(a, b)
    alpha, beta, both_bits = party.randomness.take(BitTriples(a.shape))
    d, e = yield from open_shares("bit_product.conjoin", a.map(lambda w: w ^ alpha), b.map(lambda w: w ^ beta))
    bits = (d & beta) ^ (alpha & e) ^ both_bits
    return BShare(bits ^ (d & e) if party.rank == 0 else bits, party.rank)


@protocol(cost=lambda a, b: conjoin.cost(a, b))
def disjoin(party: Party, a: BShare, b: BShare) -> Steps:
    """<a>, <b> -> <a or b>, same shape. Raises ShapeMismatch."""
    return ~(yield from conjoin.steps(party, ~a, ~b))


@protocol(cost=lambda b, dtype=U64: Cost(rounds=1, bits=both(_wire_bits(b.size))))
def to_ring(party: Party, b: BShare, dtype: np.dtype = U64) -> Steps:
    """<b> -> [b] in the ring of `dtype`, scale 0."""
    beta, ring = party.randomness.take(RingBits(b.shape, dtype))
    (c,) = yield from open_shares("bit_product.to_ring", b.map(lambda w: w ^ beta))
    opened = c.astype(dtype)
    words = ring - dtype.type(2) * opened * ring
    return AShare(words + opened if party.rank == 0 else words, party.rank)


@protocol(cost=lambda b, x: Cost(rounds=1, bits=both(_wire_bits(b.size) + x.bits * x.size)))
def select(party: Party, b: BShare, x: AShare) -> Steps:
    """<b>, [x] -> [b x]; the shapes broadcast, the scale is that of x."""
    beta, ring, a, product = party.randomness.take(SelectMasks(b.shape, x.shape, x.dtype))
    c, d = yield from open_shares("bit_product.select", b.map(lambda w: w ^ beta), x.map(lambda w: w - a))
    opened = c.astype(x.dtype)
    sign = x.dtype.type(1) - x.dtype.type(2) * opened
    words = opened * a + sign * (ring * d + product)
    return AShare(words + opened * d if party.rank == 0 else words, party.rank, x.scale)
