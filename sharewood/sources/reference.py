"""How a configuration or a command names a table: a file, a query of a database, or parquet files in an object store.

A reference never has credentials: they come from the environment, or from a file that it names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, PlainValidator, model_validator

from mpc.errors import ConfigError
from secure_tree.public.config import validated
from sharewood.tables.files import PARQUET

POSTGRESQL, DUCKDB, S3 = "postgresql", "duckdb", "s3"
_KINDS = {"postgres": POSTGRESQL, POSTGRESQL: POSTGRESQL, DUCKDB: DUCKDB, S3: S3}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SECRET = re.compile(r"pass(word|wd|phrase)|secret|token|key_id", re.IGNORECASE)
# What an ORDER BY of the whole query is not in: comments, quoted text, names in quotes.
_HIDDEN = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|(\$\w*\$).*?\1", re.DOTALL)
_PARENTHESES = re.compile(r"\([^()]*\)")


class DataSource(BaseModel):
    """A table in a database or in an object store.

    data: `postgresql://HOST/DATABASE`, `duckdb:FILE` or `s3://BUCKET/FOLDER/*.parquet`.
    query: what to ask a database for.
    credentials: a file, by default those that the environment names: a password file of PostgreSQL, or a credentials
    file of AWS.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    query: str | None = None
    credentials: Path | None = None

    @model_validator(mode="after")
    def _consistent(self) -> DataSource:
        # No message repeats `data`, which may have a password.
        if self.kind is None:
            raise ValueError(
                "data must begin with postgresql://, duckdb: or s3://, or be the name of a file without query"
            )
        if self.kind == DUCKDB and (self.credentials or not self.data.partition(":")[2].strip("/")):
            raise ValueError("data must be duckdb:FILE, without credentials")
        if self.kind != DUCKDB:
            _refuse_secrets(self.data)
        if self.kind == S3 and not self.data.endswith(PARQUET):
            raise ValueError("data must name parquet files, as in s3://BUCKET/FOLDER/*.parquet")
        if self.kind == S3 and self.query is not None:
            raise ValueError("query must be left out for files of an object store")
        if self.kind != S3 and not (self.query or "").strip():
            raise ValueError('query must be set for a database, as in query = "SELECT * FROM loans ORDER BY id"')
        return self

    @property
    def kind(self) -> str | None:
        scheme, found, _ = self.data.partition(":")
        return _KINDS.get(scheme.lower()) if found and (scheme.lower() == DUCKDB or _SCHEME.match(self.data)) else None

    def check_ordered(self, key: str) -> None:
        """Raise ConfigError, which begins with `key`, unless rows come in an order: a query must have ORDER BY."""
        text = _HIDDEN.sub(" ", self.query or "")
        while (less := _PARENTHESES.sub(" ", text)) != text:
            text = less
        if self.kind != S3 and not re.search(r"\border\s+by\b", text, re.IGNORECASE):
            raise ConfigError(
                f"{key}: the query must end with ORDER BY and columns that differ in each row, such as an id: a "
                "database gives rows in any order, and other parties' rows, --resume and records refer to one order"
            )

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files of this machine that are read."""
        file = [Path(self.data.partition(":")[2])] if self.kind == DUCKDB else []
        return (*file, *([self.credentials] if self.credentials else []))

    @property
    def name(self) -> str:
        """Return a name for a copy: that of the database, or of the files or their folder."""
        parts = [part for part in re.split(r"[/:]", str(self)) if part and "*" not in part]
        return re.sub(r"[^\w.-]", "_", Path(parts[-1]).stem)[:100] + PARQUET

    def __str__(self) -> str:
        """Return the place for messages, without user and options."""
        if self.kind != POSTGRESQL:
            return self.data
        url = urlsplit(self.data)
        return f"{POSTGRESQL}://{url.netloc.rpartition('@')[2]}{url.path}"

    def below(self, folder: Path) -> DataSource:
        """Return the source with relative paths resolved against `folder`."""
        data = f"{DUCKDB}:{folder / self.files[0]}" if self.kind == DUCKDB else self.data
        credentials = self.credentials and folder / self.credentials
        return self.model_copy(update={"data": data, "credentials": credentials})


def _refuse_secrets(data: str) -> None:
    try:
        url = urlsplit(data)
        password = url.password
        _ = url.port
    except ValueError:
        raise ValueError("data must be a URL, as in postgresql://HOST:PORT/DATABASE") from None
    if (
        password
        or any(_SECRET.search(name) for name, _ in parse_qsl(url.query))
        or "@" in url.path + url.query + url.fragment
    ):
        raise ValueError(
            "data must have no password: set PGPASSWORD, PGPASSFILE or the variables of AWS, or name a file by "
            "`credentials`"
        )
    if url.scheme == S3 and (url.query or "@" in url.netloc):
        raise ValueError("data must be s3://BUCKET/..., without credentials or options")


def parse_table(given: Any) -> Path | DataSource:
    """Return the file or the source that a value of a configuration names. Raises ValueError, which repeats no URL."""
    if isinstance(given, Path | DataSource):
        return given
    if isinstance(given, str) and not (_SCHEME.match(given) or given.lower().startswith(f"{DUCKDB}:")):
        return Path(given)
    values = {"data": given} if isinstance(given, str) else given
    if not isinstance(values, dict) or not isinstance(values.get("data"), str):
        raise ValueError("must be the name of a file, or { data = ..., query = ... }, where data is text")
    try:
        return validated(DataSource, values)
    except ConfigError as error:
        raise ValueError(str(error)) from None


TableSource = Annotated[Path | DataSource, PlainValidator(parse_table)]


def named_table(text: str, query: str | None) -> Path | DataSource:
    """Return the table that a command line names. Raises ConfigError."""
    try:
        return parse_table(text if query is None else {"data": text, "query": query})
    except ValueError as error:
        raise ConfigError(str(error)) from None


def files_of(table: Path | DataSource | None) -> tuple[Path, ...]:
    """Return the files of this machine that a table is read from."""
    return table.files if isinstance(table, DataSource) else (table,) if table else ()
