"""Propose a schema file for tables on standard output: types, categories, missing values, and what to look at.

One schema fits all tables. Ids, dates and free text are recognised; comments name constant columns and odd values.

Example: sharewood schema bank_a.csv bank_b.csv --label defaulted > schema.toml
"""

from __future__ import annotations

from typing import Annotated

import typer

from sharewood.commands.options import Query
from sharewood.logs import in_json, say
from sharewood.sources.copies import copied
from sharewood.sources.reference import named_table
from sharewood.tables.proposing import document, propose


def schema(
    tables: Annotated[
        list[str], typer.Argument(help="Tables of one party: CSV, parquet, postgresql://..., duckdb:FILE or s3://....")
    ],
    label: Annotated[
        str | None, typer.Option(help="Label column; by default label or y, if there is one.", show_default=False)
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    query: Query = None,
) -> None:
    brought = {str(place): named_table(table, query) for place, table in enumerate(tables)}
    with copied(brought) as files:
        paths = [files[place] for place in brought]
        text = document(paths, propose(paths, label, weight))
    for place, table in brought.items():
        text = text.replace(str(files[place]), str(table))
    if in_json():
        say(text)
    else:
        typer.echo(text, nl=False)
