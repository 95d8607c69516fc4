"""The sum of the clients' vectors, in the clear or from two additive shares.

Functionality  client i holds v_i, float64[n] -> the server holds sum_i v_i over the clients that answered
Messages       client -> server: x_i - r_i (uint64[n]) and Seal_helper(seed of r_i, signature); server -> helper: the
               sealed seeds of one round; helper -> server: sum_i r_i. x_i is v_i in fixed point over Z_2^64.
Cost           8 n + 176 bytes from each client; 176 bytes per client to the helper, 8 n bytes back
Security       semi-honest, two aggregators, the server and the helper, that do not collude: the server sees uniform
               words and the sum, the helper sees seeds of masks and nothing of v. Neither learns any v_i; together
               they learn every v_i. A client gets the helper's public key, and the helper the clients' keys, outside
               this protocol and not from the server, so the server cannot replace clients' seeds by its own.
Drop-out       both shares of a client are sent in one message, so a client is in the sum or it is not. The server
               names the set to the helper, and the helper answers once per round, and never for fewer clients than its
               minimum, so the server cannot subtract one sum from another. A helper that vanishes ends the training.
Source         the sum of Prio without its proofs of validity (Corrigan-Gibbs and Boneh, NSDI 2017, section 3)
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mpc.errors import ConfigError, ProtocolDesync, RangeError
from mpc.words import U64
from protocols.baselines.federated.engine import Federation, Message, Participant, as_bytes, field
from protocols.offline.streams import Streams

FRACTION_BITS = 24
MOST_NUMBERS = 1 << 28
_LIMIT = 2.0 ** (62 - FRACTION_BITS)
_SEED_BYTES, _KEY_BYTES, _TAG_BYTES = 32, 32, 16
_NUMBER_BYTES = 48  # for the curve P-384
_SIGNATURE_BYTES = 2 * _NUMBER_BYTES
SEALED_BYTES = _KEY_BYTES + _SEED_BYTES + _SIGNATURE_BYTES + _TAG_BYTES
_ECDSA = ec.ECDSA(hashes.SHA384())
ClientKey = ec.EllipticCurvePublicKey


class Summation(ABC):
    """How the clients' vectors become one sum. `label` names the round and is used once.

    secure: whether the server learns only the sum.
    """

    secure: bool

    @abstractmethod
    def conceal(self, values: np.ndarray, label: str) -> Message:
        """At a client: float64[n] -> its contribution to the sum `label`."""

    @abstractmethod
    def total(self, federation: Federation, replies: dict[int, Message], label: str, length: int) -> np.ndarray:
        """At the server: compute the sum over the clients that replied, float64[length]."""


class OpenSum(Summation):
    """Every contribution in the clear: the server sees each client's vector."""

    secure = False

    def conceal(self, values: np.ndarray, label: str) -> Message:
        return {"values": np.asarray(values, np.float64)}

    def total(self, federation: Federation, replies: dict[int, Message], label: str, length: int) -> np.ndarray:
        return np.sum([field(reply, "values", np.float64, (length,)) for reply in replies.values()], axis=0)


class SharedSum(Summation):
    """Additive shares between the server and the helper. `helper_key` has 32 bytes at a client; None at the server.

    `clients` bounds the contributions, so that a sum of that many does not overflow Z_2^64. `identity` is the client's
    own key on P-384, for helpers that know their clients.
    """

    secure = True

    def __init__(
        self, helper_key: bytes | None, clients: int, identity: ec.EllipticCurvePrivateKey | None = None
    ) -> None:
        if helper_key is not None and len(helper_key) != _KEY_BYTES:
            raise ConfigError(f"the helper's public key must have {_KEY_BYTES} bytes, got {len(helper_key)}")
        self._helper_key, self._identity = helper_key, identity
        self._limit = _LIMIT / clients

    def conceal(self, values: np.ndarray, label: str) -> Message:
        """Share values. Raises RangeError unless all are finite and within +-2^38 / clients; ConfigError."""
        if self._helper_key is None:
            raise ConfigError("a client of a secure sum needs the helper's public key")
        values = np.asarray(values, np.float64)
        if not (np.abs(values) < self._limit).all():
            raise RangeError(f"sum {label!r}: a contribution must be finite and within +-{self._limit:g}")
        words = np.rint(values * 2.0**FRACTION_BITS).astype(np.int64).view(np.uint64)
        seed = secrets.token_bytes(_SEED_BYTES)
        return {
            "share": words - _mask(seed, label, len(words)),
            "sealed": as_bytes(_seal(seed, label, self._helper_key, self._identity)),
        }

    def total(self, federation: Federation, replies: dict[int, Message], label: str, length: int) -> np.ndarray:
        shares = [field(reply, "share", np.uint64, (length,)) for reply in replies.values()]
        sealed = [field(reply, "sealed", np.uint8, (SEALED_BYTES,)) for reply in replies.values()]
        request = {"label": as_bytes(label.encode()), "length": np.array(length), "sealed": np.stack(sealed)}
        masks = field(federation.ask_helper("unmask", request), "masks", np.uint64, (length,))
        words = np.sum(shares, axis=0, dtype=np.uint64) + masks
        return words.view(np.int64) / 2.0**FRACTION_BITS


