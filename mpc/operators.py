"""Operators on shares within a party's session: they run the protocols.

    with session(party):
        z = x * y + 3
        b = x < y
        e = x == y

| operators | protocols |
|---|---|
| `x * y`, `x @ y`, `x ** 3` | beaver.py, matrix_product.py |
| `x / y`, `x / 3.5`, `x.mean()` | division.py; a product with the reciprocal, and truncation.py |
| `<`, `<=`, `>`, `>=`, `==`, `!=`, `abs(x)` | comparison.py, bits.py |
| `x.max()`, `x.min()`, `x.argmax()`, `x.argmin()` | argmax.py |
| `a & b`, `b * x`, and "or", on bits | bits.py |

Jobs of `protocols.runtime.run_local` run within a session. Library code names the protocol and its party instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import and_bits, select, to_ring
from mpc.comparison.argmax import argmax
from mpc.comparison.comparison import below
from mpc.errors import DataError, RangeError, ScaleMismatch, ShapeMismatch
from mpc.functions.division import divide
from mpc.matrix.matrix_product import matmul
from mpc.party import Party
from mpc.rounding.truncation import truncate
from mpc.shares import SESSION, AShare, BShare, S, Share

T = TypeVar("T", bound=Share)
# A quotient of shares: bits of whole numbers of the divisor.
_DIVISOR_BITS = 12
# A quotient by public numbers: bits of the reciprocal of the largest one.
_RECIPROCAL_BITS = 18


@dataclass(frozen=True)
class _Session:
    """The protocols behind the operators, with the party that runs them."""

    party: Party

    def multiply(self, x: AShare, y: AShare) -> AShare:
        return multiply(self.party, *_broadcast(x, y))

    def matmul(self, x: AShare, y: AShare) -> AShare:
        return matmul(self.party, x, y)

    def negative(self, x: AShare) -> BShare:
        return below(self.party, x, [0], x.ring.bits)[..., 0]

    def zero(self, x: AShare) -> BShare:
        # Both signs are needed: -2^63 is below 0, and -2^63 - 1 wraps to a positive number.
        signs = below(self.party, x, [0, 1], x.ring.bits)
        return and_bits(self.party, ~signs[..., 0], signs[..., 1])

    def absolute(self, x: AShare) -> AShare:
        return x - self.choose(self.negative(x), x + x)

    def divide(self, x: AShare, y: AShare) -> AShare:
        _needs_words(x)
        if x.scale != y.scale:
            raise ScaleMismatch(f"cannot divide scale {x.scale} by scale {y.scale}")
        hi = x.scale + _DIVISOR_BITS - 1
        x, y = _broadcast(x, y)
        below_zero = self.negative(y)
        quotient = divide(self.party, x, y - self.choose(below_zero, y + y), 0, hi, x.scale)
        return quotient - self.choose(below_zero, quotient + quotient)

    def scaled_down(self, x: AShare, by: np.ndarray) -> AShare:
        _needs_words(x)
        if not np.isfinite(by).all() or not by.all():
            raise DataError("a share must be divided by finite numbers other than 0")
        # The same shift for all: so that the largest divisor's reciprocal has enough bits.
        shift = _RECIPROCAL_BITS - 1 + int(np.ceil(np.log2(np.abs(by).max(initial=0.0) or 1)))
        if shift < 1:
            return self.scaled_down(x.times(2 ** (1 - shift)), by * 2.0 ** (1 - shift))
        factors = np.rint(np.ldexp(1 / by, shift))
        if np.abs(factors).max(initial=0) > 2.0**40 or shift > 62:
            raise RangeError("public divisors of a share must be below 2^45, and within a factor of 2^22 of each other")
        product = AShare(x.words * factors.astype(np.int64).astype(x.dtype), x.rank, x.scale + shift)
        return truncate(self.party, product, shift)

    def first_maximum(self, x: AShare) -> tuple[AShare, AShare]:
        bits = x.ring.bits - 1
        hot, best = argmax(self.party, x.at_scale(0) + (1 << bits - 1), bits)
        index = to_ring(self.party, hot).times(np.arange(x.shape[-1])).sum(axis=-1)
        return (best - (1 << bits - 1)).at_scale(x.scale), index

    def choose(self, b: BShare, x: AShare) -> AShare:
        return select(self.party, *_broadcast(b, x))

    def both(self, a: BShare, b: BShare) -> BShare:
        return and_bits(self.party, *_broadcast(a, b))


def _needs_words(x: AShare) -> None:
    if x.ring.bits < 64:
        raise RangeError(f"x / y needs shares of 64 bits, got {x.ring.bits}")


def _broadcast(x: S, y: T) -> tuple[S, T]:
    """Return both at their common shape. Raises ShapeMismatch."""
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise ShapeMismatch(f"shapes {x.shape} and {y.shape} do not broadcast") from None
    first, second = (np.broadcast_to(share._words, shape) for share in (x, y))
    return x.map(lambda _: first), y.map(lambda _: second)


@contextmanager
def session(party: Party) -> Iterator[Party]:
    """Make `party` the one that operators on shares use, in this thread."""
    token = SESSION.set(_Session(party))
    try:
        yield party
    finally:
        SESSION.reset(token)
