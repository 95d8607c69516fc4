"""Folders that only the current user may enter."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from mpc.errors import ConfigError

_IN_MEMORY = "/dev/shm"


def private_folder(path: Path) -> Path:
    """Make the folder if it does not exist, and return it.

    Raises ConfigError if others may enter it, OSError if it cannot be made.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise ConfigError(f"{path} must be a folder that only this user may enter: remove it")
    return path


def temporary_folder() -> Path:
    """Return this user's private folder in the system's temporary folder. Raises ConfigError, OSError."""
    return private_folder(Path(tempfile.gettempdir()) / f"sharewood-{os.getuid()}")


def memory_folder() -> Path:
    """Return this user's private folder in memory, or the temporary one if no file system is in memory."""
    if not os.access(_IN_MEMORY, os.W_OK):
        return temporary_folder()
    return private_folder(Path(_IN_MEMORY) / f"sharewood-{os.getuid()}")


def cache_folder() -> Path:
    """Return the folder for reproducible files: the user's cache, or else the temporary folder. Raises ConfigError."""
    return _first_of("XDG_CACHE_HOME", "~/.cache")


def state_folder() -> Path:
    """Return the folder for what must outlive a run: the user's state, or else the temporary folder.

    Raises ConfigError.
    """
    return _first_of("XDG_STATE_HOME", "~/.local/state")


def _first_of(variable: str, default: str) -> Path:
    """Return the first folder that this user can write. Raises ConfigError."""
    for base in (os.environ.get(variable, ""), os.path.expanduser(default)):
        if not os.path.isabs(base):
            continue
        try:
            folder = private_folder(Path(base) / "sharewood")
            tempfile.TemporaryFile(dir=folder).close()
        except (ConfigError, OSError):
            continue
        return folder
    try:
        return temporary_folder()
    except OSError as error:
        raise ConfigError(f"no folder of this user can be written ({error.strerror})") from None
