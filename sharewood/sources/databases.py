"""Rows of a query, as Arrow record batches: of a PostgreSQL server, or of a DuckDB file; both drivers are ADBC's.

A query reads: PostgreSQL runs it in a read-only transaction, and a DuckDB file is opened to read only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

from mpc.errors import DataError
from mpc.host.files import open_regular, read_private
from protocols.runtime.loopback import is_loopback
from sharewood.sources.reference import DUCKDB, DataSource

if TYPE_CHECKING:
    import pyarrow as pa

# Seconds to wait for a server, unless the URL or PGCONNECT_TIMEOUT says otherwise.
_PATIENCE = 15
# Memory in which DuckDB sorts; what is more goes to the folder of the copy.
_MEMORY = "1GB"
# What a driver says before and after the reason.
_REASON = re.compile(
    r"(?:(?:ERROR|FATAL): +|failed: (?!FATAL)|[A-Z]\w+ Error: |Failed to connect: (?!connection to))([^\n]+)"
)


@contextmanager
def rows_of_query(source: DataSource, folder: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Yield the columns and the batches of a query; `folder` is for temporary files.

    Raises DataError with the reason of the database, but neither URL nor query.
    """
    from adbc_driver_manager import Error, dbapi

    driver = _duckdb(source, folder) if source.kind == DUCKDB else _postgresql(source)

    @contextmanager
    def told() -> Iterator[None]:
        try:
            yield
        except (Error, OSError) as error:  # while rows are read, pyarrow passes on a database's error as OSError
            raise DataError(f"{source}: {_reason(str(error))}") from None

    def batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            with told():
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    with told():
        connection = dbapi.connect(**driver)
    with connection, connection.cursor() as cursor:
        with told():
            if source.kind != DUCKDB:
                cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(source.query or "")
            reader = cursor.fetch_record_batch()
        yield reader.schema, batches(reader)


def _duckdb(source: DataSource, folder: Path) -> dict[str, Any]:
    import adbc_driver_duckdb

    (file,) = source.files
    try:
        open_regular(file).close()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    options = {"path": str(file), "access_mode": "READ_ONLY", "memory_limit": _MEMORY, "temp_directory": str(folder)}
    return {
        "driver": adbc_driver_duckdb.driver_path(),
        "entrypoint": "duckdb_adbc_init",
        "db_kwargs": options,
        "autocommit": True,
    }


def _postgresql(source: DataSource) -> dict[str, Any]:
    """Return the driver with the URL, and with what is safe where neither the URL nor the environment decides."""
    import adbc_driver_postgresql

    url = urlsplit(source.data)
    given = dict(parse_qsl(url.query))
    added = {"application_name": "sharewood"}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        added["connect_timeout"] = str(_PATIENCE)
    host = given.get("host") or url.hostname or os.environ.get("PGHOST", "")
    here = host[:1] in ("", "/", "@") or is_loopback(host)
    if not here and not {"PGSSLMODE", "PGSERVICE"} & {*os.environ} and "service" not in given:
        added["sslmode"] = "verify-full"
    if source.credentials:
        # From a file that others can read, PostgreSQL takes no password, and does not say so.
        read_private(source.credentials, "file with passwords")
        added["passfile"] = str(source.credentials)
    options = "&".join(f"{name}={quote(value, safe='')}" for name, value in added.items() if name not in given)
    uri = f"{source.data}{'&' if url.query else '?'}{options}"
    return {"driver": adbc_driver_postgresql._driver_path(), "db_kwargs": {"uri": uri}}


def _reason(text: str) -> str:
    """Return the reason that a database gives, on one line, and what to do about it."""
    found = _REASON.search(text)
    reason = " ".join((found[1] if found else text.partition("\n")[0]).split())
    if "password" in reason:
        reason += ": set PGPASSWORD or PGPASSFILE, or name a password file by `credentials`"
    elif "certificate" in reason or "SSL" in reason:
        reason += ": name the file of the server's authority by sslrootcert in the URL, or by PGSSLROOTCERT"
    return reason
