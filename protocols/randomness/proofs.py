"""Proofs by a dealer, which knows all values, to two parties that products of dealt values are right.

Functionality  both: shares of u, v [n] and t; dealer: u, v -> at the parties, shares of one product that is right
               if u_1 v_1 + .. + u_n v_n = t, and otherwise with probability below (2 log2(n) + 2) / |points|
Messages       by halving: with f(0), f(1) the halves of u and g(0), g(1) those of v, the dealer shares <f(1), g(1)>
               and the leading coefficient of p(x) = <f(x), g(x)>; both compute <f(0), g(0)> from t, and continue with
               f, g and p at a point drawn afterwards. In the last step f(1) and g(1) are random, p(0) is t, and the
               point is not 0
Cost           2 log2(n) elements from the dealer to each party
Security       to each party the shares are uniform, and so are f and g at the last point, which are opened
Points         all of GF(2^64); in GR(2^64, 48), the elements with coefficients 0 and 1: any two differ by a unit, so
               a nonzero polynomial of degree 2 has at most two zeros among them
Source         Boneh, Boyle, Corrigan-Gibbs, Gilboa and Ishai, CRYPTO 2019; over Galois rings: Abspoel et al., TCC 2019
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mpc.kernels import galois
from mpc.relations import Relations, Triple
from mpc.ring import U64
from protocols.randomness.prg import Streams

# Most products in one statement.
_BITS, _WORDS = 1 << 21, 1 << 15


class Field(Protocol):
    """Arithmetic on elements, along the first axis of an array."""

    width: int

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray: ...

    def subtract(self, x: np.ndarray, y: np.ndarray) -> np.ndarray: ...

    def dot(self, x: np.ndarray, y: np.ndarray) -> np.ndarray: ...

    def between(self, point: np.uint64, zero: np.ndarray, one: np.ndarray) -> np.ndarray:
        """Return (1 - point) zero + point one."""


class _Field64:
    width = 1

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x ^ y

    subtract = add

    def dot(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return galois.field_dot(x.reshape(-1), y.reshape(-1)).reshape(1, 1)

    def between(self, point: np.uint64, zero: np.ndarray, one: np.ndarray) -> np.ndarray:
        return galois.field_between(point, zero.reshape(-1), one.reshape(-1)).reshape(-1, 1)


class _Ring48:
    width = galois.DEGREE

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x + y

    def subtract(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x - y

    def dot(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return galois.ring_dot(x, y)

    def between(self, point: np.uint64, zero: np.ndarray, one: np.ndarray) -> np.ndarray:
        coefficients = point >> np.arange(self.width, dtype=U64) & U64.type(1)
        return galois.ring_between(coefficients, zero, one)


FIELD, RING = _Field64(), _Ring48()


@dataclass
class Statement:
    """<u, v> = t, elements [n, width], [n, width], [1, width]: a party's shares."""

    field: Field
    u: np.ndarray
    v: np.ndarray
    t: np.ndarray

    @property
    def reveals_next(self) -> bool:
        """Whether only one product is left, to which random ones are added."""
        return len(self.u) == 1

    def halved(self) -> Statement:
        """Return the statement padded to an even number of products."""
        if len(self.u) % 2:
            none = np.zeros((1, self.field.width), U64)
            self.u, self.v = (np.concatenate([x, none]) for x in (self.u, self.v))
        return self

    def at(self, point: np.uint64, one: tuple[np.ndarray, np.ndarray], p_zero: np.ndarray, p: np.ndarray) -> Statement:
        """Return f, g and p at a point as a statement; `one` is f(1) and g(1), `p` is p(1) and the top coefficient."""
        field, half = self.field, len(one[0])
        u, v = (field.between(point, x[:half], y) for x, y in zip((self.u, self.v), one, strict=True))
        # p(x) = (1 - x) p(0) + x (p(1) + (x - 1) p_2)
        inner = field.subtract(field.between(point, p[:1], field.add(p[:1], p[1:2])), p[1:2])
        return Statement(field, u, v, field.between(point, p_zero, inner))


