"""Signatures by every kind of key that TLS certificates have."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from mpc.errors import ConfigError
from protocols.transport.certificates import Credentials
from sharewood.record.signatures import is_signed, sign

KEYS = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
}


def credentials(key):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "party_a")])
    now = dt.datetime(2026, 1, 1)
    built = x509.CertificateBuilder(name, name, key.public_key(), 7, now, now + dt.timedelta(days=1))
    certificate = built.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    return Credentials(certificate.public_bytes(Encoding.PEM), pem, b"", b"secret"), certificate


@pytest.mark.parametrize("kind", KEYS)
def test_a_signature_holds_for_its_text_and_key_only(kind):
    own, certificate = credentials(KEYS[kind]())
    _, other = credentials(KEYS[kind]())
    signature = sign(own, "a text")
    assert is_signed(certificate, "a text", signature)
    assert not is_signed(certificate, "a text ", signature) and not is_signed(other, "a text", signature)
    for wrong in (
        "",
        signature[:-2],
        signature + "00",
        "00" + signature,
        signature.upper(),
        f" {signature}",
        "0x",
        "zz",
    ):
        assert not is_signed(certificate, "a text", wrong)
    assert not any(is_signed(certificate, "a text", other * (len(signature) // 2)) for other in ("00", "ff"))


def test_other_keys_are_refused():
    key = dsa.generate_private_key(2048)
    own, certificate = credentials(key)
    with pytest.raises(ConfigError, match="must be ECDSA, Ed25519 or RSA to sign a record"):
        sign(own, "a text")
    assert not is_signed(certificate, "a text", "00")
