"""An append-only file of JSON lines, each of which has the hash of the line before it.

Each party of a pair keeps one, and both have the same lines: `agree` compares them, and mends what a crash between two
appends leaves. A line is on disk when `append` returns. Any kind of entry may stand in a line, in any order.

Security   a changed, removed or inserted line is noticed by whoever reads the file, unless all later lines were
           replaced as well; then the other party notices it. Replacing both parties' files goes unnoticed
Source     hash chains: Haber and Stornetta, Journal of Cryptology 3(2), 1991
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpc.errors import DataError
from mpc.host.files import flush_folder, read_bounded

# The hash before the first line.
START = "0" * 64
_MOST_BYTES = 1 << 30


class Ledger:
    """The lines of a file, which need not exist yet. Raises DataError for a file that is not a ledger."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
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
        self._cut = len(partial.encode())

    @property
    def head(self) -> str:
        """The hash of the last line, in hexadecimal."""
        return _hash(self.lines[-1]) if self.lines else START

    @property
    def last(self) -> str | None:
        return self.lines[-1] if self.lines else None

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def next(self, entry: Mapping[str, Any]) -> str:
        """Return the line that `append` would write for an entry, the same at both parties."""
        line = {"number": len(self.lines), "previous": self.head, **entry}
        return json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)

    def append(self, line: str) -> None:
        """Write a line that `next` has returned, here or at the other party, to disk. Raises DataError."""
        self._check(line)
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                end = file.seek(0, os.SEEK_END) - self._cut
                file.truncate(end)
                file.seek(end)
                file.write(line.encode() + b"\n")
                os.fsync(file.fileno())
        except OSError as error:
            raise DataError(f"{self.path}: the ledger cannot be written ({error.strerror})") from None
        self._cut = 0
        if not self.lines:
            flush_folder(self.path.absolute().parent)
        self.lines.append(line)

    def agree(self, count: int, head: str, last: str | None) -> None:
        """Compare with the other party's number of lines, head and last line. Raises DataError if they differ.

        If the other party has one line more, which follows this party's last, this party was killed before it could
        write that line: it is appended.
        """
        if count == len(self.lines) + 1 and last is not None and _hash(last) == head and self._follows(last):
            self.append(last)
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
        except (ValueError, TypeError, KeyError):
            return False


def _hash(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()
