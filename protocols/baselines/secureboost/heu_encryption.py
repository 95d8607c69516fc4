"""Paillier and Okamoto-Uchiyama by sf-heu, which uses all cores."""

from __future__ import annotations

import numpy as np
from heu import numpy as hnp
from heu import phe

from mpc.errors import ProtocolDesync, RangeError
from protocols.baselines.secureboost.encryption import Ciphertexts, Cryptosystem, Library, PrivateKey, PublicKey

# The errors that HEU raises for bytes that it did not write.
_MALFORMED = (RuntimeError, IndexError, ValueError, MemoryError)
_SCHEMAS = {"paillier": phe.SchemaType.ZPaillier, "ou": phe.SchemaType.OU}


class HeuPublicKey(PublicKey):
    library: Library = "heu"

    def __init__(self, kit: hnp.DestinationHeKit | hnp.HeKit) -> None:
        self._kit = kit
        self._encryptor, self._evaluator = kit.encryptor(), kit.evaluator()
        self.plaintext_bits = int(str(kit.public_key().plaintext_bound())).bit_length()

    @classmethod
    def from_bytes(cls, encoded: bytes) -> HeuPublicKey:
        try:
            return cls(hnp.setup(phe.PublicKey.load_from(encoded)))
        except _MALFORMED:
            raise ProtocolDesync("the guest's public key cannot be read") from None

    def to_bytes(self) -> bytes:
        return self._kit.public_key().serialize()

    def encrypt(self, plaintexts: np.ndarray) -> Ciphertexts:
        return self._encryptor.encrypt(self._encoded(plaintexts))

    def dump(self, ciphertexts: Ciphertexts) -> bytes:
        return ciphertexts.serialize()

    def load(self, encoded: bytes, rows: int, columns: int) -> Ciphertexts:
        try:
            ciphertexts = hnp.CiphertextArray.load_from(encoded)
        except _MALFORMED:
            raise ProtocolDesync("ciphertexts that cannot be read") from None
        if (ciphertexts.ndim, ciphertexts.rows, ciphertexts.cols) != (2, rows, columns):
            raise ProtocolDesync(
                f"expected {rows} x {columns} ciphertexts, got {ciphertexts.rows} x {ciphertexts.cols}"
            )
        return ciphertexts

    def bucket_sums(
        self, ciphertexts: Ciphertexts, members: list[np.ndarray], bins: np.ndarray, size: int
    ) -> list[Ciphertexts]:
        groups = [member.astype(np.int8) for member in members]
        return self._evaluator.batch_feature_wise_bucket_sum(ciphertexts, groups, bins, size, False)

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        return self._evaluator.add(a, b)

    def subtract(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        return self._evaluator.sub(a, b)

    def shift(self, ciphertexts: Ciphertexts, bits: int) -> Ciphertexts:
        factors = np.full((ciphertexts.rows, ciphertexts.cols), 1 << bits, object)
        return self._evaluator.mul(ciphertexts, self._encoded(factors))

    def rows(self, ciphertexts: Ciphertexts, start: int, stop: int) -> Ciphertexts:
        return ciphertexts[start:stop, 0 : ciphertexts.cols]

    def count(self, ciphertexts: Ciphertexts) -> int:
        return ciphertexts.rows

    def _encoded(self, plaintexts: np.ndarray) -> hnp.PlaintextArray:
        return self._kit.array(plaintexts, phe.BigintEncoderParams())


class _HeuPrivateKey(PrivateKey):
    def __init__(self, kit: hnp.HeKit) -> None:
        self.public = HeuPublicKey(kit)
        self._decryptor = kit.decryptor()

    def decrypt(self, ciphertexts: Ciphertexts) -> np.ndarray:
        try:
            return self._decryptor.decrypt(ciphertexts).to_numpy(phe.BigintDecoder())
        except _MALFORMED:
            raise RangeError("ciphertexts that cannot be decrypted") from None


def generate(cryptosystem: Cryptosystem, bits: int) -> PrivateKey:
    return _HeuPrivateKey(hnp.setup(_SCHEMAS[cryptosystem], bits))
