"""Get predictions from the parties' services, which see neither the rows nor the predictions.

The services must run with `halves = true`. The file names both, and needs no party's files.

Example: sharewood query --config client.toml --rows applicants.csv --out scores.csv
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpc.host.files import file_errors
from sharewood.commands.options import Config
from sharewood.logs import in_json, say, say_document
from sharewood.serving.asking import ask_services


def query(
    config: Config,
    rows: Annotated[Path, typer.Option(help="Table of the rows to predict, CSV or parquet.")],
    out: Annotated[Path, typer.Option(help="Table of predictions to write.")],
) -> None:
    with file_errors():
        count = ask_services(config, rows, out)
    if in_json():
        say_document({"rows": count, "predictions": str(out)})
    else:
        say(f"{out}: predictions of {count:,} rows")
