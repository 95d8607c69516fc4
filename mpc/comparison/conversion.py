"""Conversion of additive shares to shared bits; `mpc.arithmetic.bits.to_ring` is the converse.

Functionality  [x] in Z_2^k -> <bits of x mod 2^B>
Messages       products of bits: each party's own word with the other's, then a parallel prefix tree of carries
Cost           1 + ceil(log2(B - 1)) rounds of at most 4 w |x| bits each way, w the width of the smallest word of at
               least B bits; offline: only bit triples
Security       semi-honest, perfect: every message is a one-time pad
How            x = x_0 + x_1, and each party knows the bits of its own word. A position generates a carry where both
               bits are 1 and propagates one where exactly one is; the former takes a product, the latter is local.
               Carries compose in a tree. The bits stay in their word: a step of the tree is a shift and a product of
               words
Source         carry look-ahead on shared bits: Kogge and Stone, IEEE ToC 1973; ABY: Demmler et al., NDSS 2015
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.bits import and_bits
from mpc.endpoint import Endpoint
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import protocol
from mpc.protocol.evidence import Enumerated, composed, word
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, PShare, stack
from mpc.words import low_bits, smallest_word


def _steps(bits: int) -> list[int]:
    """Return the distances of the prefix tree over bits 0 .. B - 2."""
    return [1 << i for i in range((bits - 2).bit_length())] if bits > 2 else []


@protocol()
def to_bits(party: Endpoint, x: AShare, bits: int) -> Steps[BShare]:
    """[x] of 64-bit words -> <x mod 2^bits>, shape x.shape + (bits,), lowest bit first; 2 <= bits <= 64."""
    own = PShare(low_bits(x.words, bits).astype(smallest_word(bits)), party.rank)
    nothing = own.map(np.zeros_like)
    first, second = (own, nothing) if party.rank == 0 else (nothing, own)
    makes = yield from and_bits.steps(party, first, second)
    either = passes = first ^ second
    for distance in _steps(bits):
        carried = stack([makes << distance, passes << distance])
        further = yield from and_bits.steps(party, stack([passes, passes]), carried)
        makes, passes = makes ^ further[0], further[1]
    places = np.arange(bits, dtype=own.dtype)
    return BShare(((either ^ makes << 1).words[..., None] >> places & own.dtype.type(1)).astype(np.uint8), party.rank)


describe(
    to_bits,
    samples=calls(lambda i, n: [i.words(-(1 << 61), 1 << 61, n), 11]),
    priced=calls(lambda i, n: [i.words(0, 1, n), 64], element="word into 64 bits"),
    evidence=[
        Enumerated("Z_4", (word(2), 2), lambda x: x[:, None] >> np.arange(2) & 1, fresh=False),
        *composed(and_bits),
    ],
)
