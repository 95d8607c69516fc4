"""Files of tables, CSV or parquet, read unchanged and written atomically; tables.py interprets columns."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.host.extras import install
from mpc.host.files import check_name, discard_partial, file_errors, open_regular, write_bytes
from mpc.host.frames import pd
from secure_tree.agreement.messages import is_printable

if TYPE_CHECKING:
    from pandas.io.parsers import TextFileReader

PARQUET = ".parquet"
# The longest value that a message shows in full.
_SHOWN = 50
# The names of numbers and text in pandas' infer_dtype.
_PLAIN = ("string", "categorical", "integer", "floating", "boolean", "decimal", "mixed-integer", "empty")
# How a formula begins in a spreadsheet.
_FORMULA = ("=", "+", "-", "@")
# Characters of the longest line.
_LONGEST = 64_000_000
# Separators that other programs write.
_OTHER_SEPARATORS = ";\t|"
# Texts that mean a missing number in a CSV file; for text columns, only the empty cell does.
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None"]


@dataclass(frozen=True)
class Place:
    """A file and the index of the first row at hand, for messages."""

    path: Path
    first: int = 0

    def __str__(self) -> str:
        return str(self.path)

    def cell(self, name: str, row: int) -> str:
        """Describe where a value is; in a CSV file, by its line in an editor, with the header as line 1."""
        row += self.first
        return f"{self}: column {name!r}, " + (f"row {row}" if self.path.suffix == PARQUET else f"line {row + 2}")


def read_cells(path: Path, text: Collection[str] | None) -> pd.DataFrame:
    """Read the table of a file. In a CSV file, the columns `text` are text, or all columns if it is None.

    Raises DataError.
    """
    with _reading(path):
        if path.suffix == PARQUET:
            _parquet()
            frame = pd.read_parquet(path)
            frame.columns = frame.columns.map(str)
        else:
            header, rows = _lines(path)
            with _csv(path, header, text) as reader:
                frame = reader.read()
            _check_cells(path, frame, header, len(frame) == rows)
    if not len(frame):
        raise DataError(f"{path}: the table has no rows")
    return frame


def read_pieces(
    path: Path, text: Collection[str] | None, start: int, stop: int, rows: int
) -> Iterator[tuple[Place, pd.DataFrame]]:
    """Yield rows `start` to `stop` of a file, `rows` at a time, as in `read_cells`, with their place.

    The rows of a CSV file must have been counted by `count_rows`. Raises DataError.
    """
    read = _parquet_pieces(path, start, stop, rows) if path.suffix == PARQUET else _csv_pieces(path, text, stop, rows)
    with _reading(path):
        at = 0
        for first, frame in read:
            at = first + len(frame)
            if at > start and first < stop:
                skipped = max(start - first, 0)
                yield Place(path, first + skipped), frame.iloc[skipped : stop - first].reset_index(drop=True)
        if at < stop:
            raise DataError(f"{path}: must not change while it is read: it had {stop} rows, and has {at} now")


def _parquet_pieces(path: Path, start: int, stop: int, rows: int) -> Iterator[tuple[int, pd.DataFrame]]:
    with _parquet().ParquetFile(path) as file:
        ends = np.cumsum([0, *(file.metadata.row_group(g).num_rows for g in range(file.num_row_groups))])
        groups = [g for g in range(file.num_row_groups) if ends[g + 1] > start and ends[g] < stop]
        at = int(ends[groups[0]]) if groups else 0
        for batch in file.iter_batches(rows, groups):
            frame = batch.to_pandas()
            frame.columns = frame.columns.map(str)
            yield at, frame
            at += len(frame)


def _parquet() -> ModuleType:
    """Import `pyarrow.parquet`, which the base does not install. Raises ConfigError."""
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise ConfigError(f"parquet tables need pyarrow, which is not installed: {install('parquet')}") from None
    return parquet


def _csv_pieces(path: Path, text: Collection[str] | None, stop: int, rows: int) -> Iterator[tuple[int, pd.DataFrame]]:
    at, header = 0, column_names(path)
    with _csv(path, header, text, rows) as reader:
        for frame in reader:
            _check_cells(path, frame, header)
            yield at, frame
            at += len(frame)
            if at >= stop:
                return


def _csv(path: Path, header: list[str], text: Collection[str] | None, rows: int | None = None) -> TextFileReader:
    """Open a CSV file, optionally in pieces of `rows` rows."""
    verbatim = header if text is None else [name for name in header if name in text]
    missing = {name: [""] if name in verbatim else MISSING for name in header}
    types = dict.fromkeys(verbatim, str)
    return pd.read_csv(
        path, dtype=types, index_col=False, keep_default_na=False, na_values=missing, chunksize=rows, iterator=True
    )


def _check_cells(path: Path, frame: pd.DataFrame, header: list[str], whole: bool = True) -> None:
    if list(frame) != header or not whole:
        raise DataError(f"{path}: quotes and line ends must show where cells end: check the quotes")


def count_rows(path: Path) -> int:
    """Count the rows of a file: at least one; in a CSV file, each must have a cell per column. Raises DataError."""
    with _reading(path):
        rows = int(_parquet().read_metadata(path).num_rows) if path.suffix == PARQUET else _lines(path)[1]
    if not rows:
        raise DataError(f"{path}: the table has no rows")
    return rows


def column_names(path: Path) -> list[str]:
    """Return the columns of a file. Raises DataError."""
    with _reading(path):
        if path.suffix == PARQUET:
            return checked_names(path, _parquet().read_schema(path).names)
        with _opened(path) as file:
            return _header(path, next(csv.reader(_bounded(path, file), strict=True), []))


def _lines(path: Path) -> tuple[list[str], int]:
    """Return the header of a CSV file, and the number of rows after it, each of which has a cell per column."""
    with _opened(path) as file:
        lines = csv.reader(_bounded(path, file), strict=True)
        header, rows, blank = _header(path, next(lines, [])), 0, 0
        for cells in lines:
            if not cells:
                blank = blank or lines.line_num
                continue
            if blank:
                raise DataError(f"{path}: line {blank} is blank")
            if len(cells) != len(header):
                here = f"{len(cells)} cell{'s' if len(cells) > 1 else ''}"
                raise DataError(f"{path}: line {lines.line_num} has {here}, and the header {len(header)}")
            rows += 1
    return header, rows


def _opened(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_regular(path), newline="", encoding="utf-8-sig")


def _bounded(path: Path, file: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a file. Raises DataError if one is so long that the file cannot be a table."""
    for number, line in enumerate(iter(partial(file.readline, _LONGEST), ""), 1):
        if len(line) == _LONGEST:
            raise DataError(f"{path}: not a CSV table (line {number} has more than {_LONGEST / 1e6:g} MB)")
        yield line


