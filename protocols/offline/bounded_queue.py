"""A queue of bounded size between the thread that receives material and the program that uses it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition
from time import perf_counter
from typing import Generic, TypeVar

T = TypeVar("T")
# Seconds between two calls of `look` while the program waits.
LOOK = 0.5


class BoundedQueue(Generic[T]):
    """First in, first out: at most `bound` bytes at a time, each counted from `reserve` to `take`.

    An item larger than the bound is admitted only when the window is empty.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._changed = Condition()
        self._items: deque[tuple[T, int]] = deque()
        self._wanted = 0
        self._dropping = False
        self.failure: BaseException | None = None
        self.held = 0
        self.waited = 0.0

    def widen(self, bound: int) -> None:
        """Raise the bound to `bound` bytes, if it is less."""
        with self._changed:
            self._bound = max(self._bound, bound)
            self._wanted = 0  # a thread that still has no room sets it again
            self._changed.notify_all()

    def reserve(self, size: int, wait: bool) -> bool:
        """Reserve `size` bytes; return whether there is room, or, with `wait`, wait for it. Raises what `fail` got."""
        with self._changed:
            while not self._fits(size):
                if self.failure:
                    raise self.failure
                if not wait:
                    return False
                self._wanted = size
                self._changed.notify_all()
                self._changed.wait()
            self.held += size
            return True

    def put(self, item: T, size: int) -> None:
        """Add an item, which takes `size` of the reserved bytes."""
        with self._changed:
            if self._dropping:
                self.held -= size
            else:
                self._items.append((item, size))
                self._changed.notify_all()

    def take(self, look: Callable[[], None]) -> T:
        """Take the next item; while waiting for it, call `look` at intervals. Raises what `fail` got."""
        with self._changed:
            self._wait(1, look)
            item, size = self._items.popleft()
            self.held -= size
            if self._wanted and self._fits(self._wanted):
                self._wanted = 0
                self._changed.notify_all()
            return item

    def settle(self, count: int, look: Callable[[], None]) -> None:
        """Wait until `count` items are here, or no more fit before some are taken; otherwise like `take`."""
        with self._changed:
            self._wait(count, look)

    def drop(self) -> None:
        """Drop the items that are here and all that arrive later: no more are taken."""
        with self._changed:
            self._dropping = True
            self.held -= sum(size for _, size in self._items)
            self._items.clear()
            self._changed.notify_all()

    def fail(self, failure: BaseException) -> None:
        """Declare that no more items will arrive; those that are here can still be taken."""
        with self._changed:
            self.failure = failure
            self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        return not self.held or self.held + size <= self._bound

    def _wait(self, count: int, look: Callable[[], None]) -> None:
        if len(self._items) >= count:
            return
        began = perf_counter()
        try:
            while len(self._items) < count and not (self._items and self._wanted):
                if self.failure:
                    raise self.failure
                if not self._changed.wait(LOOK):
                    look()
        finally:
            self.waited += perf_counter() - began
