"""Transfers that a link has been asked for and that are still under way, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from threading import Condition, Event
from typing import Any

from protocols.transport.frames import Reader
from protocols.transport.link import Intake


class Posted:
    """One transfer: it is done once everything is sent and everything expected has arrived, or by a failure."""

    def __init__(self, chunks: Iterator[memoryview], reader: Reader[Any], step: str) -> None:
        self.chunks, self.step = chunks, step
        self.intake: Intake[Any] | None = None
        self.failure: BaseException | None = None
        self._reader, self._left, self._done = reader, 2, Event()

    def begin(self) -> Intake[Any]:
        """Return the intake, made when the transfers before it are complete: it checks the number of the frame."""
        if self.intake is None:
            self.intake = Intake(self._reader)
        return self.intake

    def half(self) -> None:
        """Record that everything is sent, or that everything has arrived."""
        self._left -= 1
        if not self._left:
            self._done.set()

    def fail(self, failure: BaseException) -> None:
        self.failure = failure
        self._done.set()

    def result(self) -> Any:
        """Wait until it is done. Raises the failure."""
        self._done.wait()
        if self.failure:
            raise self.failure
        assert self.intake is not None, "it has arrived"
        return self.intake.result


class TransferQueue:
    """Both directions of the transfers under way: an iterator of chunks to send, and an intake for those to come.

    One thread adds transfers; another one sends and receives.
    """

    def __init__(self) -> None:
        self._to_send: deque[Posted] = deque()
        self._to_come: deque[Posted] = deque()
        self._changed = Condition()
        self._failure: BaseException | None = None
        self._ended = False

    def add(self, posted: Posted) -> None:
        """Add a transfer. Raises the failure that ended those before it."""
        with self._changed:
            if self._failure:
                raise self._failure
            self._to_send.append(posted)
            self._to_come.append(posted)
            self._changed.notify()

    def wait(self) -> str | None:
        """Wait for a transfer, and return its step; None after the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._to_send or self._to_come)
            under_way = self._to_come or self._to_send
            return None if self._ended else under_way[0].step

    def fail(self, failure: BaseException) -> None:
        """End all transfers by a failure."""
        with self._changed:
            self._failure = failure
            for posted in {*self._to_send, *self._to_come}:
                posted.fail(failure)

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()

    def __iter__(self) -> TransferQueue:
        return self

    def __next__(self) -> memoryview:
        """Return the next chunk to send. It may be asked again after StopIteration, when there is more."""
        while self._to_send:
            for chunk in self._to_send[0].chunks:
                return chunk
            self._to_send.popleft().half()
        raise StopIteration

    @property
    def target(self) -> memoryview | None:
        """See `Intake`."""
        while self._to_come:
            target = self._to_come[0].begin().target
            if target is not None:
                return target
            self._to_come.popleft().half()
        return None

    def filled(self, count: int) -> None:
        """See `Intake`."""
        self._to_come[0].begin().filled(count)
