"""Infer the types of columns from tables without a schema file, and log them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from mpc.errors import DataError
from mpc.host.frames import pd
from secure_tree.agreement.messages import is_printable
from sharewood.tables.columns import Column, Columns
from sharewood.tables.files import check_plain, make_schema, read_cells

log = logging.getLogger("sharewood")
MOST_CATEGORIES = 32


def describe(paths: Sequence[Path], columns: Columns) -> Columns:
    """Return `columns` with the features of the tables that contain text or empty cells.

    A column of text is categorical, and every distinct text is a category; one that also has numbers remains numeric.
    Raises DataError.
    """
    ids = [name for name, column in columns.known.items() if column.type == "id"]
    tables = [read_cells(path, ids) for path in paths]
    names = list(dict.fromkeys(name for table in tables for name in columns.features(table)))
    for path, table in zip(paths, tables, strict=True):
        for name in columns.features(table):
            check_plain(path, name, table[name])
    text = [name for name in names if _is_text([table[name] for table in tables if name in table])]
    if text:
        tables = [read_cells(path, [*ids, *text]) for path in paths]
    found: dict[str, Column] = {}
    for name in names:
        parts = [table[name] for table in tables if name in table]
        missing = any(part.isna().any() for part in parts)
        if name in text:
            categories = sorted({str(value) for part in parts for value in part.dropna().unique()})
            _check_categories(paths, name, categories)
            found[name] = Column(type="categorical", missing=missing, categories=tuple(categories))
            log.info("column %r holds text: it is categorical, with %s", name, ", ".join(categories))
        elif missing:
            found[name] = Column(type="numeric", missing=True)
        if missing:
            log.info("column %r has empty cells: they are missing values", name)
    return Columns({**columns.known, **found})


def _is_text(parts: Sequence[pd.Series]) -> bool:
    """Return whether there are values and none of them is a number."""
    if any(part.dtype.kind in "biufmM" and part.notna().any() for part in parts):
        return False
    known = [part.dropna() for part in parts]
    return any(map(len, known)) and all(pd.to_numeric(part, errors="coerce").isna().all() for part in known)


def _check_categories(paths: Sequence[Path], name: str, categories: list[str]) -> None:
    where = " and ".join(path.name for path in paths)
    if unprintable := next((each for each in categories if not is_printable(each)), None):
        raise DataError(f"{where}: column {name!r} must have no control characters, got {unprintable!r}")
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"{where}: column {name!r} holds {len(categories)} different texts, but more than {MOST_CATEGORIES} are "
            f"not accepted as categories: declare its type in a schema file ({make_schema(paths[0])})"
        )
