"""From additive shares to shared bits; the way back is `mpc.bit_product.to_ring`.

Functionality  [x] in Z_2^k -> <bits of x mod 2^B>
Messages       products of bits: each party's own word against the other's, then a parallel prefix tree of carries
Cost           1 + ceil(log2(B - 1)) rounds of at most 4 B |x| bits each way; offline: bit triples alone
Security       semi-honest, perfect: every message is a one-time pad
How            x = x_0 + x_1, and each party knows the bits of its own word. A carry is made where both have a 1
               and passed on where one has; the first is one and, the second is local; carries compose in a tree
Source         carry look-ahead on shared bits: Kogge and Stone, IEEE ToC 1973; ABY: Demmler et al., NDSS 2015
"""

from __future__ import annotations

import numpy as np

from mpc.bit_product import conjoin
from mpc.contract import Cost, in_sequence, protocol
from mpc.party import Party, Steps
from mpc.shares import AShare, BShare, concatenate, stack


def _bits(words: np.ndarray, bits: int) -> np.ndarray:
    return (words[..., None] >> np.arange(bits, dtype=np.uint64) & np.uint64(1)).astype(np.uint8)


def _steps(bits: int) -> list[int]:
    """Distances of the prefix tree over bits 0 .. B - 2."""
    return [1 << i for i in range((bits - 2).bit_length())] if bits > 2 else []


def _cost(x: AShare, bits: int) -> Cost:
    low = BShare(np.empty((*x.shape, bits - 1), np.uint8), 0)
    costs = [conjoin.cost(low, low)]
    for distance in _steps(bits):
        pairs = BShare(np.empty((2, *x.shape, bits - 1 - distance), np.uint8), 0)
        costs.append(conjoin.cost(pairs, pairs))
    return in_sequence(*costs)


@protocol(cost=_cost)
def to_bits(party: Party, x: AShare, bits: int) -> Steps:
    """[x] of 64-bit words -> <x mod 2^bits>, shape x.shape + (bits,), lowest bit first; 2 <= bits <= 64."""
    own = _bits(x.words, bits)
    nothing = np.zeros_like(own)
    first = BShare(own if party.rank == 0 else nothing, party.rank)
    second = BShare(own if party.rank == 1 else nothing, party.rank)
    either = first ^ second
    makes = yield from conjoin.steps(party, first[..., :-1], second[..., :-1])
    passes = either[..., :-1]
    for distance in _steps(bits):
        upper = stack([passes[..., distance:], passes[..., distance:]])
        lower = stack([makes[..., :-distance], passes[..., :-distance]])
        both_parts = yield from conjoin.steps(party, upper, lower)
        makes = concatenate([makes[..., :distance], makes[..., distance:] ^ both_parts[0]], axis=-1)
        passes = concatenate([passes[..., :distance], both_parts[1]], axis=-1)
    carry = makes.map(lambda b: np.concatenate([np.zeros_like(b[..., :1]), b], axis=-1))
    return either ^ carry
