"""What a process of ours asks of the system: to end with its parent, to leave no image of its memory, to take back what
it has freed.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def end_with(parent: int) -> None:
    """Have the system kill this process when its parent, process `parent`, ends in whatever way."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)  # it ended before it could be watched


def leave_no_core_dump() -> None:
    """A crash writes no image of this process: it would hold keys, shares and rows."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prctl(_PR_SET_DUMPABLE, 0)  # the limit does not bind a system that pipes images to a program


def give_back_freed_memory() -> None:
    """Before arrays of other sizes come: they would find the freed memory in pieces, and take more beside it.

    Does nothing where the C library is not glibc.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere nothing happens."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl:
        prctl(option, value, 0, 0, 0)
