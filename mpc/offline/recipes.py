"""Recipes: how a derived value follows from dealt ones, as small callable objects.

Calling a recipe gives the dealer the whole value. `between` gives a party its share, by transfers
(mpc/offline/transfers.py); there the fields are its own shares, or None for values that only the other party knows. A
recipe may compute several values, which share intermediate ones; then both methods return a tuple. Two parties can make
a correlation by themselves if all its derived values have recipes; a lambda in place of a recipe needs a dealer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mpc.kernels import windows
from mpc.offline import one_hot_transfers, transfers
from mpc.offline.transfers import OfflineSteps
from mpc.rings import AnyRing, Ring, ShareRing, Z2k
from mpc.words import U8, U64, Shape, low_bits


class OneHotProduct(Protocol):
    """Public sizes of a known matrix times `count` vectors: a row for each of `n_in` words, in groups of `size` columns
    that have a single 1 each.
    """

    @property
    def number(self) -> int: ...
    @property
    def owner(self) -> int: ...
    @property
    def n_in(self) -> int: ...
    @property
    def n_out(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def ring(self) -> Ring: ...
    @property
    def count(self) -> int: ...


class Operands(Protocol):
    """The matrices that a party keeps, by number, and what two parties can do with them."""

    def kept(self, number: int) -> Any:
        """Return this party's part of a matrix, or None."""

    def histogram(self, own: Any, r: np.ndarray | None, of: OneHotProduct) -> OfflineSteps[np.ndarray]:
        """The owner's BinColumns, words r [count, n_in] of the other -> shares of the sums by bin, [count, n_out].

        The matrix is given the same number in every use: what two parties make for it once is kept.
        """

    def one_hot_rows(
        self, number: int, bits: np.ndarray, rho: np.ndarray, groups: int, ring: Z2k
    ) -> OfflineSteps[np.ndarray]:
        """<M>, uint8[n, m], whose rows have a single 1 or none, and [rho], [n, v] -> [rho M], [groups, v, m], summed
        over the rows of each of as many groups.

        The matrix is given the same number in every use: what two parties make for it once is kept.
        """

    def choose_columns(
        self, owner: int, own: np.ndarray | None, columns: int, vectors: int, height: int
    ) -> OfflineSteps[np.ndarray]:
        """Columns uint64[columns, height / 64] of the owner, bits uint8[vectors, columns] of the other -> shares by xor
        of the sums of the chosen columns, uint64[vectors, height / 64].
        """


