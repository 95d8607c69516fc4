"""Pin the measured processes, so that each party has a core of its own and the scheduler has no influence."""

from __future__ import annotations

import os

# Read before any process is pinned, because a child inherits the core of its parent.
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def keep_to(place: int, cores: list[int]) -> None:
    """Pin this process to the core at `place`, modulo their number; do nothing if the system does not support it."""
    if cores:
        os.sched_setaffinity(0, {cores[place % len(cores)]})


def let_go() -> None:
    """Allow every core again; processes started from here on inherit them."""
    if CORES:
        os.sched_setaffinity(0, CORES)
