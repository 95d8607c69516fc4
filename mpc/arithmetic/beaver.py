"""Beaver multiplication over Z_2^k.

multiply       ([x], [y]) -> [x * y], elementwise
square         [x] -> [x * x]
dot            ([x], [y]) -> [sum of x * y along the last axis]; the shapes broadcast
Messages       P_i -> P_(1-i): x_i - a_i, y_i - b_i (square: x_i - a_i)         (one round)
Cost           k (|x| + |y|) payload bits each way; offline: the dealer sends one word for every word of the result
Security       semi-honest, perfect: the messages are one-time pads
Source         Beaver, CRYPTO 1991
"""

from __future__ import annotations

import numpy as np

from mpc.endpoint import Endpoint
from mpc.kernels import products
from mpc.offline.correlation import View, correlation
from mpc.offline.recipes import Dot, Product
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Enumerated, word
from mpc.rings import Z2k
from mpc.rounds import Steps, open_shares
from mpc.shares import AShare, product_scale, same_shape
from mpc.words import U64, Shape, low_bits, packed_size


@correlation
class Triples:
    """[a], [b], [a b]."""

    shape: Shape
    ring: Z2k

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        a, b = (view.mask(self.ring, self.shape) for _ in range(2))
        return a, b, view.derived(self.ring, self.shape, Product(self.ring, a, b))


@protocol(cost=lambda x, y: Cost(rounds=1, bits=both(2 * x.ring.bits * x.size)), elementwise=True)
def multiply(party: Endpoint, x: AShare, y: AShare) -> Steps[AShare]:
    """[x], [y] -> [x y], same shape and ring; scales add. Raises ShapeMismatch."""
    same_shape(x, y)
    scale = product_scale(x, y.scale)
    a, b, ab = party.randomness.take(Triples(x.shape, x.ring))
    d, e = yield from open_shares(x.map(lambda w: w - a), y.map(lambda w: w - b))
    d, e, a, b, ab = (w.reshape(-1) for w in (d, e, a, b, ab))
    words = products.product(d, e, a, b, ab, party.rank == 0)
    return AShare(words.reshape(x.shape), party.rank, scale)


@correlation
class Squares:
    """[a], [a^2]."""

    shape: Shape
    ring: Z2k

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        a = view.mask(self.ring, self.shape)
        return a, view.derived(self.ring, self.shape, Product(self.ring, a, a))


@protocol(cost=lambda x: Cost(rounds=1, bits=both(x.ring.bits * x.size)), elementwise=True)
def square(party: Endpoint, x: AShare) -> Steps[AShare]:
    """[x] -> [x^2], same shape and ring; the scale doubles."""
    scale = product_scale(x, x.scale)
    a, aa = party.randomness.take(Squares(x.shape, x.ring))
    (d,) = yield from open_shares(x.map(lambda w: w - a))
    words = products.square(d.reshape(-1), a.reshape(-1), aa.reshape(-1), party.rank == 0)
    return AShare(words.reshape(x.shape), party.rank, scale)


@correlation
class DotMasks:
    """[a], [b], and their inner products along the last axis; the shapes broadcast."""

    shape: Shape
    other: Shape
    ring: Z2k

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        a, b = view.mask(self.ring, self.shape), view.mask(self.ring, self.other)
        whole = np.broadcast_shapes(self.shape, self.other)[:-1]
        return a, b, view.derived(self.ring, whole, Dot(self.ring, a, b))


def _dot_cost(x: AShare, y: AShare, ring: Z2k | None = None) -> Cost:
    bits = (ring or x.ring).bits
    return Cost(1, both(8 * (packed_size(x.size, bits) + packed_size(y.size, bits))))


@protocol(cost=_dot_cost)
def dot(party: Endpoint, x: AShare, y: AShare, ring: Z2k | None = None) -> Steps[AShare]:
    """[x], [.., k], and [y], [.., k], of shapes that broadcast -> [inner products], [..]; scales add.

    `ring` may have fewer bits than the words of x; the result is shared in it.
    """
    ring, scale = ring or x.ring, product_scale(x, y.scale)
    a, b, products = party.randomness.take(DotMasks(x.shape, y.shape, ring))
    bits = ring.bits
    masked = x.map(lambda w: low_bits(w - a, bits)), y.map(lambda w: low_bits(w - b, bits))
    d, e = yield from open_shares(*masked, bits=[bits, bits])
    fixed = a + d if party.rank == 0 else a
    words = (d * b + fixed * e).sum(axis=-1, dtype=x.dtype) + products
    return AShare(words, party.rank, scale)


BIG = 1 << 61

describe(
    multiply,
    samples=calls(lambda i, n: [i.words(-BIG, BIG, n), i.words(-BIG, BIG, n)]),
    priced=calls(lambda i, n: [i.words(0, 1, n), i.words(0, 1, n)], element="product"),
    evidence=[Enumerated("Z_4", (word(2), word(2)), lambda x, y: x * y)],
)
describe(
    square,
    samples=calls(lambda i, n: [i.words(-BIG, BIG, n, 3)]),
    priced=calls(lambda i, n: [i.words(0, 1, n)], element="square"),
    evidence=[Enumerated(f"Z_{2**k}", (word(k),), lambda x: x * x) for k in (2, 3, 4)],
)
describe(
    dot,
    samples=calls(lambda i, n: [i.words(-BIG, BIG, n, 3, 2), i.words(-BIG, BIG, n, 1, 2)])
    + calls(lambda i, n: [i.words(-9, 9, n, 3, 2), i.words(-9, 9, n, 1, 2), Z2k(U64, 40)]),
    priced=calls(lambda i, n: [i.words(0, 1, n, 2), i.words(0, 1, 1, 2)], element="pair times a fixed pair"),
    evidence=[
        Enumerated("Z_4", (word(2, 1), word(2, 1)), lambda x, y: (x * y).sum(axis=-1)),
        Enumerated("pairs in Z_2", (word(1, 2), word(1, 2)), lambda x, y: (x * y).sum(axis=-1)),
    ],
)
