"""Copies of tables from elsewhere, which all readers of files then read: made in bounded memory, and gone at the end.

A copy is a parquet file that only this user can read, in the folder TMPDIR. The rows of a query are thus read once,
however often a command needs them. Equal rows give equal copies, so that digests tell whether a table has changed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, BinaryIO

from mpc.errors import ConfigError, DataError, SharewoodError
from mpc.host.extras import install
from mpc.host.files import alone_in, file_errors
from mpc.host.folders import temporary_folder
from sharewood.sources.databases import rows_of_query
from sharewood.sources.object_store import rows_of_files
from sharewood.sources.reference import S3, DataSource
from sharewood.tables.files import checked_names

if TYPE_CHECKING:
    import pyarrow as pa

# Rows of a row group, and its cells, by which a wide table has fewer rows.
_ROWS, _CELLS = 1 << 17, 1 << 22
# How the name of a folder of copies begins, and seconds after which one without a process is removed.
_FOLDER, _YOUNG = "tables-", 60.0


@contextmanager
def copied(tables: Mapping[str, Path | DataSource | None]) -> Iterator[dict[str, Path]]:
    """Yield the file of each table by its role: itself, or a copy, which is removed after the block.

    Errors in the block name the source in place of its copy. Raises ConfigError, DataError.
    """
    files = {role: table for role, table in tables.items() if isinstance(table, Path)}
    sources = {role: table for role, table in tables.items() if isinstance(table, DataSource)}
    if not sources:
        yield files
        return
    with _private_folder() as folder:
        for role, source in sources.items():
            files[role] = folder / role / source.name
            _copy(source, files[role])
        try:
            yield files
        except SharewoodError as error:
            text = str(error)
            for role, source in sources.items():
                text = text.replace(str(files[role]), str(source)).replace(files[role].name, str(source))
            error.args = (text,)
            raise


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Make a folder for the length of the block, and remove those that killed processes have left."""
    with file_errors():
        root = temporary_folder()
        for left in root.glob(f"{_FOLDER}*"):
            with suppress(ConfigError, OSError):
                if time.time() - left.stat().st_mtime > _YOUNG:
                    with alone_in(left):
                        shutil.rmtree(left)
        folder = Path(mkdtemp(prefix=_FOLDER, dir=root))
    try:
        with alone_in(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(source: DataSource, path: Path) -> None:
    """Write the rows of a source to a file. Raises ConfigError, DataError."""
    path.parent.mkdir(mode=0o700)
    try:
        from pyarrow.parquet import ParquetWriter

        opened = rows_of_files(source) if source.kind == S3 else rows_of_query(source, path.parent)
        with opened as (schema, batches):
            if not checked_names(source, schema.names):
                raise DataError(f"{source}: the query gives no columns")
            plain = schema if source.kind == S3 else _plain(source, schema)
            rows, known = max(1, min(_ROWS, _CELLS // len(schema))), False
            with _written(path) as file, ParquetWriter(file, plain) as writer:
                for table in _groups(batches, schema, rows):
                    columns = [_cast(source, name, table[name], plain.field(name).type) for name in plain.names]
                    writer.write_table(type(table).from_arrays(columns, schema=plain), row_group_size=rows)
                    known = True
            if not known:
                raise DataError(f"{source}: the {'files have' if source.kind == S3 else 'query gives'} no rows")
    except ModuleNotFoundError as error:
        raise ConfigError(f"{source} needs {error.name}, which is not installed: {install('sources')}") from None


def _groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Yield all rows in tables of `rows` rows, however they are divided in the batches."""
    import pyarrow as pa

    rest = pa.Table.from_batches([], schema)
    for batch in batches:
        rest = pa.concat_tables([rest, pa.Table.from_batches([batch], schema)])
        while len(rest) >= rows:
            yield rest.slice(0, rows).combine_chunks()
            rest = rest.slice(rows)
    if len(rest):
        yield rest.combine_chunks()


def _plain(source: DataSource, schema: pa.Schema) -> pa.Schema:
    """Return the columns with types that a table may have. Raises DataError for other types of a database."""
    import pyarrow as pa
    from pyarrow import types

    def plain(field: pa.Field) -> pa.DataType:
        own = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        if own == "numeric" or types.is_decimal(kind):
            return pa.float64()
        numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        # PostgreSQL's money comes as a number of the smallest units.
        if own != "money" and (numbers or types.is_null(kind) or types.is_string(kind) or types.is_large_string(kind)):
            return kind
        raise DataError(
            f"{source}: column {field.name!r} must have numbers or text, got the type {own or kind}: convert it in the "
            "query, such as CAST(... AS text) for an id, or leave it out"
        )

    return pa.schema([pa.field(field.name, plain(field)) for field in schema])


def _cast(source: DataSource, name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return values in another type; those of an extension are in its storage. Raises DataError."""
    import pyarrow as pa

    if column.type == kind:
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise DataError(f"{source}: column {name!r}: {error}") from None


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that only this user can read. Raises DataError if it cannot be written."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{path}: cannot be written ({reason}): set TMPDIR to a folder with more space") from None
