"""Product of a shared integer and one of several public factors, selected by shared bits.

Functionality  (<b_1> .. <b_J>), [x], public w_1 .. w_J -> [s], [s x] for s = sum_j w_j b_j
Messages       b_j xor beta_j, x - a                                         (one round)
Cost           J |x| bits and 64 |x| bits each way; offline: 2 J words per element: [beta_j], [beta_j a]
Security       semi-honest, perfect: every message is a one-time pad
Source         as mpc/arithmetic/bits.py
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpc.arithmetic.bits import SelectMasks
from mpc.endpoint import Endpoint
from mpc.kernels import products
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Enumerated, bit, word
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, BShare
from mpc.words import encode_signed, packed_size


@protocol(cost=lambda bits, x, weights: Cost(1, both(8 * packed_size(bits.size, 1) + 64 * x.size)))
def choose(party: Endpoint, bits: BShare, x: AShare, weights: Sequence[int]) -> Steps[tuple[AShare, AShare]]:
    """<b>, shape x.shape + (J,), and [x] of 64-bit words -> ([s], [s x]), shape of x, scale 0 and that of x."""
    n, count = x.size, len(weights)
    beta, ring, a, product = party.randomness.take(SelectMasks((n, count), (n, 1), x.ring))
    hidden = bits.reshape(n, count).map(lambda w: w ^ beta)
    c, d = yield from open_shares(hidden, x.map(lambda w: w.reshape(-1) - a[:, 0]))
    factors = encode_signed(np.asarray(weights))
    s, sx = products.weighted_choice(c, d, ring, a[:, 0], product, factors, party.rank == 0)
    return AShare(s.reshape(x.shape), party.rank), AShare(sx.reshape(x.shape), party.rank, x.scale)


def _ideal(bits: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    """Compute the results with weights 1 .. J."""
    factor = bits @ np.arange(1, bits.shape[-1] + 1)
    return [factor, factor * x]


describe(
    choose,
    samples=calls(lambda i, n: [i.bits(n, 2, 3), i.words(-(1 << 61), 1 << 61, n, 2), [1, 5, 2**40]]),
    priced=calls(lambda i, n: [i.bits(n, 8), i.words(0, 1, n), range(8)], element="one of 8 factors"),
    evidence=[
        Enumerated(f"{count} bits, Z_{2**k}", (bit(count), word(k), range(1, count + 1)), _ideal)
        for count, k in ((1, 2), (2, 1))
    ],
)
