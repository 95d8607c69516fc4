"""Where numba keeps compiled kernels: beside their sources, or in a folder of this user where those cannot be written.

Anyone who can write to that folder can run code in this process, so nobody else may enter it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numba

from mpc.errors import ConfigError
from mpc.folders import cache_folder, private_folder

_VARIABLE = "NUMBA_CACHE_DIR"


def keep_compiled() -> None:
    """Have numba use the folder, here and in child processes. Raises ConfigError if there is none."""
    if os.environ.get(_VARIABLE) or _writable(Path(__file__).parent / "__pycache__"):
        return
    try:
        folder = private_folder(cache_folder() / "numba")
    except (ConfigError, OSError) as error:
        raise ConfigError(f"compiled code needs a folder: set {_VARIABLE} to one of this user; {error}") from None
    os.environ[_VARIABLE] = str(folder)
    numba.config.reload_config()


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True
