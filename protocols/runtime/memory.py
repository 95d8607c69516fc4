"""How a process of ours treats the memory that it frees, and how much of it another one may take."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER = 1 << 30


def keep_freed_memory() -> None:
    """Have the C library keep freed arrays for the next ones, instead of asking the system for pages each time.

    A protocol makes and frees arrays of the same sizes over and over; fresh pages, cleared by the system, cost more
    than the arithmetic on them. Does nothing where the C library is not glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, _NEVER)
    mallopt(_M_TRIM_THRESHOLD, _NEVER)


def bound_memory(size: int | None = None) -> None:
    """From now on this process may take `size` bytes more, or half of what the machine has; then MemoryError.

    Where the machine has none left, the system ends this process before others. Linux only.
    """
    with contextlib.suppress(OSError):
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limit = taken + (size or machine_memory() // 2)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        Path("/proc/self/oom_score_adj").write_text("500")


def machine_memory() -> int:
    """Bytes that this machine, or the container that this process is in, has."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):
        return whole
