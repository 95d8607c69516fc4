"""From additive shares to shared bits; the way back is `mpc.bit_product.to_ring`.

Functionality  [x] in Z_2^k -> <bits of x mod 2^B>
Messages       x + r mod 2^B, then the carries of a parallel prefix tree               (1 + ceil(log2 B) rounds)
Cost           8 ceil(B / 8) |x| bits, then at most 4 B |x| bits a round, each way; offline: <bits of r> and bit triples
Security       semi-honest, perfect: every message is a one-time pad
How            x = e - r: bit k is e_k xor r_k xor borrow_k. A borrow is generated where r_k > e_k and passed on where
               r_k = e_k, both linear in the shared bits of r; borrows compose in a tree
Source         carry look-ahead: Kogge and Stone, IEEE ToC 1973; dealt bits: Damgard et al., TCC 2006
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.bit_product import conjoin
from mpc.contract import Cost, both, in_sequence, protocol
from mpc.correlation import Hand
from mpc.party import Party, Steps, open_shares
from mpc.ring import U64, Shape, low_bits, packed_size
from mpc.shares import AShare, BShare, concatenate, stack


@dataclass(frozen=True)
class BitMasks:
    """[r] in Z_2^64 and <its low bits>, lowest first."""

    shape: Shape
    bits: int

    def deal(self, hand: Hand):
        r = hand.mask(self.shape)
        return r, hand.derived_bits(lambda: _bits(r, self.bits), (*self.shape, self.bits))


def _bits(words: np.ndarray, bits: int) -> np.ndarray:
    return (words[..., None] >> np.arange(bits, dtype=np.uint64) & np.uint64(1)).astype(np.uint8)


def _steps(bits: int) -> list[int]:
    """Distances of the prefix tree over bits 0 .. B - 2."""
    return [1 << i for i in range((bits - 2).bit_length())] if bits > 2 else []


def _cost(x: AShare, bits: int) -> Cost:
    costs = [Cost(1, both(8 * packed_size(x.size, bits)))]
    for distance in _steps(bits):
        pairs = BShare(np.empty((2, *x.shape, bits - 1 - distance), np.uint8), 0)
        costs.append(conjoin.cost(pairs, pairs))
    return in_sequence(*costs)


@protocol(cost=_cost)
def to_bits(party: Party, x: AShare, bits: int) -> Steps:
    """[x] of 64-bit words -> <x mod 2^bits>, shape x.shape + (bits,), lowest bit first; 2 <= bits <= 64."""
    r, r_bits = party.randomness.take(BitMasks(x.shape, bits))
    (e,) = yield from open_shares("conversion.to_bits", x.map(lambda w: low_bits(w + r, bits)), bits=[bits])
    public = _bits(e.astype(U64), bits)
    r_share = BShare(r_bits, party.rank)
    makes = r_share.masked(public ^ 1)[..., :-1]
    passes = (~(r_share ^ public))[..., :-1]
    for distance in _steps(bits):
        upper = stack([passes[..., distance:], passes[..., distance:]])
        lower = stack([makes[..., :-distance], passes[..., :-distance]])
        both_parts = yield from conjoin.steps(party, upper, lower)
        makes = concatenate([makes[..., :distance], makes[..., distance:] ^ both_parts[0]], axis=-1)
        passes = concatenate([passes[..., :distance], both_parts[1]], axis=-1)
    borrow = makes.map(lambda b: np.concatenate([np.zeros_like(b[..., :1]), b], axis=-1))
    return r_share ^ borrow ^ public