class Pair(Protocol):
    """A party's context while two parties make derived values: its rank, what both know, and kept operands."""

    @property
    def operands(self) -> Operands: ...

    @property
    def rank(self) -> int: ...

    def common(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        """Return uniform elements that both parties know and nobody else does."""


@dataclass(frozen=True)
class Zero:
    """A sharing of zero."""

    ring: AnyRing
    shape: Shape

    def __call__(self) -> np.ndarray:
        return np.zeros(self.shape, self.ring.dtype)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        words = pair.common(self.ring, self.shape)
        yield []
        return words if pair.rank == 0 else self.ring.subtract(np.zeros_like(words), words)


@dataclass(frozen=True)
class Product:
    """a b, elementwise: over Z_2^k, or the conjunction of bits; pass a as b for a square."""

    ring: ShareRing
    a: np.ndarray
    b: np.ndarray

    def __call__(self) -> np.ndarray:
        return self.ring.product(self.a, self.b)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        if isinstance(self.ring, Z2k):
            return transfers.multiply(pair.rank, self.a, self.b, self.ring)
        return transfers.and_bits(pair.rank, self.a, self.b, self.ring)


@dataclass(frozen=True)
class Lifted:
    """Shared bits as elements of Z_2^k."""

    ring: Z2k
    bits: np.ndarray

    def __call__(self) -> np.ndarray:
        return self.bits.astype(self.ring.dtype)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        return transfers.lift(pair.rank, self.bits, self.ring)


@dataclass(frozen=True)
class Chosen:
    """beta a, for shared bits beta and elements a; the shapes broadcast."""

    ring: Z2k
    bits: np.ndarray
    a: np.ndarray

    def __call__(self) -> np.ndarray:
        return self.bits.astype(self.ring.dtype) * self.a

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        return transfers.choose(pair.rank, self.bits, self.a, self.ring)


@dataclass(frozen=True)
class Crossed:
    """The product of the low bits of two bytes, each known to one party."""

    ring: Z2k
    first: Any
    second: Any

    def __call__(self) -> np.ndarray:
        return (self.first & self.second & np.uint8(1)).astype(self.ring.dtype)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        own = self.first if pair.rank == 0 else self.second
        return transfers.multiply_bits(pair.rank, own & np.uint8(1), self.ring)


@dataclass(frozen=True)
class OneHot:
    """1{k = i} for k = 0 .. 2^b - 1, for shared bits of i, lowest first."""

    bits: np.ndarray

    def __call__(self) -> np.ndarray:
        count = self.bits.shape[-1]
        return np.arange(1 << count) == number(self.bits)[..., None]

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        count = self.bits.shape[-1]
        index = number(self.bits).reshape(-1).astype(U64)
        hot = yield from one_hot_transfers.one_hot(pair.rank, index, count)
        return transfers.unpack(hot, 1 << count).reshape(*self.bits.shape[:-1], 1 << count)


@dataclass(frozen=True)
class OneHotWords(OneHot):
    """The same as elements of Z_2^k."""

    ring: Z2k

    def __call__(self) -> np.ndarray:
        return super().__call__().astype(self.ring.dtype)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        hot = yield from super().between(pair)
        return (yield from transfers.lift(pair.rank, hot, self.ring))


@dataclass(frozen=True)
class Summed:
    """Words shared by xor, as elements of Z_2^k."""

    ring: Z2k
    words: np.ndarray

    def __call__(self) -> np.ndarray:
        return low_bits(self.words.astype(self.ring.dtype), self.ring.bits)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        return transfers.join(pair.rank, self.words, self.ring)


@dataclass(frozen=True)
class _Windows:
    """Windows of words that are shared by xor: `count` of `width` bits, from bit `place` up, `step` bits apart."""

    words: np.ndarray
    place: int
    step: int
    count: int
    width: int

    @property
    def places(self) -> np.ndarray:
        return self.place + self.step * np.arange(self.count)


@dataclass(frozen=True)
class OneHotWindows(_Windows):
    """The one-hots of windows, in words of 64 bits."""

    def __call__(self) -> np.ndarray:
        return windows.one_hot(self.words, self.places, self.width)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        index = (self.words[:, None] >> self.places.astype(self.words.dtype)).reshape(-1)
        hot = yield from one_hot_transfers.one_hot(pair.rank, index, self.width)
        if hot.dtype != U64:
            hot = hot.astype(U64)
        return hot.reshape(len(self.words), self.count, hot.shape[1])


@dataclass(frozen=True)
class ReadWindows(_Windows):
    """Windows as elements of Z_2^k."""

    ring: Z2k

    def __call__(self) -> np.ndarray:
        shifted = self.words[:, None] >> self.places.astype(self.words.dtype)
        return low_bits(shifted, self.width).astype(self.ring.dtype)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        first, last = self.places[0], self.places[-1] + self.width
        bits = transfers.bits_of_words(self.words >> self.words.dtype.type(first), int(last - first))
        lifted = yield from transfers.lift(pair.rank, bits, self.ring)
        weights = self.ring.dtype.type(1) << np.arange(self.width).astype(self.ring.dtype)
        taken = self.places[:, None] - first + np.arange(self.width)
        return (lifted[:, taken] * weights).sum(axis=-1, dtype=self.ring.dtype)


@dataclass(frozen=True)
class Dot:
    """Inner products along the last axis; the shapes broadcast."""

    ring: Z2k
    a: np.ndarray
    b: np.ndarray

    def __call__(self) -> np.ndarray:
        return (self.a * self.b).sum(axis=-1, dtype=self.a.dtype)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        products = yield from transfers.multiply(pair.rank, self.a, self.b, self.ring)
        return products.sum(axis=-1, dtype=self.a.dtype)


@dataclass(frozen=True)
class Later:
    """A recipe that uses derived values of its request: two parties run it once these are made."""

    recipe: Any

    def __call__(self) -> Any:
        return self.recipe()

    def between(self, pair: Pair) -> Any:
        return self.recipe.between(pair)


def bit_of(words: np.ndarray, place: int) -> np.ndarray:
    """Return one bit of each word, uint8."""
    return (words >> words.dtype.type(place)).astype(U8) & U8.type(1)


@dataclass(frozen=True)
class OneHotOf:
    """1{k = x} for the low bits of words x, [n], shared by sums."""

    x: np.ndarray
    bits: int

    def __call__(self) -> np.ndarray:
        return low_bits(self.x, self.bits)[:, None] == np.arange(1 << self.bits)

    def between(self, pair: Pair) -> OfflineSteps[np.ndarray]:
        (hot,), _ = yield from one_hot_transfers.one_hots(pair.rank, self.x, [self.bits], 1)
        return transfers.unpack(hot, 1 << self.bits)


def number(bits: np.ndarray) -> np.ndarray:
    """Return the integers whose bits lie along the last axis, lowest first."""
    return bits.astype(np.int64) @ (1 << np.arange(bits.shape[-1]))
