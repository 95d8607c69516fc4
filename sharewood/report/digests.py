"""Keyed digests of a party's files for its reports: they show whether two runs read the same file, to this user only.

A plain digest of a table would let anybody test guesses of its rows. These digests are HMAC-SHA256 under a random key
in the user's cache, which never leaves the machine: equal digests under one key mean equal files, and nobody without
the key learns anything else. The first digits of the key's id precede a digest.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator
from pathlib import Path

from mpc.errors import DataError
from mpc.host.files import open_regular, read_bounded, write_once
from mpc.host.folders import cache_folder

_KEY_BYTES = 32
_CHUNK = 1 << 20


def keyed_digests(**files: Path | None) -> dict[str, str]:
    """Return "KEY:DIGEST" of each file or folder by its role, None if there is no such file. Raises DataError."""
    key = kept_key(cache_folder() / "report.key")
    number = hmac.digest(key, b"id", "sha256").hex()[:8]
    return {role: f"{number}:{keyed_digest(key, path)}" for role, path in files.items() if path}


def keyed_digest(key: bytes, path: Path) -> str:
    """Return the HMAC-SHA256 of a file or folder, in hexadecimal. Raises DataError."""
    mac = hmac.new(key, digestmod="sha256")
    try:
        for chunk in _contents(path):
            mac.update(chunk)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    return mac.hexdigest()


def _contents(path: Path) -> Iterator[bytes]:
    """Digest a file's bytes; for a folder, the names and sizes of its files and then their bytes, sorted by name."""
    if path.is_dir():
        for each in sorted(p for p in path.rglob("*") if p.is_file()):
            yield f"{each.relative_to(path)}\0{each.stat().st_size}\0".encode()
            yield from _contents(each)
        return
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def kept_key(path: Path) -> bytes:
    """Return the key in a file, made if there is none; two processes get the same one. Raises DataError."""
    write_once(path, os.urandom(_KEY_BYTES))
    try:
        key = read_bounded(path)
    except OSError as error:
        raise DataError(f"{path}: the key of digests cannot be read ({error.strerror})") from None
    if len(key) != _KEY_BYTES:
        raise DataError(f"{path}: the key of digests must have {_KEY_BYTES} bytes, got {len(key)}")
    return key
