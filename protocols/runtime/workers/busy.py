"""When a process worked, and on which phase: a bounded number of time spans, however long it ran."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

MOST = 256
_GAP = 0.01


class Busy:
    """Spans [phase, begin, end] in seconds of this machine's clock. Spans of one phase that are closer together than a
    gap are merged; the gap doubles until there are at most MOST spans.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[str, float, float]] = []
        self._gap = _GAP

    @contextmanager
    def at(self, phase: str) -> Iterator[None]:
        """Record work on a phase for the length of the block."""
        began = time.time()
        try:
            yield
        finally:
            self._add((phase, began, max(began, time.time())))

    def _add(self, span: tuple[str, float, float]) -> None:
        self.spans = self._together([*self.spans[-1:], span], self.spans[:-1])
        while len(self.spans) > MOST:
            self._gap *= 2
            self.spans = self._together(self.spans, [])

    def _together(
        self, spans: list[tuple[str, float, float]], before: list[tuple[str, float, float]]
    ) -> list[tuple[str, float, float]]:
        for phase, begin, end in spans:
            if before and before[-1][0] == phase and begin - before[-1][2] <= self._gap:
                before[-1] = (phase, before[-1][1], end)
            else:
                before.append((phase, begin, end))
        return before
