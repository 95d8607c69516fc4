"""Everything that the modules of `mpc` declare: protocols and correlations, found by importing each module once."""

from __future__ import annotations

import functools
import importlib
import pkgutil

import mpc
from mpc.correlation import CORRELATIONS


@functools.cache
def _load() -> None:
    for module in pkgutil.iter_modules(mpc.__path__):
        importlib.import_module(f"mpc.{module.name}")


def correlations() -> dict[str, type]:
    """Every kind of correlated randomness by its name."""
    _load()
    return CORRELATIONS
