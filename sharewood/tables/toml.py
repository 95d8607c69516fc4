"""Read TOML files, with one sentence for an error in them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from mpc.errors import ConfigError
from mpc.host.files import read_bounded


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file. Raises ConfigError that names it."""
    try:
        return tomllib.loads(read_bounded(path).decode())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # tables nested too deeply
        raise ConfigError(f"{path}: not TOML ({error})") from None