def _header(path: Path, names: list[str]) -> list[str]:
    """Return the first line of a CSV file. Raises DataError unless it names the columns."""
    if not names:
        what = "line 1 is blank" if path.stat().st_size else "the file is empty"
        raise DataError(f"{path}: {what}: a CSV file must begin with the names of its columns")
    if any("\0" in name for name in names):
        raise DataError(f"{path}: not a CSV table (line 1 has zero bytes)")
    if len(names) == 1 and (found := next((mark for mark in _OTHER_SEPARATORS if mark in names[0]), None)):
        raise DataError(f"{path}: cells must be separated by commas, and line 1 has {found!r} and no comma")
    if all(map(_is_number, names)) and names != [str(i) for i in range(len(names))]:
        raise DataError(f"{path}: line 1 has numbers only: a CSV file must begin with the names of its columns")
    return checked_names(path, names)


def checked_names(path: object, names: list[str]) -> list[str]:
    """Return the names of columns. Raises DataError, which begins with `path`, unless each can be a column's."""
    for place, name in enumerate(names):
        if not name.strip():
            raise DataError(f"{path}: column {place + 1} has no name: name it, or remove it")
        if not is_printable(name):
            raise DataError(f"{path}: the name of column {place + 1}, {shown(name)}, has unprintable characters")
        if name in names[:place]:
            raise DataError(f"{path}: column {name!r} appears twice")
    return names


def unusual_kind(column: pd.Series) -> str | None:
    """Return the kind of values of a column, as pandas names it, if they are neither numbers nor text."""
    kind = pd.api.types.infer_dtype(column, skipna=True)
    return None if kind in _PLAIN else kind


def check_plain(path: Path, name: str, column: pd.Series) -> None:
    """Raise DataError if a column of a parquet file has values other than numbers and text."""
    if kind := unusual_kind(column):
        raise DataError(f"{path}: column {name!r}: values must be numbers or text, got values of type {kind}")


def make_schema(path: Path) -> str:
    """Return the command that proposes a schema file for a table."""
    return f"sharewood schema {path.name} > schema.toml"


def shown(value: object) -> str:
    """Format a value for messages: quoted, on one line, and truncated if it is long."""
    text = str(value)
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        open_regular(path).close()
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: must be text in UTF-8, got the byte {error.object[error.start]:#04x}: convert it"
        ) from None
    except (ValueError, KeyError, NotImplementedError, OSError, csv.Error) as error:  # pyarrow's kinds are among them
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: not a {'parquet' if path.suffix == PARQUET else 'CSV'} table ({reason})") from None


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a table as CSV or parquet, completely or not at all."""
    if path.suffix == PARQUET:
        _parquet()
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        write_bytes(path, buffer.getvalue())
    else:
        write_bytes(path, frame.to_csv(index=False).encode())


def not_a_formula(name: str) -> str:
    """Return a name for a cell of a CSV file; a spreadsheet would take it for a formula without the apostrophe."""
    return f"'{name}" if name.startswith(_FORMULA) else name


def writable(path: Path) -> None:
    """Raise DataError unless a file can be created at `path`; called before hours of work, not after.

    Removes what a killed process may have left behind. Raises ConfigError without the extra for parquet.
    """
    if path.suffix == PARQUET:
        _parquet()
    with file_errors():
        check_name(path)
        if path.is_dir():
            raise DataError(f"{path}: cannot be written: it is a folder")
        if not path.absolute().parent.is_dir() or not os.access(path.absolute().parent, os.W_OK):
            raise DataError(f"{path}: cannot be written: there is no such folder, or this user may not write there")
        discard_partial(path)
