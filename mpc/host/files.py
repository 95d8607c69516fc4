"""Files that only their owner may read, written completely or not at all, and durable after a power failure."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from mpc.errors import ConfigError, DataError

# Bytes of the largest file of a person's making that is read whole: keys, configurations, schemas.
SMALL = 16_000_000
# Bytes of the longest name, on all usual file systems of Linux, and characters of the longest path that is shown.
_LONGEST_NAME, _SHOWN = 255, 200


@contextmanager
def file_errors() -> Iterator[None]:
    """Convert an error of the operating system about a file to a DataError that names it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise DataError(f"{shown_path(error.filename)}: {error.strerror}") from None


def check_name(path: Path, room: int = len(".partial")) -> None:
    """Raise DataError unless a file can have this name, and `room` bytes more while it is written."""
    if "\0" in str(path):
        raise DataError(f"{shown_path(path)}: the name of a file must have no zero bytes")
    for part in path.parts:
        if (length := len(os.fsencode(part)) + room) > _LONGEST_NAME:
            raise DataError(
                f"{shown_path(path)}: the name of a file must have at most {_LONGEST_NAME - room} bytes, got "
                f"{length - room}"
            )


def same_file(first: Path, second: Path) -> bool:
    """Return whether two paths lead to one file, by any links, or would if there were one."""
    if os.path.realpath(first) == os.path.realpath(second):
        return True
    try:
        return first.samefile(second)
    except OSError:
        return False


def shown_path(path: object) -> str:
    """Format a path for messages: on one line, and truncated if it is long."""
    text = str(path)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return text if text.isprintable() else ascii(text)


_LIBC = ctypes.CDLL(None)
# linux/stat.h, linux/fcntl.h, linux/fs.h
_STATX_BTIME, _AT_EMPTY_PATH = 0x800, 0x1000
_FS_IOC_GETVERSION = 0x80007601 | struct.calcsize("l") << 16


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


def write_once(path: Path, data: bytes) -> None:
    """Write a file whole unless there is one; of several processes, one writes it. Raises DataError."""
    if path.exists():
        return
    try:
        with NamedTemporaryFile(dir=path.parent) as made:
            made.write(data)
            made.flush()
            os.fsync(made.fileno())
            with suppress(FileExistsError):
                os.link(made.name, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None
    flush_folder(path.parent)


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file to read. Raises OSError, also for a FIFO, a device or a socket, which might never end."""
    # A FIFO would otherwise wait here until somebody opens it for writing.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        reason = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "must be a regular file, got a FIFO or a device"
        raise OSError(errno.EISDIR, reason, str(path))
    return open(descriptor, "rb")


def read_bounded(path: str | Path, most: int = SMALL) -> bytes:
    """Read a regular file of at most `most` bytes. Raises OSError."""
    with open_regular(path) as file:
        return _read(file, path, most)


def _read(file: BinaryIO, path: str | Path, most: int) -> bytes:
    if (size := os.fstat(file.fileno()).st_size) > most:
        reason = f"must have at most {most / 1e6:g} MB, got {size / 1e6:,.0f}"
        raise OSError(errno.EINVAL, reason, str(path))
    return file.read(most)


def read_private(path: Path, what: str) -> bytes:
    """Read a file that only its owner can read. `what` names its kind. Raises ConfigError."""
    try:
        with open_regular(path) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise ConfigError(
                    f"{path}: a {what} must be readable only by its owner, got mode {mode:04o}: chmod 600 {path}"
                )
            return _read(file, path, SMALL)
    except OSError as error:
        raise ConfigError(f"{path}: the {what} cannot be read ({error.strerror})") from None


def birth_of(descriptor: int) -> list[int]:
    """Return what tells an open file from any other that has or had its inode: birth and generation, 0 if unknown."""
    facts = bytearray(256)
    with suppress(AttributeError):  # only on Linux
        if _LIBC.statx(descriptor, b"", _AT_EMPTY_PATH, _STATX_BTIME, (ctypes.c_char * 256).from_buffer(facts)):
            facts = bytearray(256)
    (mask,) = struct.unpack_from("I", facts)
    seconds, fraction = struct.unpack_from("qI", facts, 80) if mask & _STATX_BTIME else (0, 0)
    generation = bytes(struct.calcsize("l"))
    with suppress(OSError):  # not on every file system
        generation = fcntl.ioctl(descriptor, _FS_IOC_GETVERSION, generation)
    return [seconds, fraction, int.from_bytes(generation[:4], "little")]


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, with mode 0700 where there is none yet, and flush them to disk.

    Raises DataError.
    """
    new = [each for each in (path, *path.parents) if not each.exists()]
    try:
        for each in reversed(new):
            each.mkdir(mode=0o700, exist_ok=True)
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: the folder cannot be made ({error.strerror})") from None
    for each in new:
        flush_folder(each.parent)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes that ask for it out of a folder for the length of the block, however this process ends.

    Raises ConfigError if one is there. Does nothing if there is no such folder.
    """
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield
        return
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise ConfigError(f"{folder}: another process is training in this folder: wait until it has ended") from None
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        os.close(held)


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