class Helper(Participant):
    """The second aggregator: sums masks, once per label, over at least `minimum` of the `clients`.

    With `clients` None it accepts any client, for federations in one process.
    """

    def __init__(
        self, private_key: X25519PrivateKey, minimum: int = 2, clients: Sequence[ClientKey] | None = None
    ) -> None:
        super().__init__()
        if clients is not None and len(clients) < minimum:
            raise ConfigError(f"the helper must know the keys of at least {minimum} clients, got {len(clients)}")
        self._key, self._clients = private_key, clients
        self._minimum = minimum

    @property
    def public_key(self) -> bytes:
        """The public key for the clients, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    @property
    def steps(self) -> dict[str, Callable[[Message], Message]]:
        return {"unmask": self._unmask}

    def _unmask(self, message: Message) -> Message:
        label = field(message, "label", np.uint8, (-1,)).tobytes().decode(errors="replace")
        length = int(field(message, "length", np.int64, ()))
        if not 1 <= length <= MOST_NUMBERS:
            raise ProtocolDesync(f"sum {label!r}: must have 1 to {MOST_NUMBERS} numbers, got {length}")
        sealed = [row.tobytes() for row in field(message, "sealed", np.uint8, (-1, SEALED_BYTES))]
        if label in self._answered():
            raise ProtocolDesync(f"the helper has already answered for sum {label!r}")
        if len(set(sealed)) < max(self._minimum, len(sealed)):
            raise ProtocolDesync(
                f"sum {label!r}: must have seeds of at least {self._minimum} different clients, got {len(set(sealed))}"
            )
        masks, signers = np.zeros(length, np.uint64), []
        for one in sealed:
            seed, signer = self._open(one, label)
            masks += _mask(seed, label, length)
            signers.append(signer)
        if self._clients is not None and len(set(signers) - {None}) < len(sealed):
            raise ProtocolDesync(f"sum {label!r}: every seed must be signed by another client that the helper knows")
        self.memory["answered"] = as_bytes("\n".join([*self._answered(), label]).encode())
        return {"masks": masks}

    def _answered(self) -> list[str]:
        past = self.memory.get("answered")
        return [] if past is None else past.tobytes().decode().split("\n")

    def _open(self, sealed: bytes, label: str) -> tuple[bytes, int | None]:
        """Return the seed, and the number of the client that signed it."""
        public, box = sealed[:_KEY_BYTES], sealed[_KEY_BYTES:]
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(public))
            opened = _cipher(shared, public).decrypt(bytes(12), box, label.encode())
        except (InvalidTag, ValueError):
            raise ProtocolDesync(f"sum {label!r}: a seed was not sealed for this helper and this round") from None
        seed, signature = opened[:_SEED_BYTES], opened[_SEED_BYTES:]
        signed = _to_sign(seed, label, self.public_key)
        return seed, next((i for i, key in enumerate(self._clients or ()) if _has_signed(key, signature, signed)), None)


def _seal(seed: bytes, label: str, helper_key: bytes, identity: ec.EllipticCurvePrivateKey | None) -> bytes:
    ephemeral = X25519PrivateKey.generate()
    public = ephemeral.public_key().public_bytes_raw()
    shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(helper_key))
    signature = bytes(_SIGNATURE_BYTES)
    if identity is not None:
        numbers = decode_dss_signature(identity.sign(_to_sign(seed, label, helper_key), _ECDSA))
        signature = b"".join(number.to_bytes(_NUMBER_BYTES, "big") for number in numbers)
    return public + _cipher(shared, public).encrypt(bytes(12), seed + signature, label.encode())


def _to_sign(seed: bytes, label: str, helper_key: bytes) -> bytes:
    return b"sharewood secure sum" + helper_key + seed + label.encode()


def _has_signed(key: ClientKey, signature: bytes, signed: bytes) -> bool:
    numbers = [int.from_bytes(part, "big") for part in (signature[:_NUMBER_BYTES], signature[_NUMBER_BYTES:])]
    try:
        key.verify(encode_dss_signature(*numbers), signed, _ECDSA)
    except InvalidSignature:
        return False
    return True


def _cipher(shared: bytes, public: bytes) -> ChaCha20Poly1305:
    """Derive a key that is unique to an ephemeral key, so the nonce may be zero."""
    return ChaCha20Poly1305(HKDF(hashes.SHA256(), 32, public, b"sharewood secure sum").derive(shared))


def _mask(seed: bytes, label: str, length: int) -> np.ndarray:
    return Streams(seed, label.encode()).of(0).words((length,), U64)
