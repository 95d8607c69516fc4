"""Base OT: random 1-of-2 OT of 128-bit keys, the "Endemic OT" of Masny and Rindal over ML-KEM-768.

Functionality  choices c_i of the receiver -> sender: keys (k_i0, k_i1); receiver: k_ic, c = c_i
Messages       receiver -> sender: r_i0, r_i1 with r_c = pk - H(i, c, r_(1-c)), r_(1-c) random        (one round)
               sender -> receiver: encapsulations to r_ij + H(i, j, r_i(1-j)), j = 0, 1               (one round)
Cost           2 x 1184 bytes and 2 x 1088 bytes per OT
Security       malicious, with keys that a party which deviates may choose (endemic): MLWE and random oracles. A public
               key is pseudorandom in Z_3329^768 x {0, 1}^256, so the two r are indistinguishable; the oracle determines
               the other key after r, and nobody has its secret key. A wrong ciphertext gives a random key, which what
               is built on it has to find
Source         Masny and Rindal, CCS 2019; ML-KEM: FIPS 203
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey

from mpc.errors import ProtocolDesync
from mpc.rounds import Round, Steps

_MODULUS, _COEFFICIENTS, _SEED = 3329, 768, 32
_KEY, _CIPHERTEXT = 1184, 1088
# 12-bit candidates for the coefficients: 1040 are expected below the modulus; too few are 19 standard deviations away.
_CANDIDATES = 1280


def send_base(count: int, session: bytes) -> Steps[np.ndarray]:
    """Make `count` pairs of keys, uint64[count, 2 (choice), 2]; `session` must be fresh and of this direction only.

    Raises ProtocolDesync if the peer sends a malformed key.
    """
    (data,) = yield Round([], [count * 2 * _KEY], "ot.base")
    offers = data.reshape(count, 2, _KEY)
    if (bad := (_coefficients(offers) >= _MODULUS).any(axis=(1, 2))).any():
        raise ProtocolDesync(
            f"ot.base: coefficients of ML-KEM-768 keys must be below {_MODULUS}; those of the peer for OT number "
            f"{bad.argmax()} are not"
        )
    ciphertexts = np.empty((count, 2, _CIPHERTEXT), np.uint8)
    keys = np.empty((count, 2, 2), np.uint64)
    for j in range(2):
        public = _sum(offers[:, j], _oracle(session, np.full(count, j), offers[:, 1 - j]), 1)
        for i in range(count):
            secret, ciphertext = MLKEM768PublicKey.from_public_bytes(public[i].tobytes()).encapsulate()
            ciphertexts[i, j] = np.frombuffer(ciphertext, np.uint8)
            keys[i, j] = _key(session, i, j, secret)
    yield Round([ciphertexts.reshape(-1)], [], "ot.base")
    return keys


def receive_base(choices: np.ndarray, session: bytes) -> Steps[np.ndarray]:
    """Receive the keys chosen by the bits `choices`, uint8[count], as uint64[count, 2]."""
    count = choices.size
    private = [MLKEM768PrivateKey.generate() for _ in range(count)]
    public = np.stack([np.frombuffer(key.public_key().public_bytes_raw(), np.uint8) for key in private])
    others = np.stack([_element(os.urandom(_SEED)) for _ in range(count)])
    offers = np.empty((count, 2, _KEY), np.uint8)
    rows = np.arange(count)
    offers[rows, 1 - choices] = others
    offers[rows, choices] = _sum(public, _oracle(session, choices, others), -1)
    yield Round([offers.reshape(-1)], [], "ot.base")
    (data,) = yield Round([], [count * 2 * _CIPHERTEXT], "ot.base")
    chosen = data.reshape(count, 2, _CIPHERTEXT)[rows, choices]
    return np.stack(
        [
            _key(session, i, int(choices[i]), private[i].decapsulate(ciphertext.tobytes()))
            for i, ciphertext in enumerate(chosen)
        ]
    )


def _coefficients(keys: np.ndarray) -> np.ndarray:
    """Keys uint8[.., 1184] -> the polynomials, int32[.., 768]."""
    triples = keys[..., :-_SEED].reshape(*keys.shape[:-1], -1, 3).astype(np.int32)
    low = triples[..., 0] | (triples[..., 1] & 15) << 8
    high = triples[..., 1] >> 4 | triples[..., 2] << 4
    return np.stack([low, high], axis=-1).reshape(*keys.shape[:-1], -1)


def _encoded(coefficients: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Polynomials int32[.., 768] and seeds uint8[.., 32] -> keys uint8[.., 1184]."""
    pairs = coefficients.reshape(*coefficients.shape[:-1], -1, 2)
    low, high = pairs[..., 0], pairs[..., 1]
    triples = np.stack([low & 255, low >> 8 | (high & 15) << 4, high >> 4], axis=-1).astype(np.uint8)
    return np.concatenate([triples.reshape(*coefficients.shape[:-1], -1), seeds], axis=-1)


def _sum(keys: np.ndarray, others: np.ndarray, sign: int) -> np.ndarray:
    """keys + sign others in the group Z_3329^768 x {0, 1}^256; all uint8[n, 1184]."""
    coefficients = (_coefficients(keys) + sign * _coefficients(others)) % _MODULUS
    return _encoded(coefficients, keys[:, -_SEED:] ^ others[:, -_SEED:])


def _element(seed: bytes) -> np.ndarray:
    """Derive a uniform element of the group from a seed, by rejection: uint8[1184]."""
    stream = hashlib.shake_256(seed).digest(_SEED + 2 * _CANDIDATES)
    candidates = np.frombuffer(stream, np.uint16, offset=_SEED).astype(np.int32) & 4095
    coefficients = candidates[candidates < _MODULUS][:_COEFFICIENTS]
    assert coefficients.size == _COEFFICIENTS, "there are far more candidates than coefficients"
    return _encoded(coefficients, np.frombuffer(stream, np.uint8, _SEED))


def _oracle(session: bytes, places: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """H(i, place of i, key i) for all OTs i: elements of the group, uint8[n, 1184]."""
    return np.stack(
        [
            _element(b"sharewood base OT, element" + session + _position(i, int(place)) + key.tobytes())
            for i, (place, key) in enumerate(zip(places, keys, strict=True))
        ]
    )


def _key(session: bytes, i: int, place: int, secret: bytes) -> np.ndarray:
    hashed = hashlib.sha256(b"sharewood base OT, key" + session + _position(i, place) + secret)
    return np.frombuffer(hashed.digest(), np.uint64, 2)


def _position(i: int, place: int) -> bytes:
    return i.to_bytes(4, "little") + bytes([place])
