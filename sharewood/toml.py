"""Read TOML files, with one sentence for an error in them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from mpc.errors import ConfigError


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file. Raises ConfigError that names it."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # tables nested too deeply
        raise ConfigError(f"{path}: not TOML ({error})") from None
