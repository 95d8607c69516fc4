"""From additive shares to shared bits; the way back is `mpc.bit_product.to_ring`.

Functionality  [x] in Z_2^k -> <bits of x mod 2^B>
Messages       products of bits: each party's own word against the other's, then a parallel prefix tree of carries
Cost           1 + ceil(log2(B - 1)) rounds of at most 4 w |x| bits each way, w the bits of the smallest word that holds
               B; offline: bit triples only
Security       semi-honest, perfect: every message is a one-time pad
How            x = x_0 + x_1, and each party knows the bits of its own word. A carry is made where both have a 1
               and passed on where one has; the first is one and, the second is local; carries compose in a tree. The
               bits of a word stay in it: a step of the tree is a shift and a product of words
Source         carry look-ahead on shared bits: Kogge and Stone, IEEE ToC 1973; ABY: Demmler et al., NDSS 2015
"""

from __future__ import annotations

import numpy as np

from mpc.bit_product import and_bits
from mpc.catalogue import calls, describe
from mpc.contract import protocol
from mpc.endpoint import Endpoint
from mpc.evidence import Enumerated, composed, word
from mpc.ring import low_bits, smallest_word
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, PShare, stack


def _steps(bits: int) -> list[int]:
    """Distances of the prefix tree over bits 0 .. B - 2."""
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
