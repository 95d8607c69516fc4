"""The clients' keys on P-384, in OpenSSH's files; the keys that authenticate Flower's supernodes can be used."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mpc.errors import ConfigError
from mpc.host.files import write_bytes

_WANTED = "must hold a key as ssh-keygen -t ecdsa -b 384 writes it, without a passphrase"


def private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a private key. Raises ConfigError."""
    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise ConfigError(f"client-key: {path}: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"client-key: {path} {_WANTED}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
        raise ConfigError(f"client-key: {path} {_WANTED}")
    return key


def public_keys(path: Path) -> list[ec.EllipticCurvePublicKey]:
    """Read the public keys of a file, one per line, without repetition. Raises ConfigError."""
    try:
        lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise ConfigError(f"client-keys: {path}: {error.strerror}") from None
    keys: list[ec.EllipticCurvePublicKey] = []
    for number, line in enumerate(lines, 1):
        try:
            key = serialization.load_ssh_public_key(line)
        except (ValueError, UnsupportedAlgorithm):
            raise ConfigError(f"client-keys: {path}: line {number} {_WANTED}") from None
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
            raise ConfigError(f"client-keys: {path}: line {number} {_WANTED}")
        if key in keys:
            raise ConfigError(f"client-keys: {path}: line {number} repeats a key")
        keys.append(key)
    return keys


def write_key_pair(private: Path, public: Path) -> None:
    """Write a new key: the private key to one file, the public key as another line of a second file."""
    key = ec.generate_private_key(ec.SECP384R1())
    form = serialization.PrivateFormat.OpenSSH
    write_bytes(private, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    # A line of anybody else in this file would be another client's key.
    with open(os.open(public, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        file.write(line + b"\n")