def statements(relations: Relations, key: bytes) -> Iterator[Statement]:
    """Yield the statements to prove about products: sums of relations, each times a coefficient from `key`."""
    streams, number = Streams(key, b"check"), iter(range(1 << 30))

    def coefficients(count: int) -> np.ndarray:
        return streams.of(next(number)).words((count,), U64)

    def column(words: np.ndarray) -> np.ndarray:
        return words.reshape(-1, 1)

    if relations.conjunctions:
        bits = [np.concatenate(parts) for parts in zip(*relations.conjunctions, strict=True)]
        for start in range(0, bits[0].size, _BITS):
            u, v, w = (x[start : start + _BITS].astype(U64) for x in bits)
            chi = coefficients(u.size)
            t = np.bitwise_xor.reduce(chi * w)
            yield Statement(FIELD, column(chi * u), column(v), np.array([[t]], U64))
    if relations.one_hots:
        # (sum of alpha_k e_k) (sum of beta_k e_k) = sum of alpha_k beta_k e_k for all alpha, beta if one e_k is 1
        parts = []
        for hot in relations.one_hots:
            alpha, beta = coefficients(hot.shape[1]), coefficients(hot.shape[1])
            weights = alpha, beta, galois.field_products(alpha, beta)
            parts.append([galois.field_sums(np.ascontiguousarray(hot), each) for each in weights])
        a, b, c = (np.concatenate(each) for each in zip(*parts, strict=True))
        for start in range(0, a.size, _BITS):
            u, v, w = (x[start : start + _BITS] for x in (a, b, c))
            chi = coefficients(u.size)
            t = galois.field_dot(chi, w).reshape(1, 1)
            yield Statement(FIELD, column(galois.field_products(chi, u)), column(v), t)
    for pieces in _together(relations.products):
        chis = [coefficients(len(w)) for _, _, w in pieces]
        each = np.concatenate([np.repeat(chi, u.shape[1]) for chi, (u, _, _) in zip(chis, pieces, strict=True)])
        first, second = (np.concatenate([piece[i].reshape(-1) for piece in pieces]) for i in (0, 1))
        whole = np.zeros((second.size, galois.DEGREE), U64)
        whole[:, 0] = second
        w = np.concatenate([piece[2] for piece in pieces])
        t = galois.ring_multiples(np.concatenate(chis), w).sum(axis=0, dtype=U64)[None]
        yield Statement(RING, galois.ring_multiples(each, first), whole, t)


def _together(products: list[Triple]) -> Iterator[list[Triple]]:
    """Group products into lists of about the size of a statement."""
    pieces: list[Triple] = []
    for u, v, w in products:
        step = max(1, _WORDS // max(1, u.shape[1]))
        for start in range(0, len(u), step):
            some = slice(start, start + step)
            pieces.append((u[some], v[some], w[some]))
            if sum(piece[0].size for piece in pieces) >= _WORDS:
                yield pieces
                pieces = []
    if pieces:
        yield pieces


def joint(first: Statement, second: Statement) -> Statement:
    """Return the statement that the dealer knows: the sum of both parties' shares."""
    field = first.field
    parts = zip((first.u, first.v, first.t), (second.u, second.v, second.t), strict=True)
    return Statement(field, *(field.add(x, y) for x, y in parts))


def words_of_message(statement: Statement) -> int:
    """Return the number of words that the dealer sends to each party next."""
    return (4 if statement.reveals_next else 2) * statement.field.width


def proving(statement: Statement) -> Generator[tuple[np.ndarray, np.ndarray], np.uint64, None]:
    """Run the dealer's part: yield what to send to each party; resume with the point, except after the last."""
    field = statement.field
    while True:
        last = statement.reveals_next
        if last:
            one = _random(1, field), _random(1, field)
            zero = statement.u, statement.v
        else:
            statement = statement.halved()
            half = len(statement.u) // 2
            zero, one = (statement.u[:half], statement.v[:half]), (statement.u[half:], statement.v[half:])
        apart = [field.subtract(y, x) for x, y in zip(zero, one, strict=True)]
        p = np.concatenate([field.dot(*one), field.dot(*apart)])
        told = np.concatenate([p, *one]) if last else p
        share = _random(len(told), field)
        point = yield share, field.subtract(told, share)
        if last:
            return
        statement = statement.at(point, one, field.dot(*zero), p)


def verifying(statement: Statement) -> Generator[int, tuple[np.ndarray, np.uint64], Statement]:
    """Run a party's part: yield the number of words to receive; resume with these and the point."""
    field = statement.field
    while True:
        last = statement.reveals_next
        if not last:
            statement = statement.halved()
        told, point = yield words_of_message(statement)
        p = told.reshape(-1, field.width)
        if last:
            return statement.at(point, (p[2:3], p[3:4]), statement.t, p)
        half = len(statement.u) // 2
        one = statement.u[half:], statement.v[half:]
        statement = statement.at(point, one, field.subtract(statement.t, p[:1]), p)


def _random(count: int, field: Field) -> np.ndarray:
    return np.frombuffer(os.urandom(8 * count * field.width), U64).reshape(count, field.width)
