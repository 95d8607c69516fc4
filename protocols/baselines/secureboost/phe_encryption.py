"""Paillier by phe, with gmpy2's arithmetic: slower, for machines without a wheel of sf-heu.

Powers (encryption, blinding, shifts, decryption) take nearly all the time and use all cores; additions use one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gmpy2
import numpy as np
from phe import EncodedNumber, EncryptedNumber, PaillierPrivateKey, PaillierPublicKey, generate_paillier_keypair

from mpc.errors import ProtocolDesync, RangeError
from protocols.baselines.secureboost.encryption import Ciphertexts, Library, PrivateKey, PublicKey

_add = np.frompyfunc(lambda a, b: a + b, 2, 1)
_subtract = np.frompyfunc(lambda a, b: a - b, 2, 1)


def over_cores(function: Callable[[Any], object], values: np.ndarray) -> np.ndarray:
    """Apply a function to every value, object arrays of one shape, with one thread per core."""
    with ThreadPoolExecutor(os.cpu_count(), initializer=_release_python_during_powers) as pool:
        results = np.fromiter(pool.map(function, values.flat), object, values.size)
    return results.reshape(values.shape)


def _release_python_during_powers() -> None:
    gmpy2.get_context().allow_release_gil = True  # each thread has its own context


class PhePublicKey(PublicKey):
    """Ciphertexts are phe's EncryptedNumber in object arrays."""

    library: Library = "phe"

    def __init__(self, key: PaillierPublicKey) -> None:
        self._key = key
        # phe keeps the middle third of the plaintexts free to detect overflow.
        self.plaintext_bits = key.max_int.bit_length()
        self._width = (key.nsquare.bit_length() + 7) // 8

    @classmethod
    def from_bytes(cls, encoded: bytes) -> PhePublicKey:
        n = int.from_bytes(encoded, "little")
        if n.bit_length() < 1024:
            raise ProtocolDesync("the guest's public key cannot be read")
        return cls(PaillierPublicKey(n))

    def to_bytes(self) -> bytes:
        return self._key.n.to_bytes(self._width, "little")

    def encrypt(self, plaintexts: np.ndarray) -> Ciphertexts:
        return over_cores(lambda m: self._key.encrypt(EncodedNumber(self._key, int(m) % self._key.n, 0)), plaintexts)

    def dump(self, ciphertexts: Ciphertexts) -> bytes:
        return b"".join(int(c.ciphertext(be_secure=False)).to_bytes(self._width, "little") for c in ciphertexts.flat)

    def load(self, encoded: bytes, rows: int, columns: int) -> Ciphertexts:
        if len(encoded) != rows * columns * self._width:
            raise ProtocolDesync(f"expected {rows} x {columns} ciphertexts, got {len(encoded)} bytes")
        words = [encoded[i : i + self._width] for i in range(0, len(encoded), self._width)]
        numbers = [EncryptedNumber(self._key, int.from_bytes(word, "little"), 0) for word in words]
        return np.array(numbers, object).reshape(rows, columns)

    def bucket_sums(
        self, ciphertexts: Ciphertexts, members: list[np.ndarray], bins: np.ndarray, size: int
    ) -> list[Ciphertexts]:
        nothing = EncryptedNumber(self._key, 1, 0)
        flat = bins + np.arange(bins.shape[1]) * size
        sums = []
        for member in members:
            out = np.full((bins.shape[1] * size, ciphertexts.shape[1]), nothing, object)
            for feature in range(bins.shape[1]):
                np.add.at(out, flat[member, feature], ciphertexts[member])
            sums.append(out)
        return sums

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        return _add(a, b)

    def subtract(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        return _subtract(a, b)

    def shift(self, ciphertexts: Ciphertexts, bits: int) -> Ciphertexts:
        factor = EncodedNumber(self._key, 1 << bits, 0)
        return over_cores(lambda c: c * factor, ciphertexts)

    def rows(self, ciphertexts: Ciphertexts, start: int, stop: int) -> Ciphertexts:
        return ciphertexts[start:stop]

    def count(self, ciphertexts: Ciphertexts) -> int:
        return len(ciphertexts)


class _PhePrivateKey(PrivateKey):
    def __init__(self, public: PaillierPublicKey, key: PaillierPrivateKey) -> None:
        self.public = PhePublicKey(public)
        self._key = key

    def decrypt(self, ciphertexts: Ciphertexts) -> np.ndarray:
        try:
            return over_cores(lambda c: self._key.decrypt_encoded(c).decode(), ciphertexts)
        except OverflowError:
            raise RangeError("a decrypted sum is out of its range") from None


def generate(bits: int) -> PrivateKey:
    return _PhePrivateKey(*generate_paillier_keypair(n_length=bits))
