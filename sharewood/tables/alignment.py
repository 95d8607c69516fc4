"""Join two tables by their ids in shards, so that no process holds all rows, nor all ids.

Both parties draw a key, and a row's shard is a keyed hash of its id (protocols/psi/shards.py). Each party divides its
own table, file by file in parallel, into pieces on its disk. Then the ids of both are intersected shard by shard, and
each party writes its rows of the common ids in the order of the ids. The result is a folder with one file per shard.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mpc.errors import DataError
from mpc.host.files import make_folder
from mpc.host.frames import pd
from protocols.psi.alignment import NONE_IN_COMMON, align_shard
from protocols.psi.shards import agree_on_shards, shard_numbers
from protocols.transport.channel import Channel
from sharewood.tables.columns import Columns
from sharewood.tables.files import Place, read_pieces, shown, writable, write_frame
from sharewood.tables.shards import MANIFEST, PIECE, Shard, each, shards_of, table_files, write_manifest
from sharewood.tables.tables import needed_ids

# The origin of a row in the pieces; no table has a column of this name, since column names are printable.
_FILE, _ROW = "\0file", "\0row"


def align_in_shards(
    peer: Channel, rank: int, source: Path, columns: Columns, count: int, out: Path, pad: int = 1
) -> tuple[int, int]:
    """Divide `source` and join it with the other party's table into the folder `out`; return the rows kept, and all
    rows.

    Ray must be running. `out` is created, or replaced if it is the result of such a division. `pad`: as of
    protocols.psi.alignment. Raises DataError.
    """
    key = agree_on_shards(peer, rank, count)
    suffix = table_files(source)[0].suffix
    partial = out.with_name(out.name + ".partial")
    _discard(partial)
    try:
        before, kept = divide(source, columns, key, count, partial / "pieces"), []
        joined = partial / "joined"
        make_folder(joined)
        for shard in range(count):
            frame, ids = gather(source, columns, partial / "pieces", shard)
            rows = align_shard(peer, rank, ids.tolist(), pad)
            kept.append(len(rows))
            if len(rows):
                write_frame(joined / f"shard-{shard:05d}-of-{count:05d}{suffix}", frame.iloc[rows])
        if not sum(kept):
            raise DataError(NONE_IN_COMMON)
        if not all(kept):
            raise DataError(f"shard {kept.index(0)} of {count} has no common ids: set fewer shards")
        write_manifest(joined, kept)
        if out.exists():
            shutil.rmtree(out)
        joined.rename(out)
    finally:
        _discard(partial)
    return sum(kept), before


def check_folder(path: Path) -> None:
    """Raise DataError unless a folder can be created at `path`, or it is the result of such a division."""
    if path.is_dir() and any(path.iterdir()) and not (path / MANIFEST).is_file():
        raise DataError(f"{path}: cannot be written: it is a folder that sharewood align --shards has not made")
    if not path.is_dir():
        writable(path)


def divide(source: Path, columns: Columns, key: bytes, count: int, out: Path) -> int:
    """Write the rows of a table in pieces into one folder per shard, and return their number."""
    for shard in range(count):
        make_folder(out / str(shard))
    shards = shards_of(source, columns, count)
    each(_Scattering(table_files(source), columns, key, count, out), shards)
    return sum(shard.rows for shard in shards)


def gather(source: Path, columns: Columns, pieces: Path, shard: int) -> tuple[pd.DataFrame, pd.Series]:
    """Read the cells and ids of a shard, in the order of the ids as text. Raises DataError for a duplicate id."""
    paths = sorted((pieces / str(shard)).iterdir())
    if not paths:
        return pd.DataFrame(), pd.Series(dtype=str)
    frame = pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)
    files = table_files(source)
    ids = needed_ids(Place(files[0]), frame, columns)
    if (again := ids.duplicated()).any():
        at = int(again.argmax())
        place = Place(files[frame[_FILE][at]])
        raise DataError(f"{place.cell(str(ids.name), int(frame[_ROW][at]))}: id {shown(ids[at])} appears twice")
    order = ids.argsort(kind="stable")
    return frame.iloc[order].drop(columns=[_FILE, _ROW]), ids.iloc[order]


@dataclass(frozen=True)
class _Scattering:
    """Write rows to pieces in the folder of each shard, named by their file and first row."""

    files: list[Path]
    columns: Columns
    key: bytes
    count: int
    out: Path

    def __call__(self, shard: Shard) -> int:
        for part in shard.parts:
            of = self.files.index(part.path)
            for place, frame in read_pieces(part.path, None, part.start, part.stop, PIECE):
                ids = needed_ids(place, frame, self.columns)
                numbers = shard_numbers(ids, self.key, self.count)
                frame[_FILE], frame[_ROW] = of, range(place.first, place.first + len(frame))
                for number, rows in frame.groupby(numbers):
                    write_frame(self.out / str(number) / f"{of:06d}-{place.first:012d}.parquet", rows)
        return shard.rows


def _discard(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
