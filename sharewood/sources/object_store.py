"""Rows of parquet files in an object store, as Arrow record batches, file by file in the order of their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mpc.errors import DataError
from mpc.host.files import read_private
from sharewood.sources.reference import S3, DataSource

if TYPE_CHECKING:
    import pyarrow as pa

# Rows of a batch.
_ROWS = 1 << 15
# Seconds to wait for a connection and an answer.
_WAITS = {"connect_timeout": 15, "read_timeout": 60, "retries": {"max_attempts": 2}}


@contextmanager
def rows_of_files(source: DataSource) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Yield the columns and the batches of all files, which must have the same columns.

    Memory is that of a row group of a file. Raises DataError.
    """
    import s3fs
    from pyarrow.parquet import ParquetFile

    with _told(source):
        store = s3fs.S3FileSystem(config_kwargs=_WAITS, skip_instance_cache=True, **_keys(source))
        paths = sorted(store.glob(source.data.partition("://")[2]))
    if not paths:
        raise DataError(f"{source}: there is no such file")

    def opened(path: str) -> Any:
        return ParquetFile(store.open(path, "rb"), pre_buffer=True)

    with _told(source), opened(paths[0]) as first:
        schema = first.schema_arrow

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with _told(source), opened(path) as file:
                _check_same(f"{S3}://{path}", file.schema_arrow, schema, f"{S3}://{paths[0]}")
                for group in range(file.num_row_groups):
                    yield from file.iter_batches(_ROWS, [group])

    yield schema, batches()


def _keys(source: DataSource) -> dict[str, Any]:
    """Return where the keys are, unless the environment tells."""
    if source.credentials is None:
        return {}
    read_private(source.credentials, "file with keys")
    from aiobotocore.session import AioSession

    session = AioSession()
    session.set_config_variable("credentials_file", str(source.credentials))
    return {"session": session}


def _check_same(path: str, schema: pa.Schema, first: pa.Schema, where: str) -> None:
    if schema.names != first.names:
        raise DataError(f"{path}: must have the columns of {where} in the same order")
    for name, own, other in zip(schema.names, schema.types, first.types, strict=True):
        if own != other:
            raise DataError(f"{path}: column {name!r} must have the type of {where}, {other}, got {own}")


@contextmanager
def _told(source: DataSource) -> Iterator[None]:
    """Raise DataError for what a store or a file is at fault for. Its messages name no keys."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{source}: there is no such file") from None
    except PermissionError:
        raise DataError(f"{source}: the store refuses access: check the credentials and the bucket's policy") from None
    except (BotoCoreError, ClientError, OSError, ValueError) as error:
        reason = " ".join(re.sub(r"https?://\S*", "its address", str(error)).split())
        raise DataError(f"{source}: cannot be read ({reason})") from None
