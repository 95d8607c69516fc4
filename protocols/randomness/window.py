"""A queue of bounded size between the thread that takes in material and the program that uses it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition
from time import perf_counter
from typing import Generic, TypeVar

T = TypeVar("T")
# Seconds between two looks at what else may have happened while the program waits.
LOOK = 0.5


class Window(Generic[T]):
    """First in, first out: at most `bound` bytes at a time, each counted from `reserve` to `take`.

    An item larger than the bound is let in only when the window is empty.
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

    def reserve(self, size: int, wait: bool) -> bool:
        """Make room for so many bytes, once there is any if `wait`; whether it is made. Raises what `fail` was told."""
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
        """Add an item, `size` bytes of what was reserved."""
        with self._changed:
            if self._dropping:
                self.held -= size
            else:
                self._items.append((item, size))
                self._changed.notify_all()

    def take(self, look: Callable[[], None]) -> T:
        """The next item; where it has not come, wait for it, and `look` now and then. Raises what `fail` was told."""
        with self._changed:
            self._wait(1, look)
            item, size = self._items.popleft()
            self.held -= size
            if self._wanted and self._fits(self._wanted):
                self._wanted = 0
                self._changed.notify_all()
            return item

    def settle(self, count: int, look: Callable[[], None]) -> None:
        """Wait until `count` items are here, or no more can come before some are taken; else as `take`."""
        with self._changed:
            self._wait(count, look)

    def drop(self) -> None:
        """Nothing more is taken: let go of what is here and of what comes."""
        with self._changed:
            self._dropping = True
            self.held -= sum(size for _, size in self._items)
            self._items.clear()
            self._changed.notify_all()

    def fail(self, failure: BaseException) -> None:
        """Nothing more will come; what has come can still be taken."""
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
