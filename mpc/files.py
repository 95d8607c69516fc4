"""Files that only their owner may read, written completely or not at all, and durable after a power failure."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mpc.errors import ConfigError, DataError


@contextmanager
def writing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a new file of mode 0600, which replaces an existing one once the block has ended without an error.

    The file and its folder are then flushed to disk. Raises DataError, and leaves no partial file.
    """
    path = Path(path)
    partial = _partial(path)
    try:
        try:
            partial.unlink(missing_ok=True)
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None
    flush_folder(path.parent)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file as `writing` does. Raises DataError, and leaves no partial file."""
    with writing(path) as file:
        file.write(data)


def read_private(path: Path, what: str) -> bytes:
    """Read a file that only its owner can read. `what` names its kind. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise ConfigError(
                    f"{path}: a {what} must be readable only by its owner, got mode {mode:04o}: chmod 600 {path}"
                )
            return file.read()
    except OSError as error:
        raise ConfigError(f"{path}: the {what} cannot be read ({error.strerror})") from None


def make_folder(path: Path) -> None:
    """Make a folder of mode 0700 if there is none yet, and flush it to disk. Raises DataError."""
    try:
        new = [each for each in (path, *path.parents) if not each.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: the folder cannot be made ({error.strerror})") from None
    for each in new:
        flush_folder(each.parent)


def remove(path: Path) -> None:
    """Remove a file, if it is there. Raises DataError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be removed ({error.strerror})") from None


def discard_partial(path: Path) -> None:
    """Remove what a killed process left behind while writing `path`. Raises DataError."""
    remove(_partial(path))


def flush_folder(path: Path) -> None:
    """Flush to disk what was created, renamed and removed in a folder. Raises DataError."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")
