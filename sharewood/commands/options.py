"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from mpc.errors import ConfigError
from secure_tree.public.config import Parameters

# Groups of options in the help.
CHECKS, WORKERS, KEYS, OUTPUT = "Checks of the computation", "Workers", "Keys of this host", "Output"

Config = Annotated[Path, typer.Option(help="TOML file of the job.")]
PartyName = Annotated[str, typer.Option(help="This host's party, by its name in the configuration.")]
Audited = Annotated[
    bool, typer.Option("--audit", help="Audit the computation, at both parties.", rich_help_panel=CHECKS)
]
Passphrase = Annotated[
    str | None,
    typer.Option(
        help="Passphrase of this host's private key: file:PATH or env:NAME.", metavar="SOURCE", rich_help_panel=KEYS
    ),
]
FilesKey = Annotated[
    str | None,
    typer.Option(
        help="Key of this host's models, checkpoints and prepared material: file:PATH or env:NAME.",
        metavar="SOURCE",
        rich_help_panel=KEYS,
    ),
]
Reasons = Annotated[
    int | None,
    typer.Option("--reasons", help="How many columns to name that moved each prediction most; at both parties."),
]
Macs = Annotated[
    bool,
    typer.Option(
        "--mac",
        help="Check every opened value by MACs, at both parties. This protects the result against lies, but not the "
        "other party's rows or the model against a party that deviates.",
        rich_help_panel=CHECKS,
    ),
]
Json = Annotated[Path | None, typer.Option(help="Also write the report to this file.", rich_help_panel=OUTPUT)]
Shards = Annotated[
    int | None,
    typer.Option(
        help="Number of workers among which the rows are divided; the same at both parties.", rich_help_panel=WORKERS
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Address of this party's own Ray cluster; by default, Ray is started on this machine.",
        rich_help_panel=WORKERS,
    ),
]
Query = Annotated[str | None, typer.Option(help="What to ask a database for.")]

Folds = Annotated[int, typer.Option(min=2, max=100, help="Number of folds; the same at both parties.")]
TableOut = Annotated[Path | None, typer.Option(help="Also write the table, CSV or parquet.", rich_help_panel=OUTPUT)]

Choice = TypeVar("Choice")


def one_of(option: str, value: str, choices: tuple[Choice, ...]) -> Choice:
    """Return the choice with this value. Raises ConfigError."""
    found = next((choice for choice in choices if choice == value), None)
    if found is None:
        raise ConfigError(f"{option} must be {' or '.join(map(str, choices))}, got {value!r}")
    return found


# The flags of fields whose options do not have their names.
_FLAGS = {
    "total_trees": "--trees",
    "n_estimators": "--trees",
    "update_estimators": "--update-trees",
    "max_depth": "--depth",
    "max_bin": "--bins",
    "rechoose": "--rechoose/--choose-once",
}


def fields_as_options(
    schema: type[Parameters], names: Iterable[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each of the named fields (default: all) of a configuration; a decorator.

    The options stand in the place of the command's keyword `config`, which gets the configuration. Values are validated
    by the configuration, not by the option.
    """
    fields = {name: schema.model_fields[name] for name in names or schema.model_fields}

    def option(name: str) -> inspect.Parameter:
        field = fields[name]
        kind: Any = type(field.default)
        if field.default is None:
            kind = field.annotation
        elif kind is tuple:
            kind = tuple[tuple(map(type, field.default))]  # type: ignore[misc]  # as many values as the default has
        flags = [_FLAGS[name]] if name in _FLAGS else []
        kind = Annotated[kind, typer.Option(*flags, help=" ".join((field.description or "").split()))]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=kind)

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            command(config=schema.of(**{name: given.pop(name) for name in fields}), **given)

        own = inspect.signature(command, eval_str=True).parameters.values()
        shown = [each for one in own for each in (map(option, fields) if one.name == "config" else [one])]
        vars(run)["__signature__"] = inspect.Signature(shown)
        return run

    return with_options
