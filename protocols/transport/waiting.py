"""A wait with a deadline on the monotonic clock, and a log line at intervals."""

from __future__ import annotations

import logging
import math
import time

log = logging.getLogger("sharewood")

FIRST_NOTICE, NOTICE = 2.0, 10.0


class Wait:
    """A wait of `seconds` for `what`, starting now; None waits forever."""

    def __init__(self, seconds: float | None, what: str, first: float = FIRST_NOTICE, every: float = NOTICE) -> None:
        self._began = time.monotonic()
        self._end = math.inf if seconds is None else self._began + seconds
        self._what, self._every = what, every
        self._notice = self._began + first

    @property
    def left(self) -> float:
        """Return the seconds until the deadline."""
        return max(0.0, self._end - time.monotonic())

    def pause(self) -> float:
        """Log the notice if it is due, and return the seconds until the next notice or the deadline."""
        now = time.monotonic()
        if now >= self._notice and now < self._end:
            self._notice = now + self._every
            remaining = "" if self._end == math.inf else f", {self._end - now:.0f} s left"
            log.info("waiting for %s: %.0f s so far%s", self._what, now - self._began, remaining)
        return max(0.0, min(self._notice, self._end) - now)
