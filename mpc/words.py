"""Words of the rings Z_2^k and the byte packing of words and bits on the wire."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from mpc.errors import DataError, RangeError
from mpc.host.streaming import pieces

U8, U16, U32, U64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))

_BIT = np.dtype(bool)

Shape = tuple[int, ...]


def smallest_word(bits: int) -> np.dtype:
    """Return the narrowest word of at least `bits` bits, 1 .. 64."""
    return next(dtype for dtype in (U8, U16, U32, U64) if bits <= 8 * dtype.itemsize)


def to_units(values: ArrayLike, scale: int = 0, rounded: Callable[[np.ndarray], np.ndarray] = np.rint) -> np.ndarray:
    """Return public numbers in units of 2^-scale, int64: integers as they are, floats `rounded` to whole units.

    With `np.rint` at scale 0, floats must be integers. Raises DataError for anything else, RangeError beyond 64 bits.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise DataError("a share takes an array of numbers: all rows must have the same length") from None
    kind = array.dtype.kind
    if kind in "bi" or (kind == "u" and (array.itemsize < 8 or not (array >> np.uint64(63)).any())):
        return array.astype(np.int64)
    if kind == "u" or (kind == "O" and all(isinstance(v, int) for v in array.flat)):
        raise RangeError("integers of a share must fit 64 bits with sign, got a larger one")
    if kind != "f":
        raise DataError(f"a share takes integers or floats, got {np.ravel(array)[:1].tolist() or array.dtype}")
    scaled = np.ldexp(array.astype(np.float64), scale)
    units = rounded(scaled)
    if np.isnan(scaled).any():
        raise DataError("numbers of a share must be finite, got nan")
    if (np.abs(scaled) >= 2.0**63).any():
        raise RangeError(f"{np.abs(array).max():g} at scale {scale} does not fit the 64 bits of a share")
    if scale == 0 and rounded is np.rint and (units != scaled).any():
        first = array[units != scaled].flat[0]
        raise DataError(
            f"values of a share at scale 0 must be integers, got {first:g}: share with a scale, as in scale=16"
        )
    return units.astype(np.int64)


def encode_signed(values: ArrayLike, dtype: np.dtype = U64, scale: int = 0) -> np.ndarray:
    """Encode public numbers, as `to_units` takes them, in two's complement words of `dtype`."""
    return to_units(values, scale).astype(dtype)


def decode_signed(words: np.ndarray) -> np.ndarray:
    """Decode words to the signed integers that they stand for, as int64."""
    return words.view(np.dtype(f"i{words.dtype.itemsize}")).astype(np.int64)


def low_bits(words: np.ndarray, bits: int) -> np.ndarray:
    """words mod 2^bits."""
    if bits >= words.dtype.itemsize * 8:
        return words
    return words & words.dtype.type((1 << bits) - 1)


@functools.cache
def _parts(bits: int) -> tuple[tuple[np.dtype, int], ...]:
    """Return the parts of a word of `bits` bits on the wire: the type of each part, and its place in the word.

    Parts are whole bytes in the widest types that fit, lowest first; a single bit beyond whole bytes is its own part.
    """
    single = bits % 8 == 1
    size, place = (bits if single else bits + 7) // 8, 0
    parts = []
    for dtype in (U64, U32, U16, U8):
        if size & dtype.itemsize:
            parts.append((dtype, place))
            place += 8 * dtype.itemsize
    return (*parts, (_BIT, place)) if single else tuple(parts)


def packed_sizes(count: int, bits: int) -> list[int]:
    """Return the bytes of each array of `pack_words` for `count` words."""
    return [-(-count // 8) if dtype == _BIT else count * dtype.itemsize for dtype, _ in _parts(bits)]


def packed_size(count: int, bits: int) -> int:
    """Return the bytes of `count` words of `bits` bits on the wire."""
    return sum(packed_sizes(count, bits))


def pack_words(words: np.ndarray, bits: int) -> list[np.ndarray]:
    """Pack words below 2^bits into flat byte arrays, one for each part of a word; single bits go eight to a byte."""
    flat = np.ascontiguousarray(words).reshape(-1)
    packed = []
    for dtype, place in _parts(bits):
        single = dtype == _BIT
        part = _shifted(flat, U8 if single else dtype, place)
        packed.append(pack_bits(part) if single else part.view(U8))
    return packed


def _shifted(words: np.ndarray, dtype: np.dtype, place: int) -> np.ndarray:
    """Return the bits of flat words from `place` up, as many as the type holds."""
    if not place:
        return words.astype(dtype, copy=False)
    out = np.empty(words.size, dtype)
    for some in pieces(words.size, words.itemsize):
        out[some] = words[some] >> words.dtype.type(place)
    return out


def unpack_words(packed: Sequence[np.ndarray], shape: Shape, dtype: np.dtype, bits: int) -> np.ndarray:
    """Inverse of `pack_words`."""
    (lowest, _), *higher = _parts(bits)
    words = _part(packed[0], lowest, shape).astype(dtype, copy=False)
    for data, (narrow, place) in zip(packed[1:], higher, strict=True):
        part = _part(data, narrow, shape)
        for some in pieces(words.size, words.itemsize):
            words[some] |= part[some].astype(dtype) << dtype.type(place)
    return words.reshape(shape)


def _part(data: np.ndarray, narrow: np.dtype, shape: Shape) -> np.ndarray:
    """Return a packed part as a flat array."""
    return unpack_bits(data, (math.prod(shape),)) if narrow == _BIT else data.view(narrow)


def pack_bits(bits: np.ndarray) -> np.ndarray:
    """Pack 0/1 bytes, eight to a byte, little-endian."""
    return np.packbits(np.ascontiguousarray(bits).reshape(-1), bitorder="little")


def unpack_bits(data: np.ndarray, shape: Shape) -> np.ndarray:
    """Inverse of `pack_bits`."""
    return np.unpackbits(data, count=math.prod(shape), bitorder="little").reshape(shape)
