"""A wait that ends: one deadline by the monotonic clock, and a line in the log now and then."""

from __future__ import annotations

import logging
import math
import time

log = logging.getLogger("sharewood")

FIRST_NOTICE, NOTICE = 2.0, 10.0


class Wait:
    """A wait of `seconds` for `what`, which begins now; None has no end."""

    def __init__(self, seconds: float | None, what: str, first: float = FIRST_NOTICE, every: float = NOTICE) -> None:
        self._began = time.monotonic()
        self._end = math.inf if seconds is None else self._began + seconds
        self._what, self._every = what, every
        self._notice = self._began + first

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return max(0.0, self._end - time.monotonic())

    def pause(self) -> float:
        """Seconds until there is something to do: a notice, or the end. Writes the notice that is due."""
        now = time.monotonic()
        if now >= self._notice and now < self._end:
            self._notice = now + self._every
            remaining = "" if self._end == math.inf else f", {self._end - now:.0f} s left"
            log.info("waiting for %s: %.0f s so far%s", self._what, now - self._began, remaining)
        return max(0.0, min(self._notice, self._end) - now)
