"""Rings as objects: the set that the words of a share, or of a dealt value, are elements of.

Z2k    integers modulo 2^k, one per word; all bits of the word, or the low ones
GF2    bits, one per byte
GF2^k  bits, filling the words: `PackedBits`
Z2k^n  integers modulo 2^k, k = 1, 2, 4 or 8, filling the bytes: `PackedIntegers`
Z2128  integers modulo 2^128, each two words along the last axis, the low one first: `WideIntegers`
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from mpc.kernels.linear_map import ring_products
from mpc.words import (
    U8,
    U16,
    U32,
    U64,
    Shape,
    low_bits,
    pack_bits,
    pack_words,
    packed_sizes,
    unpack_words,
)


class RandomStream(Protocol):
    """A source of uniform words and bits."""

    def words(self, shape: Shape, dtype: np.dtype) -> np.ndarray: ...

    def bits(self, shape: Shape) -> np.ndarray: ...


class _Packing:
    """Elements on the wire, for rings whose elements have a fixed number of bits."""

    dtype: np.dtype
    bits: int

    def sizes(self, shape: Shape) -> list[int]:
        """Return the bytes of each array of `pack`."""
        return packed_sizes(math.prod(shape), self.bits)

    def pack(self, words: np.ndarray) -> list[np.ndarray]:
        """Pack elements into flat byte arrays."""
        return pack_words(words, self.bits)

    def unpack(self, packed: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        """Inverse of `pack`."""
        return unpack_words(packed, shape, self.dtype, self.bits)

    def draw(self, stream: RandomStream, shape: Shape) -> np.ndarray:
        """Draw uniform elements."""
        return stream.words(shape, self.dtype)


class _Xor(_Packing):
    """Rings whose sum is xor and whose product is and."""

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x ^ y

    def subtract(self, x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return np.bitwise_xor(x, y, out=out)

    def product(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x & y


@dataclass(frozen=True)
class Z2k(_Packing):
    """Integers modulo 2^bits in words of `dtype`; by default all bits of the word. Higher bits are ignored."""

    dtype: np.dtype
    bits: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", self.bits or 8 * self.dtype.itemsize)

    @property
    def name(self) -> str:
        word = self.dtype.name
        return word if self.bits == 8 * self.dtype.itemsize else f"{word}:{self.bits}"

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x + y

    def subtract(self, x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return np.subtract(x, y, out=out)

    def product(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x * y

    def sum(self, x: np.ndarray, axis: int) -> np.ndarray:
        return x.sum(axis=axis, dtype=self.dtype)

    def matmul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """[b, v, k], [b, k, m] -> [b, v, m]."""
        return ring_products(x, y)

    def pack(self, words: np.ndarray) -> list[np.ndarray]:
        return pack_words(low_bits(words, self.bits), self.bits)


@dataclass(frozen=True)
class BitRing(_Xor):
    """Bits, one per byte."""

    dtype: np.dtype = U8
    bits: int = 1
    name: str = "bool"

    def matmul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """[b, v, k], [b, k, m] -> [b, v, m]. Words of eight bits are added, since a byte has room for 255 of them."""
        m = y.shape[2]
        words = np.ascontiguousarray(np.pad(y, ((0, 0), (0, 0), (0, -m % 8))) if m % 8 else y).view(U64)
        sums = np.zeros((*x.shape[:2], words.shape[2]), U64)
        for start in range(0, x.shape[2], 255):
            part = slice(start, start + 255)
            sums ^= ring_products(x[:, :, part].astype(U64), words[:, part])
        return sums.view(U8)[:, :, :m] & U8.type(1)

    def pack(self, words: np.ndarray) -> list[np.ndarray]:
        return [pack_bits(words)]

    def draw(self, stream: RandomStream, shape: Shape) -> np.ndarray:
        return stream.bits(shape)


@dataclass(frozen=True)
class PackedBits(_Xor):
    """Bits that fill words of `dtype`."""

    dtype: np.dtype

    @property
    def bits(self) -> int:  # type: ignore[override]  # derived from the word
        return 8 * self.dtype.itemsize


@dataclass(frozen=True)
class PackedIntegers(_Packing):
    """Integers modulo 2^width, 8 / width to a byte, lowest first; 1, 2, 4 or 8 bits wide."""

    width: int
    dtype: np.dtype = U8
    bits: int = 8

    @property
    def per_word(self) -> int:
        return self.bits // self.width

    @property
    def _top(self) -> np.uint8:
        """The top bit of every integer; its carry is dropped."""
        return np.uint8(sum(1 << self.width * i - 1 for i in range(1, self.per_word + 1)))

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        top = self._top
        return (x & ~top) + (y & ~top) ^ (x ^ y) & top

    def subtract(self, x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        top = self._top
        return np.bitwise_xor((x | top) - (y & ~top), ~(x ^ y) & top, out=out)

    def words(self, count: int) -> int:
        """Return the number of words for `count` integers."""
        return -(-count // self.per_word)

    def join(self, integers: np.ndarray) -> np.ndarray:
        """The low bits of integers uint8[.., k] -> words uint8[.., words(k)]."""
        words = np.zeros((*integers.shape[:-1], self.words(integers.shape[-1])), U8)
        for i in range(self.per_word):
            part = low_bits(integers[..., i :: self.per_word], self.width)
            words[..., : part.shape[-1]] |= part << U8.type(self.width * i)
        return words

    def split(self, words: np.ndarray, count: int) -> np.ndarray:
        """Inverse of `join` for `count` integers, 0 .. 2^width - 1."""
        parts = np.empty((*words.shape, self.per_word), U8)
        for i in range(self.per_word):
            parts[..., i] = low_bits(words >> U8.type(self.width * i), self.width)
        return parts.reshape(*words.shape[:-1], words.shape[-1] * self.per_word)[..., :count]


@dataclass(frozen=True)
class WideIntegers(_Packing):
    """Integers modulo 2^128: arrays whose last axis is (low word, high word)."""

    dtype: np.dtype = U64
    bits: int = 64

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        low = x[..., 0] + y[..., 0]
        return np.stack([low, x[..., 1] + y[..., 1] + (low < x[..., 0])], axis=-1)

    def subtract(self, x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        low = x[..., 0] - y[..., 0]
        return np.stack([low, x[..., 1] - y[..., 1] - (x[..., 0] < y[..., 0])], axis=-1, out=out)

    def product(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Multiply; the leading axes broadcast."""
        half = np.uint64(32)
        (a, b), (c, d) = ((low_bits(w[..., 0], 32), w[..., 0] >> half) for w in (x, y))
        middle = b * c + (a * c >> half)
        carried = low_bits(middle, 32) + a * d
        high = b * d + (middle >> half) + (carried >> half)
        return np.stack([x[..., 0] * y[..., 0], high + x[..., 0] * y[..., 1] + x[..., 1] * y[..., 0]], axis=-1)

    def sum(self, x: np.ndarray, axis: int) -> np.ndarray:
        """Sum along an axis, counted from the front, of fewer than 2^32 elements."""
        low, high = (low_bits(x[..., 0], 32).sum(axis=axis), (x[..., 0] >> np.uint64(32)).sum(axis=axis))
        upper = high + (low >> np.uint64(32))
        carry = upper >> np.uint64(32)
        return np.stack([low_bits(low, 32) | upper << np.uint64(32), x[..., 1].sum(axis=axis) + carry], axis=-1)

    def widened(self, words: np.ndarray) -> np.ndarray:
        """Return 64-bit words as integers 0 .. 2^64 - 1."""
        return np.stack([words, np.zeros_like(words)], axis=-1)


GF2 = BitRing()
Z128 = WideIntegers()
Z8, Z16, Z32, Z64 = (Z2k(dtype) for dtype in (U8, U16, U32, U64))
# Ring: of shares that programs hold. ShareRing adds packed bits, which occur only between products of bits. AnyRing:
# whatever is dealt or sent.
Ring: TypeAlias = Z2k | BitRing
ShareRing: TypeAlias = Ring | PackedBits
AnyRing: TypeAlias = ShareRing | PackedIntegers | WideIntegers

integers = functools.cache(Z2k)
packed_bits = functools.cache(PackedBits)
packed_integers = functools.cache(PackedIntegers)
