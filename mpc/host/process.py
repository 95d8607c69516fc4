"""Requests of a process to the system: end with its parent, adopt orphans, leave no core dump; its memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_NEVER = 1 << 30
# The bound of a container's memory, in control groups of version 2 and 1.
_BOUNDS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"


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


def keep_freed_memory() -> None:
    """Make the C library reuse the memory of freed arrays, instead of requesting pages from the system each time.

    A protocol allocates and frees arrays of the same sizes over and over; fresh pages, which the system clears, cost
    more than the arithmetic on them. Has no effect if the C library is not glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, _NEVER)
    mallopt(_M_TRIM_THRESHOLD, _NEVER)
    # An arena of another thread would give back every heap that becomes empty.
    mallopt(_M_ARENA_MAX, 1)


def give_back_freed_memory() -> None:
    """Return freed memory to the system, before arrays of other sizes find it fragmented and allocate more beside it.

    Does nothing if the C library is not glibc.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def bound_memory(size: int | None = None) -> None:
    """Let this process allocate `size` more bytes, by default half of the machine's memory; then MemoryError is raised.

    A smaller limit that the process has already remains. If the machine runs out of memory, the system kills this
    process before others. Linux only.
    """
    with contextlib.suppress(OSError):
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limits = [taken + (size or machine_memory() // 2), *resource.getrlimit(resource.RLIMIT_AS)]
        limit = min(each for each in limits if each != resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        Path("/proc/self/oom_score_adj").write_text("500")


def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of the container that this process is in."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for bound in _BOUNDS:
        with contextlib.suppress(OSError, ValueError):  # the other version of control groups, or "max"
            sizes.append(int(Path(bound).read_text()))
    return min(sizes)


def _prctl(option: int, value: int) -> None:
    """Call prctl on Linux; do nothing elsewhere."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl:
        prctl(option, value, 0, 0, 0)
