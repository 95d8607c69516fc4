"""Quadratic functions a y - z a^2 of many shared a, for shared coefficients y and z of each row.

Functionality  [a], shape [v, C], and for each of v rows [y, z] -> [a y - z a^2] in Z_2^k
Messages       a - alpha, y - sigma, z - zeta, modulo 2^k                                      (one round)
Cost           k bits per a and 2 k bits per row, each way; offline: four words per a
Security       semi-honest, perfect: every message is a one-time pad
Source         products of any degree on one opening: Ohata and Nuida, FC 2020
"""

from __future__ import annotations

import numpy as np

from mpc.endpoint import Endpoint
from mpc.offline.correlation import Recipe, View, correlation
from mpc.offline.recipes import Later, Product
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Enumerated, word
from mpc.rings import Z64, Z2k
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare
from mpc.words import U64, Shape, low_bits, packed_size


@correlation
class QuadraticMasks:
    """[alpha], [sigma, zeta], and [alpha sigma], [alpha^2], [alpha zeta], [alpha^2 zeta]."""

    shape: Shape
    ring: Z2k

    def deal(self, view: View) -> tuple[np.ndarray, ...]:
        alpha, row = view.mask(self.ring, self.shape), view.mask(self.ring, (self.shape[0], 2))
        sigma, zeta = (np.ascontiguousarray(np.broadcast_to(row[:, i, None], self.shape)) for i in (0, 1))

        def derived(recipe: Recipe) -> np.ndarray:
            return view.derived(self.ring, self.shape, recipe)

        of_sigma, square = derived(Product(self.ring, alpha, sigma)), derived(Product(self.ring, alpha, alpha))
        of_zeta = derived(Product(self.ring, alpha, zeta))
        return alpha, row, of_sigma, square, of_zeta, derived(Later(Product(self.ring, square, zeta)))


def _cost(a: AShare, row: AShare, ring: Z2k) -> Cost:
    return Cost(1, both(8 * (packed_size(a.size, ring.bits) + packed_size(row.size, ring.bits))))


@protocol(cost=_cost)
def quadratic(party: Endpoint, a: AShare, row: AShare, ring: Z2k) -> Steps[AShare]:
    """[a], [v, C], and [y, z], [v, 2] -> [a y - z a^2], [v, C], in `ring`, which may be narrower. At scale 0."""
    alpha, masks, of_sigma, square, of_zeta, square_of_zeta = party.randomness.take(QuadraticMasks(a.shape, ring))
    bits = ring.bits
    d, e = yield from open_shares(
        a.map(lambda w: low_bits(w - alpha, bits)), row.map(lambda w: low_bits(w - masks, bits)), bits=[bits, bits]
    )
    (y, z), (sigma, zeta) = (w.T[..., None] for w in (e, masks))
    words = d * sigma + alpha * y + of_sigma - z * (2 * d * alpha + square)
    words -= d * d * zeta + 2 * d * of_zeta + square_of_zeta
    if party.rank == 0:
        words += d * y - z * d * d
    return AShare(low_bits(words, bits), party.rank)


describe(
    quadratic,
    samples=calls(lambda i, n: [i.words(-(2**20), 2**20, n, 3), i.words(0, 2**20, n, 2), Z2k(U64, 62)]),
    priced=calls(lambda i, n: [i.words(0, 1, 1, n), i.words(0, 1, 1, 2), Z64], element="value of one row"),
    evidence=[Enumerated("Z_2", (word(1, 1), word(1, 2), Z64), lambda a, row: a * row[:, :1] - row[:, 1:] * a**2)],
)
