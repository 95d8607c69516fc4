"""Words of the rings Z_2^k and the byte packing of words and bits on the wire."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

U8, U16, U32, U64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))

Shape = tuple[int, ...]
_WORDS = {dtype.itemsize: dtype for dtype in (U8, U16, U32, U64)}


def smallest_word(bits: int) -> np.dtype:
    """The narrowest word of at least so many bits, 1 .. 64."""
    return next(dtype for dtype in (U8, U16, U32, U64) if bits <= 8 * dtype.itemsize)


def encode_signed(values: np.ndarray, dtype: np.dtype = U64) -> np.ndarray:
    """Integers (any integer dtype) to two's complement words of `dtype`."""
    return np.asarray(values).astype(np.int64).astype(dtype)


def decode_signed(words: np.ndarray) -> np.ndarray:
    """Words to the signed integers that they stand for, as int64."""
    return words.view(np.dtype(f"i{words.dtype.itemsize}")).astype(np.int64)


def low_bits(words: np.ndarray, bits: int) -> np.ndarray:
    """words mod 2^bits."""
    if bits >= words.dtype.itemsize * 8:
        return words
    return words & words.dtype.type((1 << bits) - 1)


def packed_sizes(count: int, bits: int) -> list[int]:
    """Bytes of the arrays of `pack_words` for so many words."""
    width, over = _whole_bytes(bits)
    return [count * width] * (width > 0) + [-(-count // 8)] * over


def packed_size(count: int, bits: int) -> int:
    """Bytes that `count` words of `bits` bits take up on the wire."""
    return sum(packed_sizes(count, bits))


def _whole_bytes(bits: int) -> tuple[int, bool]:
    """Whole bytes that a word of so many bits goes in, and whether one bit is over."""
    over = bits % 8 == 1
    return bits // 8 if over else -(-bits // 8), over


def pack_words(words: np.ndarray, bits: int) -> list[np.ndarray]:
    """Words below 2^bits as flat byte arrays: the whole bytes of each, and a single bit over these, eight to a byte."""
    width, over = _whole_bytes(bits)
    flat = np.ascontiguousarray(words).reshape(-1)
    packed = []
    if width in _WORDS:
        packed.append(flat.astype(_WORDS[width], copy=False).view(U8))
    elif width:
        packed.append(np.ascontiguousarray(flat.view(U8).reshape(-1, flat.dtype.itemsize)[:, :width]).reshape(-1))
    if over:
        packed.append(pack_bits((flat >> flat.dtype.type(8 * width)).astype(U8)))
    return packed


def unpack_words(packed: Sequence[np.ndarray], shape: Shape, dtype: np.dtype, bits: int) -> np.ndarray:
    """Inverse of `pack_words`."""
    width, over = _whole_bytes(bits)
    if width in _WORDS:
        words = packed[0].view(_WORDS[width]).astype(dtype, copy=False)
    elif width:
        wide = np.zeros((packed[0].size // width, dtype.itemsize), U8)
        wide[:, :width] = packed[0].reshape(-1, width)
        words = wide.reshape(-1).view(dtype)
    if over:
        top = unpack_bits(packed[-1], shape).reshape(-1).astype(dtype, copy=False)
        words = words | top << dtype.type(8 * width) if width else top
    return words.reshape(shape)


def pack_bits(bits: np.ndarray) -> np.ndarray:
    """0/1 bytes, eight to a byte, little-endian."""
    return np.packbits(np.ascontiguousarray(bits).reshape(-1), bitorder="little")


def unpack_bits(data: np.ndarray, shape: Shape) -> np.ndarray:
    """Inverse of `pack_bits`."""
    return np.unpackbits(data, count=int(np.prod(shape)), bitorder="little").reshape(shape)
