"""No command writes over a file that it reads, or writes two results into one file."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from itertools import combinations
from pathlib import Path

from mpc.errors import ConfigError
from mpc.host.files import check_name, same_file

# Paths by what a message calls them: a key of the configuration, or an option.
Paths = Mapping[str, Path | None]


def check_apart(writes: Paths, reads: Paths, chained: Collection[tuple[str, str]] = ()) -> None:
    """Raise DataError if a name cannot exist, ConfigError unless all files that are written are files of their own.

    Symbolic and hard links are followed. No file is written into a folder that is read. `chained` are pairs of a file
    that is written, and that is read later.
    """
    outputs, inputs = ({what: path for what, path in some.items() if path} for some in (writes, reads))
    for path in (*outputs.values(), *inputs.values()):
        check_name(path, room=0)
    for (what, path), (other, second) in combinations(outputs.items(), 2):
        if same_file(path, second):
            raise _collision(what, other, path)
    for what, path in outputs.items():
        for other, source in inputs.items():
            if (what, other) not in chained and (same_file(path, source) or _within(path, source)):
                raise _collision(what, other, path)


def _within(path: Path, folder: Path) -> bool:
    return folder.is_dir() and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _collision(what: str, other: str, path: Path) -> ConfigError:
    return ConfigError(f"{what} and {other} must be different files, got {path} for both")
