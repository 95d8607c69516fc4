"""Recipes: how a derived value follows from dealt ones, as small callable objects.

Called, a recipe gives the dealer the whole value. Its fields say what it is made of: for a party these are its own
shares, or None for what only the other knows. A correlation whose derived values are all recipes is one that two
parties could also make by themselves; a lambda in place of a recipe needs a dealer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.kernels import windows
from mpc.ring import Shape, low_bits
from mpc.rings import AnyRing, ShareRing, Z2k


@dataclass(frozen=True)
class Zero:
    """A sharing of zero."""

    ring: AnyRing
    shape: Shape

    def __call__(self) -> np.ndarray:
        return np.zeros(self.shape, self.ring.dtype)


@dataclass(frozen=True)
class Product:
    """a b, elementwise: over Z_2^k, or the conjunction of bits; a is b for a square."""

    ring: ShareRing
    a: np.ndarray
    b: np.ndarray

    def __call__(self) -> np.ndarray:
        return self.ring.product(self.a, self.b)


@dataclass(frozen=True)
class Lifted:
    """Shared bits as elements of Z_2^k."""

    ring: Z2k
    bits: np.ndarray

    def __call__(self) -> np.ndarray:
        return self.bits.astype(self.ring.dtype)


@dataclass(frozen=True)
class Chosen:
    """beta a, for shared bits beta and elements a; the shapes broadcast."""

    ring: Z2k
    bits: np.ndarray
    a: np.ndarray

    def __call__(self) -> np.ndarray:
        return self.bits.astype(self.ring.dtype) * self.a


@dataclass(frozen=True)
class Crossed:
    """The product of the low bits of two bytes, each of which one party knows."""

    ring: Z2k
    first: Any
    second: Any

    def __call__(self) -> np.ndarray:
        return (self.first & self.second & np.uint8(1)).astype(self.ring.dtype)


@dataclass(frozen=True)
class OneHot:
    """1{k = i} for k = 0 .. 2^b - 1, for shared bits of i, lowest first."""

    bits: np.ndarray

    def __call__(self) -> np.ndarray:
        count = self.bits.shape[-1]
        return np.arange(1 << count) == number(self.bits)[..., None]


@dataclass(frozen=True)
class Applied:
    """The matrix that is kept under `number`, multiplied by dealt vectors: `product(matrix, vectors)`."""

    product: Callable[[np.ndarray, np.ndarray], np.ndarray]
    kept: Callable[[int], np.ndarray]
    number: int
    vectors: Any

    def __call__(self) -> np.ndarray:
        return self.product(self.kept(self.number), self.vectors)


@dataclass(frozen=True)
class Summed:
    """Words shared by xor, as elements of Z_2^k."""

    ring: Z2k
    words: np.ndarray

    def __call__(self) -> np.ndarray:
        return low_bits(self.words.astype(self.ring.dtype), self.ring.bits)


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


@dataclass(frozen=True)
class ReadWindows(_Windows):
    """Windows as elements of Z_2^k."""

    ring: Z2k

    def __call__(self) -> np.ndarray:
        shifted = self.words[:, None] >> self.places.astype(self.words.dtype)
        return low_bits(shifted, self.width).astype(self.ring.dtype)


@dataclass(frozen=True)
class Dot:
    """Inner products along the last axis; the shapes broadcast."""

    a: np.ndarray
    b: np.ndarray

    def __call__(self) -> np.ndarray:
        return (self.a * self.b).sum(axis=-1, dtype=self.a.dtype)


def number(bits: np.ndarray) -> np.ndarray:
    """Bits along the last axis, lowest first, as an integer."""
    return bits.astype(np.int64) @ (1 << np.arange(bits.shape[-1]))
