"""Propose a schema file for tables on standard output: types, categories, missing values, and what to look at.

One schema fits all tables. Ids, dates and free text are recognised; comments name constant columns and odd values.

Example: sharewood schema bank_a.csv bank_b.csv --label defaulted > schema.toml
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sharewood.logs import in_json, say
from sharewood.tables.proposing import document, propose


def schema(
    tables: Annotated[list[Path], typer.Argument(help="Tables of one party, CSV or parquet.")],
    label: Annotated[
        str | None, typer.Option(help="Label column; by default label or y, if there is one.", show_default=False)
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
) -> None:
    text = document(tables, propose(tables, label, weight))
    if in_json():
        say(text)
    else:
        typer.echo(text, nl=False)
