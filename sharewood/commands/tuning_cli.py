"""The commands `sharewood cv | grid`; `sharewood.cli` adds them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sharewood.commands.options import Config, Json, PartyName
from sharewood.logs import in_json, say, say_document

app = typer.Typer()

Folds = Annotated[int, typer.Option(min=2, max=100, help="Number of folds; the same at both parties.")]
Out = Annotated[Path | None, typer.Option(help="Also write the table, CSV or parquet.")]


@app.command()
def cv(config: Config, party: PartyName, folds: Folds = 5, out: Out = None, json: Json = None) -> None:
    """Cross-validate the section train on both parties' tables.

    Both learn the metrics of each fold; the models are discarded.
    """
    _tune(config, party, folds, False, out, json)


@app.command()
def grid(config: Config, party: PartyName, folds: Folds = 5, out: Out = None, json: Json = None) -> None:
    """Cross-validate every combination of the values in the section grid.

    Both learn the metrics of each combination's folds; the models are discarded.
    """
    _tune(config, party, folds, True, out, json)


def _tune(config: Path, party: str, folds: int, searching: bool, out: Path | None, json: Path | None) -> None:
    import pandas as pd

    from sharewood.commands.tuning import tune
    from sharewood.job.config import HostsConfig
    from sharewood.report.figures import merge_texts

    report = tune(HostsConfig.read(config), party, folds, searching, out, json)
    if in_json():
        return say_document(report.document())
    say(pd.DataFrame(report.table).to_string(index=False, float_format=lambda value: f"{value:.6g}"))
    if report.best is not None:
        say("best: " + ", ".join(f"{name} = {value}" for name, value in report.best.items()))
    learned = "; ".join(merge_texts(report.costs.revealed)) or "nothing"
    say(f"this party learned, besides row counts, feature names and parameters: {learned}")
    if report.written:
        say(f"wrote {' and '.join(report.written)}")
    return None
