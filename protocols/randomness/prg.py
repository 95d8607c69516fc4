"""AES-128-CTR streams, one for every (seed, request).

The key of a stream is HKDF-SHA256(seed, salt = nonce of the attempt, info = index of the request), so that a
request can be expanded on its own and no two requests share a stream.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mpc.ring import Shape

_BLOCK = 16
_ZEROS = memoryview(bytes(1 << 20))


@functools.lru_cache(maxsize=16)
def _permutation_key(nonce: bytes) -> bytes:
    """The session's key for fixed-key AES: public, but not chosen by any one participant."""
    return HKDF(hashes.SHA256(), 16, nonce, b"sharewood fixed-key permutation").derive(b"")


class Stream:
    """The pseudorandom words of one request, in order; never rewound."""

    def __init__(self, seed: bytes, nonce: bytes, index: int) -> None:
        self._seed, self._nonce, self._index = seed, nonce, index

    @property
    def permutation_key(self) -> bytes:
        return _permutation_key(self._nonce)

    @functools.cached_property
    def _cipher(self) -> CipherContext:
        # Made when first drawn from: a party often has a request's words already when its corrections come.
        info = b"sharewood stream" + self._index.to_bytes(8, "little")
        key = HKDF(hashes.SHA256(), 16, self._nonce, info).derive(self._seed)
        return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def words(self, shape: Shape, dtype: np.dtype) -> np.ndarray:
        """Uniform words."""
        size = math.prod(shape) * dtype.itemsize
        return self._bytes(size).view(dtype).reshape(shape)

    def bits(self, shape: Shape) -> np.ndarray:
        """Uniform bits, one to a byte."""
        count = math.prod(shape)
        return np.unpackbits(self._bytes(-(-count // 8)), count=count, bitorder="little").reshape(shape)

    def _bytes(self, size: int) -> np.ndarray:
        # The cipher wants room for one block more than it writes.
        out = np.empty(size + _BLOCK, np.uint8)
        room = out.data
        for start in range(0, size, len(_ZEROS)):
            self._cipher.update_into(_ZEROS[: size - start], room[start:])
        return out[:size]
