"""A party's own rows of earlier releases, as keyed hashes: two releases on almost the same rows reveal the difference.

The same statistic on tables that differ in a few rows reveals those rows, and each party can see that only of its own.
Rows are compared by their ids or, without ids, by their content; the order does not matter. The file is private to the
party, and encrypted if the party has a key. One set of hashes is kept for all releases on the same rows.
"""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import numpy as np

from mpc.errors import DataError
from mpc.host.encryption import FileKey, opened
from mpc.host.files import read_bounded, write_bytes
from mpc.host.frames import pd
from secure_tree.explore.own_table import OwnTable

_ROLE = "rows of a ledger"
_MOST_BYTES = 1 << 34
_KEY_BYTES = 16


class OwnRows:
    """The hashes of earlier rows in the file beside a ledger, which need not exist yet. Raises DataError."""

    def __init__(self, ledger: Path, key: FileKey | None) -> None:
        self._path, self._file_key = ledger.with_name(ledger.name + ".rows"), key
        self._key, self._sets = os.urandom(_KEY_BYTES), dict[str, np.ndarray]()
        if self._path.exists():
            try:
                data = opened(read_bounded(self._path, _MOST_BYTES), _ROLE, key, self._path)
                with np.load(io.BytesIO(data), allow_pickle=False) as file:
                    self._key = file["key"].tobytes()
                    self._sets = {name: file[name] for name in file.files if name != "key"}
            except (OSError, ValueError, KeyError, EOFError) as error:
                raise DataError(f"{self._path}: the rows of earlier releases cannot be read ({error})") from None

    def hashes(self, table: OwnTable, ids: np.ndarray | None) -> np.ndarray:
        """Return a keyed hash of each row, ascending uint64[n]."""
        if ids is not None:
            return self.of_ids(ids)
        parts = [features for _, features in table.portions()]
        columns = [part.view(np.uint32) for part in parts]
        for own in (table.labels.labels, table.labels.weights):
            if own is not None:
                columns.append(own.reshape(-1, 1).view(np.uint32))
        total = np.zeros(table.rows, np.uint64)
        for place, words in enumerate(columns):
            # A universal hash: random multiples of the words, of whose sum the high bits count.
            drawn = hashlib.shake_256(self._key + place.to_bytes(4, "little")).digest(8 * words.shape[1])
            total += words.astype(np.uint64) @ np.frombuffer(drawn, "<u8")
        return np.sort(total >> np.uint64(16))

    def of_ids(self, ids: np.ndarray) -> np.ndarray:
        """Return a keyed hash of each row's id, ascending uint64[n]."""
        texts = np.asarray(ids).astype(str).astype(object)
        return np.sort(pd.util.hash_array(texts, hash_key=self._key.hex()[:_KEY_BYTES]))

    def nearest(self, hashes: np.ndarray) -> int | None:
        """Return the fewest rows, above 0, in which an earlier release differs, counting both tables' rows."""
        differences = [_differing(hashes, other) for other in self._sets.values()]
        return min((d for d in differences if d), default=None)

    def overlapping(self, hashes: np.ndarray) -> list[str]:
        """Return the names of the earlier releases that have any of the rows."""
        return [name for name, other in self._sets.items() if np.isin(hashes, other).any()]

    def add(self, hashes: np.ndarray, name: str | None = None) -> None:
        """Keep the rows of a release, on disk; without a name, once for all releases on the same rows.

        Raises DataError.
        """
        if name is None and any(np.array_equal(hashes, other) for other in self._sets.values()):
            return
        self._sets[name or str(len(self._sets))] = hashes
        file = io.BytesIO()
        np.savez(file, key=np.frombuffer(self._key, np.uint8), **self._sets)  # type: ignore[arg-type]  # no other option
        data = file.getvalue()
        write_bytes(self._path, self._file_key.encrypt(data, _ROLE) if self._file_key else data)


def _differing(first: np.ndarray, second: np.ndarray) -> int:
    """Return how many rows only one of two multisets has; a row that another replaces counts once."""
    values, counts = np.unique(np.concatenate([first, second]), return_counts=True)
    ours = np.zeros(values.size, np.int64)
    np.add.at(ours, np.searchsorted(values, first), 1)
    apart = 2 * ours - counts
    return int(max(apart[apart > 0].sum(), -apart[apart < 0].sum()))
