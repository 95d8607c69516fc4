"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from mpc.errors import ConfigError

Config = Annotated[Path, typer.Option(help="TOML file of the job.")]
PartyName = Annotated[str, typer.Option(help="This host's party, by its name in the configuration.")]
Audited = Annotated[bool, typer.Option("--audit", help="Audit the computation, at both parties.")]
Passphrase = Annotated[
    str | None, typer.Option(help="Passphrase of this host's private key: file:PATH or env:NAME.", metavar="SOURCE")
]
FilesKey = Annotated[
    str | None,
    typer.Option(help="Key of this host's models, checkpoints and prepared material: file:PATH or env:NAME."),
]
Macs = Annotated[
    bool,
    typer.Option(
        "--mac",
        help="Check every opened value by MACs, at both parties. This protects the result against lies, but not the "
        "other party's rows or the model against a party that deviates.",
    ),
]
Json = Annotated[Path | None, typer.Option(help="Also write the report to this file.")]
Shards = Annotated[
    int | None, typer.Option(help="Number of workers among which the rows are divided; the same at both parties.")
]
RayAddress = Annotated[
    str | None,
    typer.Option("--ray", help="Address of this party's own Ray cluster; by default, Ray is started on this machine."),
]

Folds = Annotated[int, typer.Option(min=2, max=100, help="Number of folds; the same at both parties.")]
TableOut = Annotated[Path | None, typer.Option(help="Also write the table, CSV or parquet.")]

Choice = TypeVar("Choice")


def one_of(option: str, value: str, choices: tuple[Choice, ...]) -> Choice:
    """Return the choice with this value. Raises ConfigError."""
    found = next((choice for choice in choices if choice == value), None)
    if found is None:
        raise ConfigError(f"{option} must be {' or '.join(map(str, choices))}, got {value!r}")
    return found
