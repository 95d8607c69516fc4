"""Write a revealed model in another format.

Example: sharewood export --model model.json --out xgboost.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpc.errors import ConfigError
from mpc.host.encryption import FileKey
from secure_tree.exchange.plain_model import PlainModel
from secure_tree.exchange.scorecard import scorecard
from secure_tree.exchange.xgboost import to_xgboost
from secure_tree.model.storage import write_json
from sharewood.commands.options import FilesKey
from sharewood.job.apart import check_apart
from sharewood.job.secrets import named
from sharewood.logs import say
from sharewood.tables.files import not_a_formula, writable, write_frame


def export(
    model: Annotated[Path, typer.Option(help="A revealed model.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    format: Annotated[
        str, typer.Option(help="xgboost: JSON that xgboost.Booster loads. scorecard: points by interval, as a table.")
    ] = "xgboost",
    points: Annotated[float, typer.Option(help="Points of a scorecard at --odds.")] = 600,
    odds: Annotated[float, typer.Option(help="Rows of label 0 per row of label 1 at --points.")] = 50,
    double: Annotated[float, typer.Option(help="Points that double the odds.")] = 20,
    digits: Annotated[int, typer.Option(help="Decimals of points.")] = 0,
    files_key: FilesKey = None,
) -> None:
    if format not in ("xgboost", "scorecard"):
        raise ConfigError(f"--format must be xgboost or scorecard, got {format!r}")
    source = named({"files_key": files_key}).get("files_key")
    key = FileKey.parse(source.text(), str(source)) if source else None
    check_apart({"--out": out}, {"--model": model})
    plain = PlainModel.load(model, key)
    if format == "scorecard":
        card = scorecard(plain, points, odds, double).round({"points": digits})
        writable(out)
        write_frame(out, card.assign(feature=card["feature"].map(not_a_formula)))
    else:
        document = to_xgboost(plain)
        writable(out)
        write_json(out, document)
    say(f"wrote {out}")
