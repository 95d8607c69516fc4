"""Signatures of statements by the keys of TLS: ECDSA with SHA-256, Ed25519, or RSA-PSS with SHA-256.

A signature covers a prefix that no message of TLS 1.3 begins with: there, 64 spaces are signed first. It has one
encoding: of ECDSA, r and s in as many bytes as the curve's order.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from mpc.errors import ConfigError
from protocols.transport.certificates import Credentials

_PREFIX = b"sharewood record 1\0"
_HASH = hashes.SHA256()
_PADDING = padding.PSS(padding.MGF1(_HASH), padding.PSS.DIGEST_LENGTH)


def sign(credentials: Credentials, statement: str) -> str:
    """Return a signature, in hexadecimal. Raises ConfigError for a key of another kind."""
    key, data = load_pem_private_key(credentials.private_key, credentials.passphrase), _PREFIX + statement.encode()
    if isinstance(key, ec.EllipticCurvePrivateKey):
        size = (key.key_size + 7) // 8
        return b"".join(
            part.to_bytes(size, "big") for part in decode_dss_signature(key.sign(data, ec.ECDSA(_HASH)))
        ).hex()
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(data).hex()
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, _PADDING, _HASH).hex()
    raise ConfigError(f"the private key must be ECDSA, Ed25519 or RSA to sign a record, got {type(key).__name__}")


def is_signed(certificate: x509.Certificate, statement: str, signature: str) -> bool:
    """Return whether the owner of a certificate has signed a statement."""
    key, data = certificate.public_key(), _PREFIX + statement.encode()
    try:
        given = bytes.fromhex(signature)
        if given.hex() != signature:
            return False
        if isinstance(key, ec.EllipticCurvePublicKey):
            half = (key.key_size + 7) // 8
            r, s = (int.from_bytes(part, "big") for part in (given[:half], given[half:]))
            key.verify(encode_dss_signature(r, s), data, ec.ECDSA(_HASH))
            return len(given) == 2 * half
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(given, data)
            return True
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(given, data, _PADDING, _HASH)
            return True
    except (ValueError, InvalidSignature):
        pass
    return False
