"""A party's supply of correlated randomness: it sends plans and receives material while the program runs.

Each request is given out once. A thread fetches or makes material up to WINDOW bytes beyond what the program has
taken. So a long plan takes no more memory than a short one, and the offline phase continues while the program is
online.

The costs of the thread count towards the stage in which the plan was provided: its seconds, at work or waiting for the
other end, its rounds and its bytes. Time that the program spends waiting for material counts towards no stage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread, get_native_id
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from mpc.errors import PeerFailure, ProtocolDesync
from mpc.meter import Stage
from mpc.offline.correlation import Correlation
from protocols.offline.bounded_queue import BoundedQueue
from protocols.offline.plan import Plan
from protocols.offline.sizes import Portion, RequestBytes, Weigh, portions
from protocols.transport.channel import Channel

T = TypeVar("T")
WINDOW = 1 << 25
# The niceness, above the program's, of threads and processes that work ahead.
AHEAD = 5
_STOPPING = 1.0


@dataclass
class Request:
    """A request to be taken: its place in the streams, its size, and its values or the corrections to make them."""

    index: int
    correlation: Correlation[Any]
    stage: Stage | None
    bytes: RequestBytes
    corrections: np.ndarray | None = None
    values: Any = None


def numbered(portion: Portion, first: int, stage: Stage | None = None) -> list[Request]:
    """Return the requests of a portion, numbered from `first` on."""
    both = zip(portion.requests, portion.sizes, strict=True)
    return [Request(first + i, asked, stage, size) for i, (asked, size) in enumerate(both)]


class Plans:
    """The plans that a program provides, cut into portions for the thread that gets them fulfilled."""

    def __init__(self, size: int, most: int, weigh: Weigh) -> None:
        self._size, self._most, self._weigh = size, most, weigh
        self._queue: SimpleQueue[tuple[Plan, Stage | None] | None] = SimpleQueue()
        self._portions: Iterator[Portion] = iter(())
        self._stage: Stage | None = None
        self._index = 0

    def put(self, plan: Plan, stage: Stage | None) -> None:
        self._queue.put((plan, stage))

    def end(self) -> None:
        """Declare that there will be no more plans."""
        self._queue.put(None)

    def next(self, wait: bool) -> tuple[Portion, list[Request]] | None:
        """Return the next portion; None if there is none yet or, with `wait`, if there will be none."""
        while (portion := next(self._portions, None)) is None:
            try:
                asked = self._queue.get(block=wait)
            except Empty:
                return None
            if asked is None:
                self._queue.put(None)
                return None
            plan, self._stage = asked
            self._portions = portions(plan, self._size, self._most, self._weigh)
        requests = numbered(portion, self._index, self._stage)
        self._index += len(requests)
        return portion, requests


class Source(Protocol):
    """Runs in a thread and gets plans fulfilled: it puts requests into the window until there are no more plans."""

    plans: Plans
    # Bytes of corrections to both parties so far; 0 without a dealer.
    dealt: int

    def run(self) -> None:
        """Run until the plans end. Raises the failure that stops the supply."""


class Supply:
    """Implements `take` and `provide` of `mpc.endpoint.Randomness` for a source.

    A program that waits for material fails if `peer` hangs up. Call `close` after a program that has succeeded; if it
    has failed, leave the context manager, and `_give_up` stops the thread.
    """

    has_dealer: bool

    def __init__(
        self, rank: int, window: BoundedQueue[Request], source: Source, end: str, peer: Channel | None
    ) -> None:
        self._rank, self._window, self._source, self._end, self._peer = rank, window, source, end, peer
        self.billed: Stage | None = None
        self.used = self._due = 0
        self._thread = Thread(target=self._run, name="supply", daemon=True)
        self._thread.start()

    @property
    def dealt(self) -> int:
        return self._source.dealt

    @property
    def waited(self) -> float:
        return self._window.waited

    def provide(self, plan: Plan) -> None:
        self._due += sum(len(requests) * times for requests, times in plan)
        self._source.plans.put(plan, self.billed)

    def hold(self, room: int) -> None:
        """Work ahead up to `room` bytes, if that is more than WINDOW: those of a program that gives them a bound."""
        self._window.widen(room)

    def take(self, correlation: Correlation[T]) -> T:
        """Take the next request of the plan, which must be this one; without a plan, it is requested now."""
        if not self._due:
            self.provide([([correlation], 1)])
        request = self.draw()
        if request.correlation != correlation:
            raise ProtocolDesync(f"the plan has {request.correlation}, but the program takes {correlation}")
        values: T = self.values(request)
        return values

    def draw(self) -> Request:
        """Take the next request of the plan out of the window, for `values`."""
        self._due -= 1
        return self._window.take(self._look_at_peer)

    def values(self, request: Request) -> Any:
        """Return the values of a request that was drawn. Call this once per request."""
        self.used += request.bytes.corrections[self._rank]
        return self._values(request)

    def discard(self) -> None:
        """See `mpc.endpoint.Randomness`."""
        while self._due:
            self.used += self.draw().bytes.corrections[self._rank]

    def settle(self) -> None:
        """Wait until everything provided has arrived, or as much of it as there is room for."""
        self._window.settle(self._due, self._look_at_peer)

    def close(self) -> None:
        """End the supply: no more material is needed. Raises the failure that has stopped it, if any."""
        self._window.drop()
        self._source.plans.end()
        self._thread.join()
        if self._window.failure:
            raise self._window.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self._window.fail(PeerFailure("this party has failed"))
            self._source.plans.end()
            self._give_up()
            self._thread.join(_STOPPING)

    def keep(self, number: int, matrix: Any) -> None:
        """See `mpc.endpoint.Randomness`."""
        raise NotImplementedError

    def forget(self, number: int) -> None:
        """See `mpc.endpoint.Randomness`."""
        raise NotImplementedError

    def _values(self, request: Request) -> Any:
        """Return what the program gets."""
        return request.values

    def _give_up(self) -> None:
        """Make the thread end, whatever it is waiting for."""
        raise NotImplementedError

    def _run(self) -> None:
        # Only this thread: work ahead must not slow down the program.
        os.setpriority(os.PRIO_PROCESS, get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + AHEAD)
        try:
            self._source.run()
        except BaseException as failure:
            self._window.fail(failure)

    def _look_at_peer(self) -> None:
        if self._peer and self._peer.hung_up:
            raise self._peer.why_gone(self._end)
