"""Encryption of files at rest under one key, in authenticated chunks.

Functionality  key, role of a file, bytes -> encrypted bytes, and back; an error in one sentence where that fails
File           "sharewood encrypted" | version u8 | length of the role u8 | role | salt, 32 bytes; then the content in
               chunks of 64 KiB, the last one shorter or empty, each followed by its tag, 16 bytes
Security       ChaCha20-Poly1305 under a separate key per file, HKDF-SHA256 of the key and a random salt. The nonce of a
               chunk is its number, 11 bytes, and 1 for the last chunk, else 0; the header is associated data. Content
               that was altered, truncated or reordered, or that comes from a file of another role, is refused. The role
               and the length are not hidden. Replacement by an older file of the same name is not detected
Source         STREAM: Hoang, Reyhanitabar, Rogaway, Vizar, CRYPTO 2015, in the form of the age file format
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mpc.errors import ConfigError, DataError

KEY_BYTES, TAG_BYTES = 32, 16
_VERSION = 1
_MAGIC = b"sharewood encrypted"
_SALT, _CHUNK, _NONCE = 32, 64 << 10, 12


@dataclass(frozen=True)
class FileKey:
    """The key of all encrypted files of a host, and its origin, for error messages."""

    secret: bytes = field(repr=False)
    source: str

    @classmethod
    def parse(cls, text: str, source: str) -> FileKey:
        """Parse a key of 64 hexadecimal digits. Raises ConfigError, whose message does not contain the digits."""
        try:
            secret = bytes.fromhex(text.strip())
        except ValueError:
            secret = b""
        if len(secret) != KEY_BYTES:
            raise ConfigError(
                f"{source} must have {2 * KEY_BYTES} hexadecimal digits, got a text of {len(text.strip())} "
                "characters: make a key with openssl rand -hex 32"
            )
        return cls(secret, source)

    def encrypt(self, data: bytes, role: str) -> bytes:
        """Encrypt `data`. Inverse of `decrypt`."""
        header = _MAGIC + bytes((_VERSION, len(role.encode()))) + role.encode() + os.urandom(_SALT)
        cipher, parts = self.cipher(header[-_SALT:], b"sharewood file"), [header]
        view = memoryview(data)
        last = len(data) // _CHUNK
        for number in range(last + 1):
            chunk = view[number * _CHUNK : (number + 1) * _CHUNK]
            parts.append(cipher.encrypt(_nonce(number, number == last), chunk, header))
        return b"".join(parts)

    def decrypt(self, data: bytes, role: str, path: str | Path) -> bytes:
        """Inverse of `encrypt`. Raises DataError."""
        start = len(_MAGIC) + 2
        if len(data) < start or data[len(_MAGIC)] != _VERSION:
            raise DataError(f"{path}: encrypted in a way that this Sharewood does not support, or damaged")
        end = start + data[start - 1]
        header, view = data[: end + _SALT], memoryview(data)[end + _SALT :]
        if header[start:end] != role.encode():
            raise DataError(f"{path}: encrypted as {_text(header[start:end])}, must be {role}")
        cipher, parts = self.cipher(header[-_SALT:], b"sharewood file"), list[bytes]()
        last = len(view) // (_CHUNK + TAG_BYTES)
        try:
            for number in range(last + 1):
                chunk = view[number * (_CHUNK + TAG_BYTES) : (number + 1) * (_CHUNK + TAG_BYTES)]
                parts.append(cipher.decrypt(_nonce(number, number == last), chunk, header))
        except InvalidTag:
            self.refuse(path)
        return b"".join(parts)

    def cipher(self, salt: bytes, purpose: bytes) -> ChaCha20Poly1305:
        """Return a cipher under a key derived from a salt that is used once."""
        return ChaCha20Poly1305(HKDF(SHA256(), KEY_BYTES, salt, purpose).derive(self.secret))

    def refuse(self, path: str | Path) -> NoReturn:
        """Raise DataError."""
        raise DataError(
            f"{path}: cannot be decrypted with the key of {self.source}: encrypted under another key, "
            "altered or cut short"
        )


def is_encrypted(data: bytes) -> bool:
    """Return whether a file that begins with `data` is encrypted."""
    return data.startswith(_MAGIC)


def opened(data: bytes, role: str, key: FileKey | None, path: str | Path) -> bytes:
    """Return the content of a file, which must be encrypted if and only if there is a key. Raises DataError."""
    if key is None:
        if is_encrypted(data):
            raise DataError(f"{path}: encrypted, but no key is set: set files_key, or --files-key")
        return data
    if not is_encrypted(data):
        raise DataError(f"{path}: not encrypted, although {key.source} is set as the key of files")
    return key.decrypt(data, role, path)


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(_NONCE - 1, "big") + bytes((last,))


def _text(role: bytes) -> str:
    text = role.decode(errors="backslashreplace")
    return text if text.isprintable() else ascii(text)
