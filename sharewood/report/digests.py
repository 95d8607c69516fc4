"""Keyed digests of a party's files for its reports: they show whether two runs read the same file, to this user only.

A plain digest of a table would let anybody test guesses of its rows. These digests are HMAC-SHA256 under a random key
in the user's cache, which never leaves the machine: equal digests under one key mean equal files, and nobody without
the key learns anything else. The first digits of the key's id precede a digest.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from mpc.errors import DataError
from mpc.host.files import open_regular
from mpc.host.folders import cache_folder

_KEY_BYTES = 32
_CHUNK = 1 << 20


def keyed_digests(**files: Path | None) -> dict[str, str]:
    """Return "KEY:DIGEST" of each file or folder by its role, None if there is no such file. Raises DataError."""
    key = _key()
    return {role: _digest(key, path) for role, path in files.items() if path}


def _digest(key: bytes, path: Path) -> str:
    mac = hmac.new(key, digestmod="sha256")
    try:
        for chunk in _contents(path):
            mac.update(chunk)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    return f"{hmac.digest(key, b'id', 'sha256').hex()[:8]}:{mac.hexdigest()}"


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


def _key() -> bytes:
    """Return this user's key, made if there is none; two processes get the same one. Raises ConfigError, DataError."""
    folder = cache_folder()
    path = folder / "report.key"
    try:
        if not path.exists():
            with NamedTemporaryFile(dir=folder) as made:
                made.write(os.urandom(_KEY_BYTES))
                made.flush()
                with suppress(FileExistsError):
                    os.link(made.name, path)
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: the key of digests cannot be kept ({error.strerror})") from None
