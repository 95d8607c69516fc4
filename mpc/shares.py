"""Shares: one party's half of a secret array. Using one as a value raises TypeError.

AShare  x = x_0 + x_1 mod 2^k, k = 8, 16, 32 or 64: two's complement integers at a fixed-point `scale`
        (the secret stands for x / 2^scale).
BShare  b = b_0 xor b_1: bits, one per byte, so that they can be sliced and broadcast; eight per byte on the wire.
PShare  w = w_0 xor w_1: packed bits, filling the words. Products of bits are computed on these.

Addition, public factors and slicing are local. Operations that need messages are protocols: `x * y`, `x @ y`, `x / y`,
`x ** 2`, `abs(x)`, `x < y`, `x == y`, `x.max()` and others run through the current session (mpc/operators.py), and
raise TypeError without one. A share knows its party's rank, so that only party 0 adds a public constant.
Public operands: integers are in units of 2^-scale, as `party.share` takes them; floats are the numbers themselves,
rounded to units. At scale 0, a float that is not an integer is refused.
The scales of factors add. A product whose scale leaves no bit for whole numbers raises RangeError: truncate first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from mpc.errors import DataError, RangeError, ScaleMismatch, ShapeMismatch
from mpc.rings import GF2, Z64, BitRing, PackedBits, ShareRing, Z2k, integers, packed_bits
from mpc.words import Shape, encode_signed, pack_bits, to_units, unpack_bits

# The other operand of a share: another share, or public numbers.
Operand: TypeAlias = "AShare | ArrayLike"


class Operations(Protocol):
    """The protocols that the operators of shares need from a session."""

    def multiply(self, x: AShare, y: AShare) -> AShare: ...

    def matmul(self, x: AShare, y: AShare) -> AShare: ...

    def negative(self, x: AShare) -> BShare: ...

    def zero(self, x: AShare) -> BShare: ...

    def divide(self, x: AShare, y: AShare) -> AShare: ...

    def scaled_down(self, x: AShare, by: np.ndarray) -> AShare: ...

    def absolute(self, x: AShare) -> AShare: ...

    def first_maximum(self, x: AShare) -> tuple[AShare, AShare]: ...

    def choose(self, b: BShare, x: AShare) -> AShare: ...

    def both(self, a: BShare, b: BShare) -> BShare: ...


SESSION: ContextVar[Operations] = ContextVar("session")


def _session(symbol: str) -> Operations:
    session = SESSION.get(None)
    if session is None:
        raise TypeError(f"{symbol} on shares needs a session: use it inside `with session(party):`")
    return session


def product_scale(x: AShare, scale: int) -> int:
    """Return the scale of a product of x and a factor at `scale`. Raises RangeError if no bit is left for numbers."""
    total = x.scale + scale
    if total and total >= x.ring.bits - 1:
        raise RangeError(
            f"a product of scales {x.scale} and {scale} has scale {total}, at which {x.ring.bits} bits hold no number "
            "of 1 or more: truncate a factor first (mpc.rounding.truncation.truncate), or share it at a smaller scale"
        )
    return total


class Share:
    """Base of all shares: shape, slicing, and errors where a share is used as a value."""

    rank: int

    @property
    def _words(self) -> np.ndarray:
        raise NotImplementedError

    @property
    def ring(self) -> ShareRing:
        """The ring that the words are elements of."""
        raise NotImplementedError

    def _like(self, words: np.ndarray) -> Self:
        raise NotImplementedError

    @property
    def shape(self) -> Shape:
        return self._words.shape

    @property
    def size(self) -> int:
        return self._words.size

    @property
    def ndim(self) -> int:
        return self._words.ndim

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, key: Any) -> Self:
        return self._like(self._words[key])

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Self:
        """Apply a rearrangement of entries (transpose, take, repeat ...) to the share."""
        return self._like(function(self._words))

    def with_part(self, key: Any, part: Self) -> Self:
        """Return a copy in which `part`, a share of the same kind, takes the place of x[key]."""
        words = self._words.copy()
        words[key] = part._words
        return self._like(words)

    def reshape(self, *shape: int) -> Self:
        return self._like(self._words.reshape(*shape))

    def transpose(self, *axes: int) -> Self:
        # Kernels are compiled for contiguous arrays.
        return self._like(np.ascontiguousarray(self._words.transpose(*axes)))

    @property
    def T(self) -> Self:
        return self.transpose()

    def __repr__(self) -> str:
        """Return shape, ring and scale, never data."""
        return f"{type(self).__name__}({', '.join([f'shape={self.shape}', *self._facts(), f'rank={self.rank}'])})"

    def _facts(self) -> list[str]:
        return []

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(f"this {type(self).__name__} is one half of a secret, not a value: use party.reveal")

    __bool__ = __float__ = __int__ = __index__ = __array__ = __iter__ = __hash__ = _refuse
    __eq__ = __ne__ = _refuse
    __array_ufunc__ = None


class _WordShare(Share):
    """A share of whole words."""

    words: np.ndarray

    @property
    def _words(self) -> np.ndarray:
        return self.words

    @property
    def dtype(self) -> np.dtype:
        return self.words.dtype


@dataclass(frozen=True, eq=False, repr=False)
class AShare(_WordShare):
    """One party's additive share: `words` (uint8/16/32/64 array), `scale` in fractional bits."""

    words: np.ndarray
    rank: int
    scale: int = 0

    @property
    def ring(self) -> Z2k:
        return integers(self.words.dtype)

    def _like(self, words: np.ndarray) -> Self:
        return type(self)(words, self.rank, self.scale)

    def _facts(self) -> list[str]:
        return [f"scale={self.scale}", f"ring=Z_2^{self.ring.bits}"]

    def _operand(self, other: Operand) -> np.ndarray | int:
        if isinstance(other, AShare):
            if other.scale != self.scale:
                raise ScaleMismatch(f"cannot add scale {other.scale} to scale {self.scale}")
            return other.words
        constant = encode_signed(other, self.dtype, self.scale)
        return constant if self.rank == 0 else np.zeros_like(constant)

    def __add__(self, other: Operand) -> AShare:
        """[x] + [y], or [x] + c with c public. Raises ScaleMismatch, DataError, RangeError."""
        return self._like(self.words + self._operand(other))

    __radd__ = __add__

    def __sub__(self, other: Operand) -> AShare:
        return self._like(self.words - self._operand(other))

    def __rsub__(self, other: Operand) -> AShare:
        return -self + other

    def __neg__(self) -> AShare:
        return self._like(np.zeros_like(self.words) - self.words)

    def __mul__(self, other: Operand) -> AShare:
        """[x] times public numbers, local; or [x] [y] of shapes that broadcast."""
        if isinstance(other, AShare):
            return _session("x * y").multiply(self, other)
        if isinstance(other, BShare):
            return other * self
        return self.times(other, self._scale(other))

    __rmul__ = __mul__

    def __matmul__(self, other: Operand) -> AShare:
        """[X] times a public matrix, local; or [X] [Y]."""
        if isinstance(other, AShare):
            return _session("x @ y").matmul(self, other)
        scale = self._scale(other)
        total = product_scale(self, scale)
        return AShare(self.words @ encode_signed(other, self.dtype, scale), self.rank, total)

    def __rmatmul__(self, other: ArrayLike) -> AShare:
        """A public matrix times [X]; local."""
        scale = self._scale(other)
        total = product_scale(self, scale)
        return AShare(encode_signed(other, self.dtype, scale) @ self.words, self.rank, total)

    def __truediv__(self, other: Operand) -> AShare:
        """[x] / [y], of shapes that broadcast, or [x] / c with c public; the result has the scale of x, above 0.

        Shared y: |y| < 4096 and |x / y| < 2^(32 - scale), with a relative error of 2^-16 and one unit; 0 where y is 0.
        Public c: |x| < 2^(44 - scale) times the smallest |c| over the largest, with a relative error of 2^-18 and one
        unit. In quotients, public operands are numbers, integers too. Raises ScaleMismatch, RangeError.
        """
        self._needs_scale("x / y")
        if isinstance(other, AShare):
            return _session("x / y").divide(self, other)
        return _session("x / y").scaled_down(self, np.asarray(other, np.float64))

    def __rtruediv__(self, other: ArrayLike) -> AShare:
        """c / [y], c public, as [x] / [y]."""
        self._needs_scale("x / y")
        return public_ring(np.asarray(other, np.float64), self.rank, self.scale, self.ring) / self

    def _needs_scale(self, symbol: str) -> None:
        if not self.scale:
            raise ScaleMismatch(f"{symbol} has a fraction, and scale 0 has none: share with a scale, as in scale=16")

    def __pow__(self, power: int) -> AShare:
        """[x]^power for a public integer of 0 or more; the scales add. Raises RangeError."""
        if isinstance(power, bool) or not isinstance(power, int | np.integer) or power < 0:
            raise DataError(f"the power of a share must be an integer of 0 or more, got {power!r}")
        if power == 0:
            return public_ring(np.ones(self.shape, np.int64), self.rank, ring=self.ring)
        half = self if power < 4 else self ** (power // 2)
        if power < 4:
            return self if power == 1 else self * self if power == 2 else self * self * self
        return half * half if power % 2 == 0 else half * half * self

    def __abs__(self) -> AShare:
        return _session("abs(x)").absolute(self)

    def mean(self, axis: int | tuple[int, ...] | None = None) -> AShare:
        """Return the mean at the scale of x, above 0, by `x / c`."""
        total = self.sum(axis)
        return total / float(max(self.size, 1) // max(total.size, 1))

    def max(self, axis: int | None = None) -> AShare:
        """Return the maximum along an axis, or of all; -2^62 <= units < 2^62, and a quarter of any other ring."""
        return self._first_maximum("x.max()", axis, 1)[0]

    def min(self, axis: int | None = None) -> AShare:
        """Return the minimum along an axis, or of all; the range is that of `max`."""
        return -self._first_maximum("x.min()", axis, -1)[0]

    def argmax(self, axis: int | None = None) -> AShare:
        """Return the index of the first maximum along an axis, or in x.reshape(-1), at scale 0; see `max`."""
        return self._first_maximum("x.argmax()", axis, 1)[1]

    def argmin(self, axis: int | None = None) -> AShare:
        """Return the index of the first minimum, as `argmax` does."""
        return self._first_maximum("x.argmin()", axis, -1)[1]

    def _first_maximum(self, symbol: str, axis: int | None, sign: int) -> tuple[AShare, AShare]:
        """Return the maximum of x or of -x, and its index, along an axis, or of the flat x."""
        moved = self.reshape(-1) if axis is None else self.map(lambda w: np.moveaxis(w, axis, -1))
        if not moved.shape[-1]:
            raise ShapeMismatch("an empty share has no maximum or minimum")
        return _session(symbol).first_maximum(moved if sign > 0 else -moved)

    def _scale(self, factor: Any) -> int:
        """Return the scale of a public factor: floats are rounded to the share's scale, integers are exact."""
        return self.scale if np.asarray(factor).dtype.kind == "f" else 0

    def __lt__(self, other: Operand) -> BShare:
        """<x < y>, y shared or public."""
        # For integers, x < y is equivalent to x < ceil(y).
        bound = other if isinstance(other, AShare) else to_units(other, self.scale, np.ceil)
        return _session("x < y").negative(self - bound)

    def __gt__(self, other: Operand) -> BShare:
        bound = other if isinstance(other, AShare) else to_units(other, self.scale, np.floor)
        return _session("x > y").negative(-self + bound)

    def __le__(self, other: Operand) -> BShare:
        return ~(self > other)

    def __ge__(self, other: Operand) -> BShare:
        return ~(self < other)

    def __eq__(self, other: Operand) -> BShare:  # type: ignore[override]  # a comparison of secrets is a secret
        return _session("x == y").zero(self - other)

    def __ne__(self, other: Operand) -> BShare:  # type: ignore[override]  # as __eq__
        return ~_session("x != y").zero(self - other)

    __hash__ = Share.__hash__  # type: ignore[assignment]  # defining __eq__ would remove it

    def times(self, factor: ArrayLike, scale: int = 0) -> AShare:
        """[x] times public numbers at a scale of their own; the scales add. Raises RangeError."""
        total = product_scale(self, scale)
        return AShare(self.words * encode_signed(factor, self.dtype, scale), self.rank, total)

    def sum(self, axis: int | tuple[int, ...] | None = None) -> AShare:
        return self._like(np.asarray(self.words.sum(axis=axis, dtype=self.dtype)))

    def cumsum(self, axis: int) -> AShare:
        return self._like(self.words.cumsum(axis=axis, dtype=self.dtype))

    def at_scale(self, scale: int) -> AShare:
        """Return the same integers, read at another scale."""
        return AShare(self.words, self.rank, scale)

    def narrow(self, ring: Z2k) -> AShare:
        """[x] mod a smaller 2^k: reduction commutes with sharing."""
        return AShare(self.words.astype(ring.dtype), self.rank, self.scale)


@dataclass(frozen=True, eq=False, repr=False)
class BShare(Share):
    """One party's xor share of bits: `bits`, a uint8 array of 0 and 1."""

    bits: np.ndarray
    rank: int

    @property
    def _words(self) -> np.ndarray:
        return self.bits

    @property
    def ring(self) -> BitRing:
        return GF2

    def _like(self, words: np.ndarray) -> Self:
        return type(self)(words, self.rank)

    def __xor__(self, other: BShare | ArrayLike) -> BShare:
        """<a> xor <b>, or <a> xor public bits."""
        if isinstance(other, BShare):
            return self._like(self.bits ^ other.bits)
        public = _bits(other)
        return self._like(self.bits ^ (public if self.rank == 0 else np.zeros_like(public)))

    __rxor__ = __xor__

    def __invert__(self) -> BShare:
        return self._like(self.bits ^ np.uint8(1 - self.rank))

    def __and__(self, other: BShare | ArrayLike) -> BShare:
        """<a> and <b>, of shapes that broadcast, or <a> and public bits, local."""
        if isinstance(other, BShare):
            return _session("a & b").both(self, other)
        return self.masked(np.asarray(other))

    __rand__ = __and__

    def __or__(self, other: BShare | ArrayLike) -> BShare:
        """<a> or <b>, or public bits."""
        return ~(~self & (~other if isinstance(other, BShare) else 1 - _bits(other)))

    __ror__ = __or__

    def __mul__(self, x: AShare) -> AShare:
        """<b> [x], of shapes that broadcast: x where the bit is 1, else 0."""
        return _session("b * x").choose(self, x) if isinstance(x, AShare) else NotImplemented

    def masked(self, public: np.ndarray) -> BShare:
        """<a> and public bits."""
        return self._like(self.bits & _bits(public))

    def parity(self, axis: int) -> BShare:
        """xor along an axis."""
        return self._like(np.bitwise_xor.reduce(self.bits, axis=axis))

    def packed(self) -> PShare:
        """Return the same bits, flat, eight per byte."""
        return PShare(pack_bits(self.bits), self.rank)


@dataclass(frozen=True, eq=False, repr=False)
class PShare(_WordShare):
    """One party's xor share of packed bits: `words`, an array of uint8, uint16, uint32 or uint64."""

    words: np.ndarray
    rank: int

    @property
    def ring(self) -> PackedBits:
        return packed_bits(self.words.dtype)

    def _like(self, words: np.ndarray) -> Self:
        return type(self)(words, self.rank)

    def __xor__(self, other: PShare) -> PShare:
        """<a> xor <b>, bit by bit."""
        return self._like(self.words ^ other.words)

    def __invert__(self) -> PShare:
        return self._like(~self.words if self.rank == 0 else self.words)

    def __lshift__(self, places: int) -> PShare:
        """Shift every bit up by `places` within its word, with zeros below."""
        return self._like(self.words << self.dtype.type(places))

    def unpacked(self, shape: Shape) -> BShare:
        """Inverse of `BShare.packed`."""
        return BShare(unpack_bits(self.words, shape), self.rank)


S = TypeVar("S", bound=Share)


def concatenate(shares: Sequence[S], axis: int = 0) -> S:
    """Join shares of one kind, scale and dtype along an axis."""
    if len({(s.scale, s.dtype) for s in shares if isinstance(s, AShare)}) > 1:
        raise ScaleMismatch("cannot join shares of different scales or rings")
    return shares[0]._like(np.concatenate([s._words for s in shares], axis=axis))


def stack(shares: Sequence[S], axis: int = 0) -> S:
    """Stack shares of one kind, scale and dtype along a new axis."""
    return concatenate([s.map(lambda w: np.expand_dims(w, axis)) for s in shares], axis=axis)


def public_ring(values: ArrayLike, rank: int, scale: int = 0, ring: Z2k = Z64) -> AShare:
    """Return a trivial sharing of public numbers: party 0 holds them, party 1 holds zeros."""
    words = encode_signed(values, ring.dtype, scale)
    return AShare(words if rank == 0 else np.zeros_like(words), rank, scale)


def public_bits(values: ArrayLike, rank: int) -> BShare:
    """Return a trivial sharing of public bits."""
    bits = _bits(values)
    return BShare(bits if rank == 0 else np.zeros_like(bits), rank)


def _bits(values: ArrayLike) -> np.ndarray:
    """Return public bits as uint8. Raises DataError for anything else."""
    array = np.asarray(values)
    if not ((array == 0) | (array == 1)).all():
        raise DataError("public bits must be 0 or 1")
    return array.astype(np.uint8, copy=False)


def same_shape(*shares: Share) -> None:
    """Raise ShapeMismatch unless all shapes agree."""
    if len({s.shape for s in shares}) > 1:
        raise ShapeMismatch(f"shapes differ: {', '.join(str(s.shape) for s in shares)}")
