"""The thread of a party that talks to the dealer: it asks for material portion by portion, and takes it in.

A portion is asked for once there is room for it in the window, and the room is kept until the program has taken what
came. So a party always reads what the dealer sends, whatever the program does meanwhile: the dealer waits for neither
party longer than for the other's next portion, and no party for the other's reading.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import get_native_id
from time import perf_counter
from typing import Any

import numpy as np

from mpc.correlation import Correlation
from mpc.errors import ProtocolDesync
from mpc.meter import Stage
from protocols.randomness.dealer import BATCH, BATCH_REQUESTS, FEW_BYTES
from protocols.randomness.plan import Plan, encode_plan
from protocols.randomness.prg import Streams
from protocols.randomness.sizes import RequestBytes, portions, request_bytes
from protocols.randomness.views import NotYet, PartyView
from protocols.randomness.window import Window
from protocols.transport.channel import Channel
from protocols.transport.codec import encode

log = logging.getLogger("sharewood")
PORTION = 1 << 24
# By how much what works ahead is nicer than the program.
AHEAD = 5
# The dealer reads no plan while it deals: plans of so many requests fit into the buffers of any socket.
UNDER_WAY = 256
_SILENCE = 10.0

Asked = tuple[Plan, Stage | None]


@dataclass
class Request:
    """A request to be taken: its place in the streams, its size, and its values, or what it takes to make them."""

    index: int
    correlation: Correlation[Any]
    stage: Stage | None
    bytes: RequestBytes
    corrections: np.ndarray | None = None
    values: Any = None


class Delivery:
    """Runs until it is told None by `plans`, or fails; the window then says how."""

    def __init__(
        self,
        rank: int,
        dealer: Channel,
        streams: Streams,
        matrices: dict[int, np.ndarray],
        window: Window[Request],
    ) -> None:
        self._rank, self._dealer, self._streams = rank, dealer, streams
        self._matrices, self._window = matrices, window
        self.plans: SimpleQueue[Asked | None] = SimpleQueue()
        self.dealt = 0
        self._coming: deque[Request] = deque()
        self._portions: Iterator[list[Request]] = iter(())
        self._next: list[Request] | None = None
        self._index = self._counted = 0
        self._since = self._logged = perf_counter()

    def run(self) -> None:
        # Only of this thread: what comes ahead gives way to the program.
        os.setpriority(os.PRIO_PROCESS, get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + AHEAD)
        try:
            while self._ask():
                for request, corrections in self._batch():
                    self._expand(request, corrections)
                    self._count(request)
                    self._window.put(request, request.bytes.held)
            if not self._window.failure:
                self._dealer.send("dealer.plan", None)
        except BaseException as failure:
            self._window.fail(failure)

    def _ask(self) -> bool:
        """Ask for what there is room for; whether anything is to come, for which it waits where nothing is."""
        while len(self._coming) < UNDER_WAY:
            idle = not self._coming
            self._next = self._next or self._portion(wait=idle)
            if self._next is None:
                break
            if not self._window.reserve(sum(request.bytes.held for request in self._next), wait=idle):
                break
            if idle:
                self._since = perf_counter()
            plan = [([request.correlation for request in self._next], 1)]
            self._dealer.send("dealer.plan", b"".join(encode(encode_plan(plan))))
            self._coming.extend(self._next)
            self._next = None
        return bool(self._coming)

    def _portion(self, wait: bool) -> list[Request] | None:
        """The next portion of the plans, or None where there is none so far, or, with `wait`, where none will be."""
        while (portion := next(self._portions, None)) is None:
            try:
                asked = self.plans.get(block=wait)
            except Empty:
                return None
            if asked is None:
                self.plans.put(None)
                return None
            self._portions = self._cut(*asked)
        return portion

    def _cut(self, plan: Plan, stage: Stage | None) -> Iterator[list[Request]]:
        for portion in portions(plan, PORTION, UNDER_WAY):
            yield [Request(self._index + i, asked, stage, request_bytes(asked)) for i, asked in enumerate(portion)]
            self._index += len(portion)

    def _batch(self) -> list[tuple[Request, np.ndarray]]:
        """The next requests with their corrections. Raises ProtocolDesync."""
        expected = [request.bytes.corrections[self._rank] for request in self._coming]
        longest = BATCH + max(expected) + 8 * BATCH_REQUESTS + FEW_BYTES
        message = self._dealer.receive("dealer.batch", longest)
        sizes, data = parts_of(message, {"sizes": np.int64, "data": np.uint8})
        if not 0 < sizes.size <= len(expected):
            raise ProtocolDesync(f"the dealer must answer {len(expected)} requests at most, got {sizes.size} answers")
        due = np.array(expected[: sizes.size], np.int64)
        if not np.array_equal(sizes, due) or due.sum() != data.size:
            raise ProtocolDesync("the dealer's corrections do not fit the plan")
        answered = [self._coming.popleft() for _ in range(sizes.size)]
        return list(zip(answered, np.split(data, np.cumsum(due)[:-1]), strict=True))

    def _expand(self, request: Request, corrections: np.ndarray) -> None:
        """Make the values, or keep the corrections of a request that has to wait for its turn."""
        view = PartyView(self._rank, self._streams.of(request.index), corrections, self._matrices, ahead=True)
        try:
            request.values = request.correlation.deal(view)
        except NotYet:
            # A copy: a slice would hold the whole batch that it came in.
            request.corrections = corrections.copy()

    def _count(self, request: Request) -> None:
        """Time and bytes since the last request, towards the stage of this one."""
        since, self._since = self._since, perf_counter()
        counted, self._counted = self._counted, self._dealer.wire_received
        self.dealt += sum(request.bytes.corrections)
        if request.stage:
            request.stage.add((since, 0, 0, 0, counted), (self._since, 0, 0, 0, self._counted))
        if self._since - self._logged >= _SILENCE:
            self._logged = self._since
            log.info("correlated randomness: %.0f MB dealt so far", self.dealt / 1e6)


def parts_of(message: Any, parts: dict[str, type]) -> list[Any]:
    """The parts of a message of the dealer by name: bytes, or flat arrays of a dtype. Raises ProtocolDesync."""
    if not isinstance(message, dict) or message.keys() != parts.keys():
        raise ProtocolDesync(f"the dealer must send {' and '.join(parts)}")
    for name, kind in parts.items():
        value = message[name]
        flat = isinstance(value, np.ndarray) and value.dtype == kind and value.ndim == 1
        if not (isinstance(value, bytes) if kind is bytes else flat):
            raise ProtocolDesync(f"the dealer must send {name} as {kind.__name__}")
    return [message[name] for name in parts]
