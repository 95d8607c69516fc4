"""List what the runs of a configuration left at this party; with --yes, delete it.

Stop the commands that use the files first. The other party's half, copies and backups are not touched.

Example: sharewood purge --config party_a.toml --party party_a --keep model --yes
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mpc.errors import ConfigError, DataError
from mpc.host.files import remove
from secure_tree.training.checkpoint import is_checkpoint
from sharewood.commands.options import Config, PartyName, one_of
from sharewood.job.config import HostsConfig
from sharewood.logs import say
from sharewood.serving.served import is_served
from sharewood.sources.reference import files_of
from sharewood.tables.shards import MANIFEST

KINDS = ("model", "screened", "checkpoints", "prepared", "aligned", "predictions", "served", "revealed", "report")
# Of these folders, only files of this kind.
_FOLDERS = {"checkpoints": is_checkpoint, "served": is_served}
# Tables that a party brings: these, keys, and files that no command writes are never deleted.
_INPUTS = ("columns", "align_data", "train_data", "test_data", "predict_data")


def purge(
    config: Config,
    party: PartyName,
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only list.")] = False,
    keep: Annotated[list[str] | None, typer.Option(help=f"Keep this kind; repeatable: {', '.join(KINDS)}.")] = None,
    report: Annotated[list[Path] | None, typer.Option(help="A report written by --json; repeatable.")] = None,
) -> None:
    kept = {one_of("--keep", kind, KINDS) for kind in keep or ()}
    for path in report or ():
        if not path.is_file():
            raise ConfigError(f"--report {path}: there is no such file")
    count = 0
    for left in left_by(HostsConfig.read(config), party, tuple(report or ())):
        if left.kind in kept:
            continue
        say(str(left))
        if left.why:
            continue
        count += 1
        if yes:
            delete(left)
    if not count:
        say("nothing to delete")
    elif yes:
        say("deleted")
    else:
        say("nothing was deleted: to delete these, add --yes")


@dataclass(frozen=True)
class Left:
    """A file or folder that a run left: its kind, and the files in it; `why` says why it is not deleted."""

    kind: str
    path: Path
    files: tuple[Path, ...]
    why: str = ""

    def __str__(self) -> str:
        size = sum(file.stat().st_size for file in self.files)
        newest = dt.datetime.fromtimestamp(max((f.stat().st_mtime for f in self.files), default=0), dt.UTC)
        many = f"{len(self.files)} files, " if self.path.is_dir() else ""
        text = f"{self.kind:12}{self.path}  ({many}{size / 1e6:.2f} MB, changed {newest:%Y-%m-%d %H:%M} UTC)"
        return f"{text}: kept, {self.why}" if self.why else text


def left_by(config: HostsConfig, name: str, reports: tuple[Path, ...] = ()) -> Iterator[Left]:
    """Yield what the runs of a configuration left at a party. Raises ConfigError for another name."""
    party = config.party(name)
    brought = [path.resolve() for field in _INPUTS for path in files_of(getattr(party, field))]
    # What `align` writes is often trained on; it is made from `align_data`.
    if party.aligned and party.align_data:
        brought = [path for path in brought if path != party.aligned.resolve()]
    for kind in KINDS:
        paths = reports if kind == "report" else [path for path in [getattr(party, kind)] if path]
        for path in paths:
            for each in (path, path.with_name(path.name + ".partial")):
                if not each.exists() and not each.is_symlink():
                    continue
                why = "it is a table that this party brought" if each.resolve() in brought else ""
                left = _found(kind, each, why)
                if left.files or left.why or left.kind not in _FOLDERS:
                    yield left


def _found(kind: str, path: Path, why: str) -> Left:
    if path.is_symlink():
        return Left(kind, path, (), "it is a link: delete its target yourself")
    if not path.is_dir():
        return Left(kind, path, (path,), why)
    files = tuple(sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink()))
    if kind in _FOLDERS:
        return Left(kind, path, tuple(file for file in files if file.parent == path and _FOLDERS[kind](file)), why)
    if path.suffix != ".partial" and not (path / MANIFEST).exists():
        why = why or f"it has no {MANIFEST}, so no command of Sharewood wrote it"
    return Left(kind, path, files, why)


def delete(left: Left) -> None:
    """Delete what a run left; a folder of several runs stays if it has other files. Raises DataError."""
    if left.path.is_dir() and left.kind not in _FOLDERS:
        try:
            shutil.rmtree(left.path)
        except OSError as error:
            raise DataError(f"{left.path}: cannot be removed ({error.strerror})") from None
        return
    for file in left.files:
        remove(file)
    if left.path.is_dir() and not any(left.path.iterdir()):
        left.path.rmdir()
