"""Beaver multiplication over Z_2^k.

multiply       ([x], [y]) -> [x * y], elementwise
square         [x] -> [x * x]
matmul         ([X], [Y]) -> [X Y] for X [n, k], Y [k, m]
Messages       P_i -> P_(1-i): x_i - a_i, y_i - b_i (square: x_i - a_i)         (one round)
Cost           k (|x| + |y|) payload bits each way; offline: the dealer sends one word for every word of the result.
               A party works out a matrix product and a half online, and a half ahead
Security       semi-honest, perfect: the messages are one-time pads
Source         Beaver, CRYPTO 1991; matrices: Mohassel and Zhang, IEEE S&P 2017
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from mpc.contract import Cost, both, protocol
from mpc.correlation import Hand
from mpc.errors import ShapeMismatch
from mpc.kernels import products
from mpc.party import Party, Steps, open_shares
from mpc.ring import Shape
from mpc.shares import AShare, same_shape


@dataclass(frozen=True)
class Triples:
    """[a], [b], [a b]."""

    shape: Shape
    dtype: np.dtype

    def deal(self, hand: Hand):
        a = hand.mask(self.shape, self.dtype)
        b = hand.mask(self.shape, self.dtype)
        return a, b, hand.derived(lambda: a * b, self.shape, self.dtype)


@protocol(cost=lambda x, y: Cost(rounds=1, bits=both(2 * x.bits * x.size)))
def multiply(party: Party, x: AShare, y: AShare) -> Steps:
    """[x], [y] -> [x y], same shape and ring; scales add. Raises ShapeMismatch."""
    same_shape(x, y)
    a, b, ab = party.randomness.take(Triples(x.shape, x.dtype))
    d, e = yield from open_shares("beaver.multiply", x.map(lambda w: w - a), y.map(lambda w: w - b))
    d, e, a, b, ab = (w.reshape(-1) for w in (d, e, a, b, ab))
    words = products.product(d, e, a, b, ab, party.rank == 0)
    return AShare(words.reshape(x.shape), party.rank, x.scale + y.scale)


@dataclass(frozen=True)
class Squares:
    """[a], [a^2]."""

    shape: Shape
    dtype: np.dtype

    def deal(self, hand: Hand):
        a = hand.mask(self.shape, self.dtype)
        return a, hand.derived(lambda: a * a, self.shape, self.dtype)


@protocol(cost=lambda x: Cost(rounds=1, bits=both(x.bits * x.size)))
def square(party: Party, x: AShare) -> Steps:
    """[x] -> [x^2], same shape and ring; the scale doubles."""
    a, aa = party.randomness.take(Squares(x.shape, x.dtype))
    (d,) = yield from open_shares("beaver.square", x.map(lambda w: w - a))
    words = products.square(d.reshape(-1), a.reshape(-1), aa.reshape(-1), party.rank == 0)
    return AShare(words.reshape(x.shape), party.rank, 2 * x.scale)


@dataclass(frozen=True)
class MatrixTriples:
    """[A] and [B] for A [n, k], B [k, m]; [A B] less the A_i B_i of either party i over its half of k."""

    rows: int
    inner: int
    columns: int
    dtype: np.dtype

    def deal(self, hand: Hand):
        a = hand.mask((self.rows, self.inner), self.dtype)
        b = hand.mask((self.inner, self.columns), self.dtype)
        shape = self.rows, self.columns
        ab = hand.derived(partial(ring_matmul, a, b), shape, self.dtype)
        for rank, own in enumerate(halves(self.inner)):
            known = hand.computed(rank, partial(ring_matmul, a[:, own], b[own]), shape, self.dtype)
            if known is not None:
                ab = ab - known
        return a, b, ab


def halves(inner: int) -> tuple[slice, slice]:
    """The half of an inner dimension that is party 0's, and the half that is party 1's."""
    return slice(inner // 2), slice(inner // 2, None)


def add_products(start: np.ndarray, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """start [n, m] + a b + ... for the pairs a [n, k], b [k, m], over the ring of their dtype."""
    total = start.copy()
    for a, b in pairs:
        products.add_matrix_product(total, np.ascontiguousarray(a), np.ascontiguousarray(b))
    return total


def ring_matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a [n, k] times b [k, m] over the ring of their dtype."""
    return add_products(np.zeros((len(a), b.shape[1]), a.dtype), (a, b))


@protocol(cost=lambda x, y: Cost(rounds=1, bits=both(x.bits * (x.size + y.size))))
def matmul(party: Party, x: AShare, y: AShare) -> Steps:
    """[X], [Y] -> [X Y]; scales add. Raises ShapeMismatch unless X is [n, k] and Y is [k, m]."""
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise ShapeMismatch(f"a matrix of shape {x.shape} times one of shape {y.shape}")
    a, b, rest = party.randomness.take(MatrixTriples(x.shape[0], x.shape[1], y.shape[1], x.dtype))
    d, e = yield from open_shares("beaver.matmul", x.map(lambda w: w - a), y.map(lambda w: w - b))
    # d e + d b + a e + a b: over either half of the inner dimension its owner i adds (d + a_i) (e + b_i), one product,
    # and the other party j adds d b_j + a_j e, two; `rest` shares a b less the a_i b_i that the one product brings.
    own, other = halves(x.shape[1])[:: 1 if party.rank == 0 else -1]
    one = d[:, own] + a[:, own], e[own] + b[own]
    words = add_products(rest, one, (d[:, other], b[other]), (a[:, other], e[other]))
    return AShare(words, party.rank, x.scale + y.scale)
