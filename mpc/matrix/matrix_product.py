"""Product of shared matrices, with one matrix multiplication at each party and one at the dealer.

Functionality  [X], [Y] -> [X Y] for X [n, k], Y [k, m] over Z_2^b
Messages       P_i -> P_(1-i): X_i - A_i, Y_i - B_i                                           (one round)
Cost           b (|X| + |Y|) payload bits each way; offline: the dealer sends one word for every word of the result
Security       semi-honest, perfect: the messages are one-time pads
How            let z multiply pairs of columns of X, or of rows of Y, by the matrix (0 -1; 1 1), a sixth root of unity:
               z + 1/z = 1. With z_0 = z, z_1 = 1/z, party i knows U_i = X - A_(1-i) - A_i z_i and
               V_i = z_i (Y - B_(1-i)) + 1/z_i B_i, and U_0 V_0 + U_1 V_1 = X Y - (A_0 z + A_1) (B_0 + 1/z B_1). The
               dealer shares the last term. Integers cannot take the place of z_i: they need inverses, so both are odd,
               and 1 is not a sum of two odd numbers; the best result is 2 X Y. An odd k is padded with zeros
Source         correlated randomness: Beaver, CRYPTO 1991; matrices: Mohassel and Zhang, IEEE S&P 2017; one product
               per party by units of the Eisenstein integers: ours
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.endpoint import Endpoint
from mpc.errors import ShapeMismatch
from mpc.kernels import matrix_product as kernels
from mpc.offline import transfers
from mpc.offline.correlation import View, correlation, private_to_each
from mpc.offline.recipes import Pair
from mpc.offline.transfers import OfflineSteps
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Enumerated, word
from mpc.rings import Z2k
from mpc.rounds import Steps, exchange_words, parallel
from mpc.shares import AShare, product_scale


@dataclass(frozen=True)
class TurnedProduct:
    """(A_0 z + A_1) (B_0 + 1/z B_1) = A_0 z B_0 + A_1 1/z B_1 + A_0 B_1 + A_1 B_0 for A_i [n, k], B_i [k, m].

    Between two parties, the matrices that only the other one knows are None.
    """

    ring: Z2k
    sizes: tuple[int, int, int]
    a: tuple[Any, ...]
    b: tuple[Any, ...]

    def __call__(self) -> np.ndarray:
        return kernels.dealt_product(*(_even(w, axis=1) for w in self.a), *(_even(w, axis=0) for w in self.b))

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        n, k, m = self.sizes
        zeros = np.zeros((n, k), self.ring.dtype), np.zeros((k, m), self.ring.dtype)
        a, b = ([zero if w is None else w for w in both] for zero, both in zip(zeros, (self.a, self.b), strict=True))
        own = TurnedProduct(self.ring, self.sizes, tuple(a), tuple(b))()
        crossed = yield from parallel(
            *(transfers.matmul_private(pair.rank, i, a[i], b[1 - i], self.ring) for i in (0, 1))
        )
        return own + crossed[0] + crossed[1]


@correlation
class MatrixMasks:
    """A_i [n, k] and B_i [k, m] that only party i knows, and [(A_0 z + A_1) (B_0 + 1/z B_1)]."""

    rows: int
    inner: int
    columns: int
    ring: Z2k

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        a, own_a = private_to_each(view, self.ring, (self.rows, self.inner))
        b, own_b = private_to_each(view, self.ring, (self.inner, self.columns))

        product = TurnedProduct(self.ring, (self.rows, self.inner, self.columns), tuple(a), tuple(b))
        return own_a, own_b, view.derived(self.ring, (self.rows, self.columns), product)


@protocol(cost=lambda x, y: Cost(rounds=1, bits=both(x.ring.bits * (x.size + y.size))))
def matmul(party: Endpoint, x: AShare, y: AShare) -> Steps[AShare]:
    """[X], [Y] -> [X Y]; scales add. Raises ShapeMismatch unless X is [n, k] and Y is [k, m]."""
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise ShapeMismatch(f"cannot multiply a matrix of shape {x.shape} by one of shape {y.shape}")
    (n, k), m, scale = x.shape, y.shape[1], product_scale(x, y.scale)
    a, b, rest = party.randomness.take(MatrixMasks(n, k, m, x.ring))
    messages = [x.words - a, y.words - b]
    received_x, received_y = yield from exchange_words(messages, [x.ring.bits, y.ring.bits])
    own_x, a, received_x = (_even(w, axis=1) for w in (x.words, a, received_x))
    own_y, b, received_y = (_even(w, axis=0) for w in (y.words, b, received_y))
    words = kernels.share_of_product(own_x, a, received_x, own_y, b, received_y, rest, party.rank == 0)
    return AShare(words, party.rank, scale)


def _even(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Return the matrix in row-major order, with an even number of columns or rows, padded with zeros."""
    if matrix.shape[axis] % 2:
        return np.pad(matrix, [(0, 1) if a == axis else (0, 0) for a in (0, 1)])
    return np.ascontiguousarray(matrix)


describe(
    matmul,
    samples=calls(lambda i, n: [i.words(-99, 99, n, 4), i.words(-99, 99, 4, 3)]),
    priced=calls(lambda i, n: [i.words(0, 1, n, 32), i.words(0, 1, 32, 32)], element="row of X, Y 32 x 32"),
    # A row times a column, with one run per entry.
    lanes=calls(lambda i, n: [i.words(-99, 99, n, 1).map(np.transpose), i.words(-99, 99, n, 1)]),
    evidence=[
        Enumerated(
            f"Z_{2**k}, inner dimension {inner}",
            (word(k, 1, inner), word(k, inner, 1)),
            lambda x, y: x @ y,
            batched=False,
            long=k * inner > 1,
        )
        for k, inner in ((1, 1), (2, 1), (1, 2))
    ],
)
