"""Cores for the processes that are measured: the parties each their own, so that no scheduler's choice is measured."""

from __future__ import annotations

import os

# Taken before any process is kept to one: a child inherits the core of its parent.
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def keep_to(place: int, cores: list[int]) -> None:
    """Keep this process to the core at `place`, counted round; nothing where the system does not let it."""
    if cores:
        os.sched_setaffinity(0, {cores[place % len(cores)]})


def let_go() -> None:
    """Every core again: what this process starts from here on inherits them."""
    if CORES:
        os.sched_setaffinity(0, CORES)
