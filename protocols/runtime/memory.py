"""How a process of ours treats the memory that it frees."""

from __future__ import annotations

import ctypes

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
