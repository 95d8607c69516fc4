"""Requests of a process to the system: end with its parent, adopt orphans, leave no core dump, return freed memory."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36


def end_with(parent: int) -> None:
    """Have the system kill this process when its parent, process `parent`, ends for any reason."""
    signal_at_end_of(parent, signal.SIGKILL)


def signal_at_end_of(parent: int, number: signal.Signals) -> None:
    """Have the system send this process a signal when its parent, process `parent`, ends for any reason."""
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)  # the parent ended before it could be watched


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def leave_no_core_dump() -> None:
    """Disable core dumps of this process: they would contain keys, shares and rows."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prctl(_PR_SET_DUMPABLE, 0)  # the limit does not apply where the system pipes core dumps to a program


def give_back_freed_memory() -> None:
    """Return freed memory to the system, before arrays of other sizes find it fragmented and allocate more beside it.

    Does nothing if the C library is not glibc.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def _prctl(option: int, value: int) -> None:
    """Call prctl on Linux; do nothing elsewhere."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl:
        prctl(option, value, 0, 0, 0)
