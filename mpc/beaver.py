"""Beaver multiplication over Z_2^k.

multiply       ([x], [y]) -> [x * y], elementwise
square         [x] -> [x * x]
matmul         ([X], [Y]) -> [X Y] for X [n, k], Y [k, m]
Messages       P_i -> P_(1-i): x_i - a_i, y_i - b_i (square: x_i - a_i)         (one round)
Cost           k (|x| + |y|) payload bits each way; offline: the dealer sends one word for every word of the result
Security       semi-honest, perfect: the messages are one-time pads
Source         Beaver, CRYPTO 1991; matrices: Mohassel and Zhang, IEEE S&P 2017
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    """[A], [B], [A B] for A [n, k], B [k, m]."""

    rows: int
    inner: int
    columns: int
    dtype: np.dtype

    def deal(self, hand: Hand):
        a = hand.mask((self.rows, self.inner), self.dtype)
        b = hand.mask((self.inner, self.columns), self.dtype)
        return a, b, hand.derived(lambda: ring_matmul(a, b), (self.rows, self.columns), self.dtype)


_PAGE = 4096


def _placed(array: np.ndarray | int, shape: Shape, dtype: np.dtype, place: int) -> np.ndarray:
    """A copy of an array, or a number everywhere, that starts so many bytes into a page."""
    size = math.prod(shape) * dtype.itemsize
    room = np.empty(size + _PAGE, np.uint8)
    start = (place - room.ctypes.data) % _PAGE
    copy = room[start : start + size].view(dtype).reshape(shape)
    copy[...] = array
    return copy


def ring_matmul(a: np.ndarray, b: np.ndarray, start: np.ndarray | int = 0) -> np.ndarray:
    """a [n, k] times b [k, m] over the ring of their dtype, added to `start`."""
    # What is read lies apart from what is written: where the low bits of the addresses agree, a load waits for a store.
    total = _placed(start, (len(a), b.shape[1]), a.dtype, 0)
    products.add_matrix_product(total, np.ascontiguousarray(a), _placed(b, b.shape, b.dtype, _PAGE // 4))
    return total


def matrix_shapes(x: AShare, y: AShare) -> tuple[int, int, int]:
    """n, k, m of X [n, k] and Y [k, m]. Raises ShapeMismatch for other shapes."""
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise ShapeMismatch(f"a matrix of shape {x.shape} times one of shape {y.shape}")
    return x.shape[0], x.shape[1], y.shape[1]


@protocol(cost=lambda x, y: Cost(rounds=1, bits=both(x.bits * (x.size + y.size))))
def matmul(party: Party, x: AShare, y: AShare) -> Steps:
    """[X], [Y] -> [X Y]; scales add. Raises ShapeMismatch unless X is [n, k] and Y is [k, m].

    Where a truncation follows, `mpc.matrix_product.matmul_doubled` has half the multiplications.
    """
    a, b, ab = party.randomness.take(MatrixTriples(*matrix_shapes(x, y), x.dtype))
    d, e = yield from open_shares("beaver.matmul", x.map(lambda w: w - a), y.map(lambda w: w - b))
    words = ring_matmul(d, e + b if party.rank == 0 else b, ring_matmul(a, e, ab))
    return AShare(words, party.rank, x.scale + y.scale)
