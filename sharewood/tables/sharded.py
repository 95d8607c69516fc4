"""Tables in shards for jobs: each worker reads its own rows, and the calling process has none of them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mpc.host.files import make_folder
from mpc.host.frames import pd
from secure_tree.agreement.same_rows import digest_of
from secure_tree.data.categories import Dictionary
from secure_tree.data.table import Table, read_features, read_training
from secure_tree.public.config import TrainConfig
from secure_tree.workers.sources import Shards
from sharewood.tables.columns import ID, Columns
from sharewood.tables.files import Place, column_names, read_pieces
from sharewood.tables.shards import PIECE, Shard, each, shards_of, table_files, write_manifest
from sharewood.tables.tables import (
    asked_of,
    check_labels,
    good_labels,
    header_of,
    ids_of,
    label_of,
    write_predictions,
)


@dataclass(frozen=True)
class Sharded:
    """A table in shards, the counterpart of `Rows`: `features` are `Shards` of everything in it."""

    features: Shards
    columns: int
    has_ids: bool
    missing: tuple[str, ...]
    labels: None = None
    weights: None = None


@dataclass(frozen=True)
class FromFiles:
    """Implements `secure_tree.workers.sources.Source`: a table to train on, or to predict with the features `names`."""

    shard: Shard
    columns: Columns
    names: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return self.shard.rows

    def read(self, config: TrainConfig, known: Dictionary) -> Table:
        def check(place: Place, labels: np.ndarray) -> None:
            check_labels(place, self.columns, labels, config)

        rows = self.shard.read(self.columns, config.may_miss, check, self.names)
        if self.names:
            table = Table(*read_features(rows.features, config, known=known))
        else:
            table = read_training(rows.features, rows.labels, rows.weights, config, known)
        return table if rows.ids is None else replace(table, ids=digest_of(rows.ids))


def to_train_on(source: Path, columns: Columns, count: int) -> Sharded:
    """Return a table in a number of shards; Ray must be running. Raises DataError, ConfigError."""
    first = table_files(source)[0]
    present = column_names(first)
    columns.check_present(first, present, "label", "weight")
    parts = [FromFiles(shard, columns) for shard in shards_of(source, columns, count)]
    names = columns.features(present)
    return Sharded(
        Shards(parts, header_of(columns, names)), len(names), columns.named("id") in present, columns.missing
    )


def to_predict(source: Path, columns: Columns, names: tuple[str, ...], count: int) -> Sharded:
    """Return rows with the features of a model in the same way."""
    first = table_files(source)[0]
    behind, asked = asked_of(first, columns, names)
    parts = [FromFiles(shard, columns, names) for shard in shards_of(source, asked, count)]
    has_ids = asked.named("id") in column_names(first)
    return Sharded(Shards(parts, header_of(asked, list(behind))), len(behind), has_ids, asked.missing)


def write_shards(
    source: Path, rows: Sharded, values: np.ndarray, output: str, classes: int, out: Path
) -> np.ndarray | None:
    """Write predictions to `out`: a folder with one file per shard for a folder, and a file for a file.

    Ray must be running. Returns the labels of the rows if all are known, as in `known_labels`.
    """
    parts: Sequence[FromFiles] = rows.features.parts  # type: ignore[assignment]
    ends = np.cumsum([part.rows for part in parts])[:-1]
    folder = out.with_name(out.name + ".partial") if source.is_dir() else None
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
    items = list(zip(parts, np.split(values, ends), strict=True))
    found = each(_Writing(output, classes, folder, table_files(source)[0].suffix), items)
    if folder is not None:
        write_manifest(folder, [part.rows for part in parts])
        if out.exists():
            shutil.rmtree(out)
        folder.rename(out)
    else:
        ids = [each_ids for each_ids, _ in found if each_ids is not None]
        write_predictions(out, pd.concat(ids, ignore_index=True) if ids else None, values, output)
    labels = [some for _, some in found if some is not None]
    return np.concatenate(labels) if len(labels) == len(parts) else None


@dataclass(frozen=True)
class _Writing:
    """The rows of a shard and their predictions -> a file in `folder`, or else the ids; and the labels if known."""

    output: str
    classes: int
    folder: Path | None
    suffix: str

    def __call__(self, item: tuple[FromFiles, np.ndarray]) -> tuple[pd.Series | None, np.ndarray | None]:
        part, values = item
        shard, columns = part.shard, part.columns
        name = label_of(shard.parts[0].path, columns, part.names)
        ids, labels = [], []
        for of in shard.parts:
            text = {columns.named("id") or ID}
            for place, frame in read_pieces(of.path, text, of.start, of.stop, PIECE):
                ids.append(ids_of(place, frame, columns))
                labels.append(None if name is None else good_labels(frame[name], self.classes))
        whole = None if ids[0] is None else pd.concat(ids, ignore_index=True)
        good = [some for some in labels if some is not None]
        known = np.concatenate(good) if len(good) == len(labels) else None
        if self.folder is None:
            return whole, known
        path = self.folder / f"shard-{shard.number:05d}-of-{shard.count:05d}{self.suffix}"
        write_predictions(path, whole, values, self.output)
        return None, known
