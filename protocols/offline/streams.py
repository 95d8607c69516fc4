"""AES-128-CTR streams, one for every request of a session.

The key is HKDF-SHA256(seed, salt = nonce of the session). The counter is the index of the request, then the number of
the block. So requests can be expanded independently, and no two share a block.

The nonce of two workers ends with the domain of their shard, so that keys of different shards differ for any seeds.
"""

from __future__ import annotations

import functools
import hashlib
import math

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mpc.kernels.aes import HAS_AES_NI
from mpc.words import Shape
from protocols.ot.kernels import aes_blocks

_BLOCK = 16
DOMAIN_BYTES = 32
_ZEROS = memoryview(bytes(1 << 16))


def shard_domain(shard: int, count: int, leads: str) -> bytes:
    """Return the bytes that go into every key of two workers: a digest of shard, shard count and the leads' session."""
    return hashlib.sha256(f"sharewood shard {shard} of {count} for {leads}".encode()).digest()


class Streams:
    """The streams of one seed in one session. Use each object from one thread only."""

    def __init__(self, seed: bytes, nonce: bytes) -> None:
        key = HKDF(hashes.SHA256(), 16, nonce, b"sharewood streams").derive(seed)
        self.nonce, self._cipher = nonce, Cipher(algorithms.AES(key), modes.CTR(bytes(_BLOCK))).encryptor()
        (self._schedule,) = aes_blocks.schedules(np.frombuffer(key, np.uint64)[None])

    def of(self, index: int) -> Stream:
        """Return the stream of one request, from its start; every call returns the same words."""
        return Stream(self, index)

    def draw(self, index: int, block: int, size: int) -> np.ndarray:
        """Draw uniform bytes of stream `index`, from `block` on."""
        if HAS_AES_NI:
            blocks = np.empty((-(-size // _BLOCK), 2), np.uint64)
            aes_blocks.stream(self._schedule, index, block, blocks)
            return blocks.reshape(-1).view(np.uint8)[:size]
        return self.draw_portably(index, block, size)

    def draw_portably(self, index: int, block: int, size: int) -> np.ndarray:
        """Draw the same bytes with `cryptography`."""
        self._cipher.reset_nonce(index.to_bytes(8, "big") + block.to_bytes(8, "big"))
        # The cipher needs room for one block more than it writes.
        out = np.empty(size + _BLOCK, np.uint8)
        room = out.data
        for start in range(0, size, len(_ZEROS)):
            self._cipher.update_into(_ZEROS[: size - start], room[start:])
        return out[:size]


class Rows:
    """Uniform words of a stream as an array of a given shape; slices of rows are drawn when they are read."""

    def __init__(self, streams: Streams, index: int, block: int, shape: Shape, dtype: np.dtype) -> None:
        self._streams, self._index, self._block = streams, index, block
        self.shape, self._dtype = shape, dtype

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(self.shape[0])
        row = math.prod(self.shape[1:]) * self._dtype.itemsize
        block, before = divmod(start * row, _BLOCK)
        drawn = self._streams.draw(self._index, self._block + block, before + (stop - start) * row)
        return drawn[before:].view(self._dtype).reshape(stop - start, *self.shape[1:])


class Stream:
    """The pseudorandom words of one request, in order; it cannot be rewound."""

    def __init__(self, streams: Streams, index: int) -> None:
        self._streams, self._index, self._block = streams, index, 0

    @property
    def permutation_key(self) -> bytes:
        return _permutation_key(self._streams.nonce)

    def words(self, shape: Shape, dtype: np.dtype) -> np.ndarray:
        """Draw uniform words."""
        size = math.prod(shape) * dtype.itemsize
        return self._bytes(size).view(dtype).reshape(shape)

    def rows(self, shape: Shape, dtype: np.dtype) -> Rows:
        """Return the words that `words` would draw, to be drawn later."""
        start = self._skip(math.prod(shape) * dtype.itemsize)
        return Rows(self._streams, self._index, start, shape, dtype)

    def bits(self, shape: Shape) -> np.ndarray:
        """Draw uniform bits, one to a byte."""
        count = math.prod(shape)
        return np.unpackbits(self._bytes(-(-count // 8)), count=count, bitorder="little").reshape(shape)

    def _bytes(self, size: int) -> np.ndarray:
        return self._streams.draw(self._index, self._skip(size), size)

    def _skip(self, size: int) -> int:
        """Skip `size` bytes, in whole blocks; return the block at which they begin."""
        start, self._block = self._block, self._block + -(-size // _BLOCK)
        return start


@functools.lru_cache(maxsize=16)
def _permutation_key(nonce: bytes) -> bytes:
    """Return the session's key for fixed-key AES: public, but not chosen by any single participant."""
    return HKDF(hashes.SHA256(), 16, nonce, b"sharewood fixed-key permutation").derive(b"")
