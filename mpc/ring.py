"""Words of the rings Z_2^k and the byte packing of words and bits on the wire."""

from __future__ import annotations

import numpy as np

U8, U16, U32, U64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))

Shape = tuple[int, ...]


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


def packed_size(count: int, bits: int) -> int:
    """Bytes of `count` words of `bits` bits: bits go eight to a byte, words in whole bytes."""
    return -(-count // 8) if bits == 1 else count * (-(-bits // 8))


def pack_words(words: np.ndarray, bits: int) -> np.ndarray:
    """Words below 2^bits as a flat byte array of `packed_size` bytes."""
    width = -(-bits // 8)
    flat = np.ascontiguousarray(words).reshape(-1)
    if width == flat.dtype.itemsize:
        return flat.view(np.uint8)
    return np.ascontiguousarray(flat.view(np.uint8).reshape(-1, flat.dtype.itemsize)[:, :width]).reshape(-1)


def unpack_words(data: np.ndarray, shape: Shape, dtype: np.dtype, bits: int) -> np.ndarray:
    """Inverse of `pack_words`."""
    width = -(-bits // 8)
    if width == dtype.itemsize:
        return data.view(dtype).reshape(shape)
    wide = np.zeros((int(np.prod(shape)), dtype.itemsize), np.uint8)
    wide[:, :width] = data.reshape(-1, width)
    return wide.reshape(-1).view(dtype).reshape(shape)


def pack_bits(bits: np.ndarray) -> np.ndarray:
    """0/1 bytes, eight to a byte, little-endian."""
    return np.packbits(np.ascontiguousarray(bits).reshape(-1), bitorder="little")


def unpack_bits(data: np.ndarray, shape: Shape) -> np.ndarray:
    """Inverse of `pack_bits`."""
    return np.unpackbits(data, count=int(np.prod(shape)), bitorder="little").reshape(shape)
