"""Tables in shards: a file, or a folder of parquet or CSV files, that many processes read, each its own part.

By rows, and by columns if both parties' rows are in the same order, shard i has the i-th of equal ranges of the rows,
in the order of the file names. `sharewood align --shards` writes a folder with one file per shard (shard_alignment.py).
Ray Data processes the files. A worker reads its own rows from the original files, also after a restart, and they never
pass through the process that starts it. Errors name file, column and line like those of sharewood/tables/tables.py.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.host.files import write_bytes
from mpc.host.frames import pd
from sharewood.tables.columns import Columns
from sharewood.tables.files import PARQUET, Place, column_names, count_rows
from sharewood.tables.tables import MayMiss, TableRows, check_columns, check_no_ids, read_piecewise

CSV = ".csv"
MANIFEST = "shards.json"
# Rows that a process parses at a time.
PIECE = 1 << 18

T = TypeVar("T")
# Checks that labels suit the objective, or raises DataError.
CheckLabels = Callable[[Place, np.ndarray], None]


@dataclass(frozen=True)
class FilePart:
    """Rows `start` to `stop` of a file."""

    path: Path
    start: int
    stop: int


@dataclass(frozen=True)
class Shard:
    """The rows of one worker: shard `number` of `count` of the table `source`. The number of rows is public."""

    source: Path
    number: int
    count: int
    parts: tuple[FilePart, ...]

    @property
    def rows(self) -> int:
        return sum(part.stop - part.start for part in self.parts)

    def read(
        self,
        columns: Columns,
        may_miss: MayMiss | None = None,
        check_labels: CheckLabels | None = None,
        names: Sequence[str] = (),
    ) -> TableRows:
        """Read the rows in this process, like `sharewood.tables.tables.read_table`, or like `read_rows` with the
        `names` of a model's features.
        """
        pieces = []
        for part in self.parts:
            for place, rows in read_piecewise(part.path, columns, may_miss, part.start, part.stop, PIECE, names):
                if check_labels is not None and rows.labels is not None:
                    check_labels(place, rows.labels)
                pieces.append(rows)
        rows = _joined(pieces)
        if not columns.complete and not names:
            check_no_ids(self.source, rows.features)
        return rows


def shards_of(source: Path, columns: Columns, count: int) -> list[Shard]:
    """Return the `count` shards of a table; Ray must be running.

    Raises DataError, and ConfigError if a folder has been divided into another number of shards.
    """
    files = table_files(source)
    divided = _divided(source)
    if divided and len(divided) != count:
        raise ConfigError(
            f"{source} was divided into {len(divided)} shards: shards must be {len(divided)}, got {count}"
        )
    names = column_names(files[0])
    check_columns(files[0], names, columns)
    rows = each(_Counting(files[0], names), files)
    if divided:
        if divided != rows:
            raise DataError(f"{source}: its files must have the rows that {MANIFEST} counts: divide it again")
        return [Shard(source, i, count, (FilePart(path, 0, rows[i]),)) for i, path in enumerate(files)]
    total = sum(rows)
    if total < count:
        raise DataError(f"{source}: must have at least one row per shard, got {total} rows for {count} shards")
    ends = np.cumsum([0, *rows])
    bounds = [i * total // count for i in range(count + 1)]
    return [
        Shard(source, i, count, tuple(_between(files, ends, start, stop)))
        for i, (start, stop) in enumerate(pairwise(bounds))
    ]


def table_files(source: Path) -> list[Path]:
    """Return the files of a table, sorted by name: the table itself, or the files of a folder, except those whose names
    begin with a dot or an underscore. Raises DataError.
    """
    if not source.exists():
        raise DataError(f"{source}: there is no such file or folder")
    if not source.is_dir():
        return [source]
    files = sorted(path for path in source.iterdir() if path.name[0] not in "._" and path.name != MANIFEST)
    if not files:
        raise DataError(f"{source}: the folder has no tables")
    for path in files:
        if path.is_dir():
            raise DataError(f"{path}: is a folder: all files of a table must lie in {source} itself")
        if path.suffix not in (PARQUET, CSV):
            raise DataError(f"{path}: must be a parquet or a CSV file, like everything in the folder of a table")
        if path.suffix != files[0].suffix:
            raise DataError(f"{path}: must have the format of {files[0].name}: use only CSV or only parquet")
    return files


def each(function: Callable[[T], Any], items: Sequence[T]) -> list[Any]:
    """Apply a function to all items by Ray Data, in order. Raises the first DataError or ConfigError of them,
    and ConfigError outside a block of `ray_cluster`: Ray Data would start a Ray without a token.
    """
    import ray.data

    if not ray.is_initialized():
        raise ConfigError("Ray must be running to read shards: do so within `with ray_cluster():`")

    def row(given: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"place": given["place"], "result": function(items[given["place"]]), "failure": None}
        except (DataError, ConfigError) as failure:
            return {"place": given["place"], "result": None, "failure": [type(failure).__name__, str(failure)]}

    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    places = ray.data.from_items([{"place": i} for i in range(len(items))], override_num_blocks=len(items))
    found = sorted(places.map(row).take_all(), key=lambda one: one["place"])
    for one in found:
        if one["failure"] is not None:
            kind, text = one["failure"]
            raise {"DataError": DataError, "ConfigError": ConfigError}[kind](text)
    return [one["result"] for one in found]


def write_manifest(folder: Path, rows: Sequence[int]) -> None:
    """Record that the files of a folder are shards, with their numbers of rows."""
    write_bytes(folder / MANIFEST, (json.dumps({"rows": list(rows)}) + "\n").encode())


@dataclass(frozen=True)
class _Counting:
    """Count the rows of a file. Raises DataError if its columns are not those of the first file."""

    first: Path
    names: list[str]

    def __call__(self, path: Path) -> int:
        names = column_names(path)
        if names != self.names:
            own, others = ([name for name in x if name not in y] for x, y in ((names, self.names), (self.names, names)))
            differs = f"has {own[0]!r}" if own else f"lacks {others[0]!r}" if others else "has another order"
            raise DataError(f"{path}: must have the columns of {self.first.name} in the same order, but {differs}")
        return count_rows(path)


def _divided(source: Path) -> list[int]:
    """Return the numbers of rows of the shards into which a folder was divided; empty if it was not."""
    path = source / MANIFEST
    if not path.is_file():
        return []
    try:
        rows = json.loads(path.read_text())["rows"]
        if not rows or any(type(count) is not int for count in rows):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}: must be what sharewood align --shards has written") from None
    return rows


def _between(files: Sequence[Path], ends: np.ndarray, start: int, stop: int) -> list[FilePart]:
    """Convert a range of rows of all files to ranges of each file."""
    found = []
    for path, first, last in zip(files, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        if first < stop and last > start:
            found.append(FilePart(path, max(start - first, 0), min(stop, last) - first))
    return found


def _joined(pieces: Sequence[TableRows]) -> TableRows:
    def column(values: Sequence[Any]) -> Any:
        return None if values[0] is None else pd.concat([pd.Series(x) for x in values], ignore_index=True)

    labels, weights = (column([getattr(rows, name) for rows in pieces]) for name in ("labels", "weights"))
    return TableRows(
        pd.concat([rows.features for rows in pieces], ignore_index=True),
        None if labels is None else labels.to_numpy(),
        None if weights is None else weights.to_numpy(),
        column([rows.ids for rows in pieces]),
        pieces[0].missing,
    )
