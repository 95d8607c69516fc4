"""Additively homomorphic encryption of integers: the interface of a library's keys.

A batch of ciphertexts is a matrix in the format of its `PublicKey`. HEU's thread pool does not survive a fork: use keys
only in the process that made or loaded them, and do not fork after making one.

Security  semi-honest; IND-CPA under decisional composite residuosity (Paillier) or the p-subgroup assumption (OU)
Source    Paillier, EUROCRYPT 1999; Okamoto and Uchiyama, EUROCRYPT 1998
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np

Cryptosystem = Literal["paillier", "ou"]
Library = Literal["heu", "phe"]
Ciphertexts = Any


class PublicKey(ABC):
    """The hosts' key: everything but decryption. Plaintexts are Python integers in object arrays."""

    library: Library
    plaintext_bits: int

    @abstractmethod
    def to_bytes(self) -> bytes: ...

    @abstractmethod
    def encrypt(self, plaintexts: np.ndarray) -> Ciphertexts:
        """object[n, c] -> ciphertexts [n, c]; |plaintext| < 2^(plaintext_bits - 1)."""

    @abstractmethod
    def dump(self, ciphertexts: Ciphertexts) -> bytes: ...

    @abstractmethod
    def load(self, encoded: bytes, rows: int, columns: int) -> Ciphertexts:
        """Load ciphertexts [rows, columns] that `dump` wrote. Raises ProtocolDesync for anything else."""

    @abstractmethod
    def bucket_sums(
        self, ciphertexts: Ciphertexts, members: list[np.ndarray], bins: np.ndarray, size: int
    ) -> list[Ciphertexts]:
        """Histograms: ciphertexts [n, c], each node's members bool[n], bins int8[n, d] -> [d * size, c] per node.

        Sum f * size + b is over the members of the node whose feature f is in bin b.
        """

    @abstractmethod
    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts: ...

    @abstractmethod
    def subtract(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts: ...

    @abstractmethod
    def shift(self, ciphertexts: Ciphertexts, bits: int) -> Ciphertexts:
        """Multiply every plaintext by 2^bits."""

    @abstractmethod
    def rows(self, ciphertexts: Ciphertexts, start: int, stop: int) -> Ciphertexts: ...

    @abstractmethod
    def count(self, ciphertexts: Ciphertexts) -> int: ...

    def blind(self, ciphertexts: Ciphertexts, noise: np.ndarray) -> Ciphertexts:
        """Add `noise`, object of the same shape, or zeros, to the plaintexts, under fresh randomness.

        Decryption then reveals only these sums.
        """
        return self.add(ciphertexts, self.encrypt(noise))

    def pack(self, ciphertexts: Ciphertexts, pairs: int, bits: int, noise: np.ndarray) -> Ciphertexts:
        """[m, 1] and noise object[m] -> blinded [ceil(m / pairs), 1].

        Plaintext j of each block of `packed_blocks`, with its noise, is at bit j * bits.
        """
        blocks = packed_blocks(self.count(ciphertexts), pairs)
        packed = self.rows(ciphertexts, *blocks[-1])
        for start, stop in reversed(blocks[:-1]):
            packed = self.add(self.shift(packed, bits), self.rows(ciphertexts, start, stop))
        hidden = np.sum([noise[start:stop] << (j * bits) for j, (start, stop) in enumerate(blocks)], axis=0)
        return self.blind(packed, hidden[:, None])


class PrivateKey(ABC):
    """The guest's key. `public` is the other half."""

    public: PublicKey

    @abstractmethod
    def decrypt(self, ciphertexts: Ciphertexts) -> np.ndarray:
        """Ciphertexts [n, c] -> signed Python integers, object[n, c]. Raises RangeError for an invalid ciphertext."""


def packed_blocks(count: int, pairs: int) -> list[tuple[int, int]]:
    """Return the (start, stop) of sums with the same position in packed ciphertexts; the last two may overlap."""
    length = -(-count // pairs)
    used = -(-count // length)
    starts = [min(j * length, count - length) for j in range(used)]
    return [(start, start + length) for start in starts]
