"""A party's supply of correlated randomness: plans go out, material comes in while the program goes on.

Each request is given once. A thread fetches or makes material up to a bound, WINDOW bytes beyond what the program has
taken. So nobody holds more of a long plan than of a short one, and the offline phase goes on while the program is
online.

What the thread does counts towards the stage in which the plan was provided: its seconds at work, or waiting for the
other end, and its rounds and bytes. The time in which the program waits for material counts towards no stage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread, get_native_id
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from mpc.correlation import Correlation
from mpc.errors import PeerFailure, ProtocolDesync
from mpc.meter import Stage
from protocols.randomness.plan import Plan
from protocols.randomness.sizes import Portion, RequestBytes, Weigh, portions
from protocols.randomness.window import Window
from protocols.transport.channel import Channel

T = TypeVar("T")
WINDOW = 1 << 25
# By how much what works ahead is nicer than the program.
AHEAD = 5
_STOPPING = 1.0


@dataclass
class Request:
    """A request to be taken: its place in the streams, its size, and its values, or what it takes to make them."""

    index: int
    correlation: Correlation[Any]
    stage: Stage | None
    bytes: RequestBytes
    corrections: np.ndarray | None = None
    values: Any = None
    # Of what was dealt with it, where the parties check that.
    proof: Any = None


def numbered(portion: Portion, first: int, stage: Stage | None = None) -> list[Request]:
    """The requests of a portion, from index `first` on."""
    both = zip(portion.requests, portion.sizes, strict=True)
    return [Request(first + i, asked, stage, size) for i, (asked, size) in enumerate(both)]


class Plans:
    """The plans that a program provides, cut into portions for the thread that has them fulfilled."""

    def __init__(self, size: int, most: int, weigh: Weigh) -> None:
        self._size, self._most, self._weigh = size, most, weigh
        self._queue: SimpleQueue[tuple[Plan, Stage | None] | None] = SimpleQueue()
        self._portions: Iterator[Portion] = iter(())
        self._stage: Stage | None = None
        self._index = 0

    def put(self, plan: Plan, stage: Stage | None) -> None:
        self._queue.put((plan, stage))

    def end(self) -> None:
        """No more will come."""
        self._queue.put(None)

    def next(self, wait: bool) -> tuple[Portion, list[Request]] | None:
        """The next portion, or None where there is none so far, or, with `wait`, where none will be."""
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
    """What has plans fulfilled, in a thread: it puts requests into the window until there are no more plans."""

    plans: Plans
    # Bytes of corrections to both parties so far, where somebody deals.
    dealt: int

    def run(self) -> None:
        """Raises what keeps material from coming."""


class Supply:
    """Implements `take` and `provide` of `mpc.endpoint.Randomness` for a source.

    A program that waits notices that `peer` has hung up. To be closed, or, where the program has failed, left as a
    context manager: then `_give_up` has the thread stop.
    """

    masks_operands: bool

    def __init__(self, rank: int, window: Window[Request], source: Source, end: str, peer: Channel | None) -> None:
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

    def take(self, correlation: Correlation[T]) -> T:
        """The next request of the plan, which must be this one; without a plan it is asked for on the spot."""
        if not self._due:
            self.provide([([correlation], 1)])
        request = self.draw()
        if request.correlation != correlation:
            raise ProtocolDesync(f"the plan has {request.correlation} where the program asks for {correlation}")
        values: T = self.values(request)
        return values

    def draw(self) -> Request:
        """The next request of the plan, out of the window, for `values`."""
        self._due -= 1
        return self._window.take(self._look_at_peer)

    def values(self, request: Request) -> Any:
        """What the program gets of a request that was drawn, once."""
        self.used += request.bytes.corrections[self._rank]
        return self._values(request)

    def discard(self) -> None:
        """As `mpc.endpoint.Randomness`."""
        while self._due:
            self.used += self.draw().bytes.corrections[self._rank]

    def settle(self) -> None:
        """Wait until all that was provided has come in, or as much as there is room for."""
        self._window.settle(self._due, self._look_at_peer)

    def close(self) -> None:
        """Nothing more is needed. Raises what has kept provided material from coming."""
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
        """As `mpc.endpoint.Randomness`."""
        raise NotImplementedError

    def forget(self, number: int) -> None:
        """As `mpc.endpoint.Randomness`."""
        raise NotImplementedError

    def _values(self, request: Request) -> Any:
        """What the program gets."""
        return request.values

    def _give_up(self) -> None:
        """Have the thread end, whatever it waits for."""
        raise NotImplementedError

    def _run(self) -> None:
        # Only of this thread: what comes ahead gives way to the program.
        os.setpriority(os.PRIO_PROCESS, get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + AHEAD)
        try:
            self._source.run()
        except BaseException as failure:
            self._window.fail(failure)

    def _look_at_peer(self) -> None:
        if self._peer and self._peer.hung_up:
            raise self._peer.last_words(f"waiting for {self._end}")
