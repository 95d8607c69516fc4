"""Product of shared matrices of fixed-point numbers with one multiplication of matrices at each party.

Functionality  [X], [Y] -> [2 X Y] for X [n, k], Y [k, m] over Z_2^k: X Y with one fractional bit more
Messages       P_i -> P_(1-i): X_i - A_i, Y_i - B_i                                           (one round)
Cost           k (|X| + |Y|) payload bits each way; offline: the dealer sends one word for every word of the result
Security       semi-honest, perfect: the messages are one-time pads
How            with a = A_0 - A_1, b = B_0 - B_1, party 0 learns X + a and Y + b, party 1 X - a and Y - b, and
               (X + a) (Y + b) + (X - a) (Y - b) = 2 X Y + 2 a b, of which the dealer shares the last term. The factor 2
               cannot be divided out in the ring: a truncation, by one bit more, takes it along. Beaver's product
               (mpc/beaver.py) is of the ring itself, at two multiplications a party
Source         polarisation identity; correlated randomness as in Beaver, CRYPTO 1991
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.beaver import matrix_shapes, ring_matmul
from mpc.contract import Cost, both, protocol
from mpc.correlation import Hand, own_of_each
from mpc.kernels import products
from mpc.party import Party, Steps, exchange_words
from mpc.shares import AShare


@dataclass(frozen=True)
class PolarMasks:
    """A_i [n, k] and B_i [k, m] that party i alone knows, and [-2 (A_0 - A_1) (B_0 - B_1)]."""

    rows: int
    inner: int
    columns: int
    dtype: np.dtype

    def deal(self, hand: Hand):
        a, own_a = own_of_each(hand, (self.rows, self.inner), self.dtype)
        b, own_b = own_of_each(hand, (self.inner, self.columns), self.dtype)

        def rest() -> np.ndarray:
            product = ring_matmul(a[1] - a[0], b[0] - b[1])
            product += product
            return product

        return own_a, own_b, hand.derived(rest, (self.rows, self.columns), self.dtype)


@protocol(cost=lambda x, y: Cost(rounds=1, bits=both(x.bits * (x.size + y.size))))
def matmul_doubled(party: Party, x: AShare, y: AShare) -> Steps:
    """[X], [Y] -> [2 X Y], the scales' sum and one. Raises ShapeMismatch unless X is [n, k] and Y is [k, m]."""
    a, b, rest = party.randomness.take(PolarMasks(*matrix_shapes(x, y), x.dtype))
    masked = [w.words - mask for w, mask in ((x, a), (y, b))]
    answer = yield from exchange_words("matrix_product.matmul_doubled", masked, [x.bits, y.bits])
    left, right = (
        products.sum_of_three(np.ascontiguousarray(w.words), mask, other)
        for w, mask, other in zip((x, y), (a, b), answer, strict=True)
    )
    return AShare(ring_matmul(left, right, rest), party.rank, x.scale + y.scale + 1)
