"""A strict binary codec for plain data: an encoding cannot name code to run.

Values   None, bool, int, float, str, bytes, list, tuple, dict with str keys, numpy array; exact types only.
         Joined arrays of bytes are received as one array
Wire     one code byte, then a body; lengths and shapes are little-endian uint64.  Array bytes start
         at a multiple of 8, so that an array decoded in place is aligned
Strict   `decode` accepts exactly what `encode` writes: every value has one encoding, and anything else
         raises ProtocolDesync, as do values that would take more memory than the caller allows
Copies   none: `encode` refers to the bytes of arrays, and `decode` returns views of the given buffer
"""

import math
import struct
from typing import Any, NoReturn, TypeAlias

import numpy as np

from mpc.errors import ProtocolDesync

Buffer: TypeAlias = bytes | bytearray | memoryview
Tree: TypeAlias = Any  # None | bool | int | float | str | bytes | list | tuple | dict[str, Tree] | np.ndarray

DTYPES = tuple(np.dtype(name) for name in ("?", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f4", "<f8"))
MAX_DEPTH = 32
MAX_NDIM = 16
MAX_INT_BYTES = 1024

_DTYPE_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
_ALIGNMENT = 8
_WORD = struct.Struct("<Q")
_FLOAT = struct.Struct("<d")
# Most bytes of memory for a value and its place in a container, an entry of a dict, an array without its data.
_VALUE, _ENTRY, _ARRAY = 80, 100, 640
_CHARACTER = 4


class Joined(list[np.ndarray]):
    """Arrays of bytes that are sent as one, without being concatenated."""


def byte_view(array: np.ndarray) -> memoryview:
    """Return the bytes of an array, uncopied if it is C-contiguous.  Raises TypeError for an unknown dtype."""
    if array.dtype not in _DTYPE_CODES:
        raise TypeError(f"an array of dtype {array.dtype} cannot be sent")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def encode(tree: Tree) -> list[Buffer]:
    """Return buffers whose concatenation is the encoding of `tree`.

    Raises TypeError for a value of any other type, ValueError for a value that is too large or nested too deeply.
    """
    encoder = _Encoder()
    encoder.value(tree, depth=0)
    return encoder.buffers


def decode(encoded: Buffer, room: float = math.inf) -> Tree:
    """Return the tree that `encode` wrote; its arrays share the memory of `encoded`.

    Raises ProtocolDesync, also if the values take more than `room` bytes of memory.
    """
    decoder = _Decoder(memoryview(encoded), room)
    tree = decoder.value(depth=0)
    if decoder.position != len(encoded):
        _refuse(f"{len(encoded) - decoder.position} bytes after the end")
    return tree


class _Encoder:
    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self._size = 0

    def value(self, value: Tree, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ValueError(f"a value nested more than {MAX_DEPTH} levels deep cannot be sent")
        kind = type(value)
        if value is None:
            self._small(b"N")
        elif kind is bool:
            self._small(b"T" if value else b"F")
        elif kind is int:
            if _int_size(value) > MAX_INT_BYTES:
                raise ValueError(f"an integer of more than {MAX_INT_BYTES} bytes cannot be sent")
            body = value.to_bytes(_int_size(value), "little", signed=True)
            self._small(b"i" + _WORD.pack(len(body)) + body)
        elif kind is float:
            self._small(b"f" + _FLOAT.pack(value))
        elif kind is str:
            self._text(b"s", value)
        elif kind is bytes:
            self._small(b"b" + _WORD.pack(len(value)))
            self._bulk(memoryview(value))
        elif kind is list or kind is tuple:
            self._small((b"l" if kind is list else b"t") + _WORD.pack(len(value)))
            for item in value:
                self.value(item, depth + 1)
        elif kind is dict:
            self._small(b"d" + _WORD.pack(len(value)))
            for key, item in value.items():
                if type(key) is not str:
                    raise TypeError(f"a dict with a key of type {type(key).__name__} cannot be sent")
                self._text(b"", key)
                self.value(item, depth + 1)
        elif kind is np.ndarray:
            self._array(value)
        elif kind is Joined:
            self._shape(np.dtype(np.uint8), (sum(part.nbytes for part in value),))
            for part in value:
                self._bulk(byte_view(part))
        else:
            raise TypeError(f"a value of type {kind.__module__}.{kind.__qualname__} cannot be sent")

    def _text(self, code: bytes, text: str) -> None:
        body = text.encode()
        self._small(code + _WORD.pack(len(body)) + body)

    def _array(self, array: np.ndarray) -> None:
        body = byte_view(array)
        if array.ndim > MAX_NDIM:
            raise ValueError(f"an array of more than {MAX_NDIM} dimensions cannot be sent")
        self._shape(array.dtype, array.shape)
        self._bulk(body)

    def _shape(self, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self._small(b"a" + bytes((_DTYPE_CODES[dtype], len(shape))))
        self._small(b"".join(map(_WORD.pack, shape)))
        self._small(bytes(-self._size % _ALIGNMENT))

    def _small(self, data: bytes) -> None:
        last = self.buffers[-1] if self.buffers else None
        if not isinstance(last, bytearray):
            last = bytearray()
            self.buffers.append(last)
        last += data
        self._size += len(data)

    def _bulk(self, data: memoryview) -> None:
        if data:
            self.buffers.append(data)
            self._size += len(data)


class _Decoder:
    def __init__(self, encoded: memoryview, room: float) -> None:
        self._encoded = encoded
        self._room = room
        self.position = 0

    def value(self, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            _refuse(f"nested more than {MAX_DEPTH} levels deep")
        self._spend(_VALUE)
        match bytes(self._take(1)):
            case b"N":
                return None
            case b"T":
                return True
            case b"F":
                return False
            case b"i":
                return self._int()
            case b"f":
                return _FLOAT.unpack(self._take(_FLOAT.size))[0]
            case b"s":
                return self._text()
            case b"b":
                body = self._take(self._word())
                self._spend(len(body))
                return bytes(body)
            case b"l":
                return [self.value(depth + 1) for _ in range(self._count())]
            case b"t":
                return tuple([self.value(depth + 1) for _ in range(self._count())])
            case b"d":
                return self._dict(depth)
            case b"a":
                return self._array()
            case code:
                _refuse(f"unknown code {code!r}")

    def _spend(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            _refuse("values that take more memory than allowed")

    def _take(self, size: int) -> memoryview:
        start, self.position = self.position, self.position + size
        if self.position > len(self._encoded):
            _refuse(f"{size} bytes announced, {len(self._encoded) - start} left")
        return self._encoded[start : self.position]

    def _word(self) -> int:
        (word,) = _WORD.unpack(self._take(_WORD.size))
        return int(word)

    def _count(self) -> int:
        """Read a number of items, each of which takes at least one byte."""
        count = self._word()
        if count > len(self._encoded) - self.position:
            _refuse(f"{count} items announced, {len(self._encoded) - self.position} bytes left")
        return count

    def _int(self) -> int:
        body = self._take(self._word())
        if len(body) > MAX_INT_BYTES:
            _refuse(f"an integer of {len(body)} bytes")
        value = int.from_bytes(body, "little", signed=True)
        if len(body) != _int_size(value):
            _refuse(f"an integer of {len(body)} bytes that needs {_int_size(value)}")
        return value

    def _text(self) -> str:
        body = self._take(self._word())
        self._spend(_CHARACTER * len(body))
        try:
            return str(body, "utf-8")
        except UnicodeDecodeError as error:
            _refuse(str(error))

    def _dict(self, depth: int) -> dict[str, Tree]:
        items: dict[str, Tree] = {}
        for _ in range(self._count()):
            self._spend(_ENTRY)
            key = self._text()
            if key in items:
                _refuse("a repeated key")
            items[key] = self.value(depth + 1)
        return items

    def _array(self) -> np.ndarray:
        self._spend(_ARRAY)
        code, ndim = self._take(2)
        if code >= len(DTYPES) or ndim > MAX_NDIM:
            _refuse(f"array of dtype code {code} and {ndim} dimensions")
        dtype = DTYPES[code]
        shape = tuple(self._word() for _ in range(ndim))
        # numpy bounds the product of all non-zero dimensions so that no stride overflows.
        if math.prod(max(n, 1) for n in shape) * dtype.itemsize >= 1 << 63:
            _refuse("array shape too large")
        if any(self._take(-self.position % _ALIGNMENT)):
            _refuse("array padding is not zero")
        body = np.frombuffer(self._take(math.prod(shape) * dtype.itemsize), np.uint8)
        if dtype == np.bool_ and body.size and body.max() > 1:
            _refuse("a bool that is neither 0 nor 1")
        return body.view(dtype).reshape(shape)


def _int_size(value: int) -> int:
    """Return the bytes of a two's complement integer: magnitude and sign bit."""
    return value.bit_length() // 8 + 1


def _refuse(why: str) -> NoReturn:
    raise ProtocolDesync(f"malformed data: {why}")
