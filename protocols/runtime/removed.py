"""Options of earlier releases that no longer exist, and what to use instead."""

from __future__ import annotations

from collections.abc import Iterable

from mpc.errors import ConfigError

REMOVED = {
    "comparison": "leave it out; shares are compared in the way that costs least",
    "check_dealer": 'who distrusts the dealer uses offline = "pairwise", which has none; an audit finds faults',
}


def refuse_removed(names: Iterable[str]) -> None:
    """Raise ConfigError if one of the names is that of a removed option."""
    for name in names:
        if name in REMOVED:
            raise ConfigError(f"{name} no longer exists: {REMOVED[name]}")
