"""An append-only file of JSON lines, each of which has the hash of the line before it.

Each party of a pair keeps one, and both have the same lines: `agree` compares them, and mends what a crash between two
appends leaves. A line is on disk when `append` returns. Any kind of entry may stand in a line, in any order. Several
runs of a pair may write at the same time: each agrees on its line within its `turn`.

Security   a changed, removed or inserted line is noticed by whoever reads the file, unless all later lines were
           replaced as well; then the other party notices it. Replacing both parties' files goes unnoticed
Source     hash chains: Haber and Stornetta, Journal of Cryptology 3(2), 1991
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mpc.errors import DataError
from mpc.host.files import file_errors, flush_folder, read_bounded

# The hash before the first line.
START = "0" * 64
_MOST_BYTES = 1 << 30
# Seconds that a run waits for its turn, and between two attempts.
_PATIENCE, _PAUSE = 60.0, 0.05
# Lines among which a run looks for its own, which another run has mended.
_RECENT = 1000


class Ledger:
    """The lines of a file, which need not exist yet; `cut` bytes of an incomplete one are at its end.

    Raises DataError for a file that is not a ledger.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.read()

    def read(self) -> None:
        """Read the file again, to which another run may have written. Raises DataError."""
        self.lines: list[str] = []
        try:
            text = read_bounded(self.path, _MOST_BYTES).decode() if self.path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.path}: the ledger cannot be read ({error})") from None
        # A line without an end was not complete when its writer was killed, so nothing has followed it.
        *complete, partial = text.split("\n")
        for line in complete:
            self._check(line)
            self.lines.append(line)
        self.cut = len(partial.encode())

    @property
    def head(self) -> str:
        """The hash of the last line, in hexadecimal."""
        return hash_of(self.lines[-1]) if self.lines else START

    @property
    def last(self) -> str | None:
        return self.lines[-1] if self.lines else None

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def next(self, entry: Mapping[str, Any]) -> str:
        """Return the line that `append` would write for an entry, the same at both parties."""
        return canonical({"number": len(self.lines), "previous": self.head, **entry})

    def append(self, line: str, again: bool = False) -> None:
        """Write a line that `next` has returned, here or at the other party, to disk. Raises DataError.

        again: whether it may be there already, because another run has mended it.
        """
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(file, fcntl.LOCK_EX)
                self.read()
                if again and line in self.lines[-_RECENT:]:
                    return
                self._check(line)
                end = file.seek(0, os.SEEK_END) - self.cut
                file.truncate(end)
                file.seek(end)
                data = line.encode() + b"\n"
                if file.write(data) < len(data):
                    file.truncate(end)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
        except OSError as error:
            raise DataError(f"{self.path}: the ledger cannot be written ({error.strerror})") from None
        if not self.lines:
            flush_folder(self.path.absolute().parent)
        self.lines.append(line)

    @contextmanager
    def turn(self, rank: int, patience: float = _PATIENCE) -> Iterator[None]:
        """Read the file again; until the block ends, no other run of this pair agrees on a line. Raises DataError.

        Party 0 keeps the others out, at its host: two runs that wait for each other would otherwise never end.
        """
        if rank:
            self.read()
            yield
            return
        until = time.monotonic() + patience
        with file_errors():
            held = os.open(f"{self.path}.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _locked(held):
                if time.monotonic() > until:
                    raise DataError(f"{self.path}: another run has been writing for {patience:g} s: run again later")
                time.sleep(_PAUSE)
            self.read()
            yield
        finally:
            os.close(held)

    def agree(
        self,
        count: int,
        head: str,
        last: str | None,
        check: Callable[[str], None] = lambda line: None,
        behind: bool = False,
    ) -> None:
        """Compare with the other party's number of lines, head and last line. Raises DataError if they differ.

        If the other party has one line more, which follows this party's last, this party was killed before it could
        write that line, or another run is about to: it is appended. `check` raises DataError if it must not be. behind:
        whether the other party may have read its ledger some lines ago; it compares them itself.
        """
        self.read()
        if count == len(self.lines) + 1 and last is not None and hash_of(last) == head and self._follows(last):
            check(last)
            self.append(last, again=True)
        if behind and count < len(self.lines) and head == json.loads(self.lines[count])["previous"]:
            return
        ahead = len(self.lines) == count + 1 and head == json.loads(self.lines[-1])["previous"]
        if not ahead and (count, head) != (len(self.lines), self.head):
            raise DataError(
                f"{self.path}: the ledgers of the parties differ, {len(self.lines)} lines here and {count} at the "
                "other: one of them was changed, or belongs to another pair"
            )

    def _check(self, line: str) -> None:
        """Raise DataError unless the line follows the last one."""
        if not self._follows(line):
            raise DataError(f"{self.path}: line {len(self.lines) + 1} of the ledger does not follow the one before it")

    def _follows(self, line: str) -> bool:
        try:
            entry = json.loads(line)
            return "\n" not in line and (entry["number"], entry["previous"]) == (len(self.lines), self.head)
        except (ValueError, TypeError, KeyError, RecursionError):
            return False


def canonical(entry: Mapping[str, Any]) -> str:
    """Return the only text of an entry that a ledger has. Raises ValueError for NaN and infinity."""
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def hash_of(line: str) -> str:
    """Return the hash that the next line has, in hexadecimal."""
    return hashlib.sha256(line.encode()).hexdigest()


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
