"""Write a revealed model in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpc.errors import ConfigError
from mpc.host.encryption import FileKey
from secure_tree.exchange.plain_model import PlainModel
from secure_tree.exchange.xgboost import to_xgboost
from secure_tree.model.storage import write_json
from sharewood.commands.options import FilesKey
from sharewood.job.apart import check_apart
from sharewood.job.secrets import named
from sharewood.logs import say
from sharewood.tables.files import writable


def export(
    model: Annotated[Path, typer.Option(help="A revealed model.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    format: Annotated[str, typer.Option(help="xgboost: JSON that xgboost.Booster loads.")] = "xgboost",
    files_key: FilesKey = None,
) -> None:
    if format != "xgboost":
        raise ConfigError(f"--format must be xgboost, got {format!r}")
    source = named({"files_key": files_key}).get("files_key")
    key = FileKey.parse(source.text(), str(source)) if source else None
    check_apart({"--out": out}, {"--model": model})
    document = to_xgboost(PlainModel.load(model, key))
    writable(out)
    write_json(out, document)
    say(f"wrote {out}")
