"""Memory of a process: what becomes of freed memory, and a bound on its size."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER = 1 << 30
# The bound of a container's memory, in control groups of version 2 and 1.
_BOUNDS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"


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
