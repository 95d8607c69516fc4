"""A party's thread for the dealer: it requests material portion by portion, and receives it.

A portion is requested once the window has room for it, and the room is reserved until the program has taken the
material. So a party always reads what the dealer sends, whatever its program does meanwhile: the dealer waits only for
the parties' next portions, and no party waits for the other to read.
"""

from __future__ import annotations

import logging
from collections import deque
from time import perf_counter
from typing import Any

import numpy as np

from mpc.errors import PeerTimeout, ProtocolDesync
from protocols.offline.bounded_queue import BoundedQueue
from protocols.offline.dealer.server import BATCH, BATCH_REQUESTS, FEW_BYTES
from protocols.offline.sizes import Portion, request_bytes
from protocols.offline.streams import Streams
from protocols.offline.supply import Plans, Request
from protocols.offline.views import NotYet, PartyView
from protocols.transport.channel import Channel

log = logging.getLogger("sharewood")
PORTION = 1 << 24
# The dealer reads no plan while it deals: plans of this many requests fit into the buffers of any socket.
UNDER_WAY = 256
_SILENCE = 10.0


class Delivery:
    """Requests material and puts it into the window, until the `plans` end."""

    def __init__(
        self,
        rank: int,
        dealer: Channel,
        streams: Streams,
        matrices: dict[int, np.ndarray],
        window: BoundedQueue[Request],
        other: str = "the other party",
    ) -> None:
        self._rank, self._dealer, self._streams, self._other = rank, dealer, streams, other
        self._matrices, self._window = matrices, window
        self.plans = Plans(PORTION, UNDER_WAY, lambda request: request_bytes(request).held)
        self.dealt = 0
        self._coming: deque[Request] = deque()
        self._next: tuple[Portion, list[Request]] | None = None
        self._counted = 0
        self._since = self._logged = perf_counter()

    def run(self) -> None:
        while self._ask():
            for request, corrections in self._batch():
                self._expand(request, corrections)
                self._count(request)
                self._window.put(request, request.bytes.held)
        if not self._window.failure:
            self._dealer.send("dealer.plan", None)

    def _ask(self) -> bool:
        """Request what there is room for, and return whether anything is due. If nothing is due, wait for a portion."""
        while len(self._coming) < UNDER_WAY:
            idle = not self._coming
            self._next = self._next or self.plans.next(wait=idle)
            if self._next is None:
                break
            portion, requests = self._next
            if not self._window.reserve(portion.held, wait=idle):
                break
            if idle:
                self._since = perf_counter()
            self._dealer.send("dealer.plan", portion.encoded)
            self._coming.extend(requests)
            self._next = None
        return bool(self._coming)

    def _batch(self) -> list[tuple[Request, np.ndarray]]:
        """Receive the next requests with their corrections. Raises ProtocolDesync."""
        expected = [request.bytes.corrections[self._rank] for request in self._coming]
        longest = BATCH + max(expected) + 8 * BATCH_REQUESTS + FEW_BYTES
        sizes, data = parts_of(self._dealt_in_time(longest), {"sizes": np.int64, "data": np.uint8})
        if not 0 < sizes.size <= len(expected):
            raise ProtocolDesync(f"the dealer must answer at most {len(expected)} requests, got {sizes.size} answers")
        due = np.array(expected[: sizes.size], np.int64)
        if not np.array_equal(sizes, due) or due.sum() != data.size:
            raise ProtocolDesync("the dealer's corrections do not match the plan")
        answered = [self._coming.popleft() for _ in range(sizes.size)]
        return list(zip(answered, np.split(data, np.cumsum(due)[:-1]), strict=True))

    def _dealt_in_time(self, longest: int) -> Any:
        """Receive the next batch. Raises PeerTimeout if the dealer waits too long for the other party's plan."""
        since, timeout = perf_counter(), self._dealer.timeout
        while True:
            before = self._dealer.wire_received
            message = self._dealer.receive("dealer.batch", longest)
            if message is not None:
                return message
            self._counted += self._dealer.wire_received - before
            if timeout is not None and perf_counter() - since > timeout:
                raise PeerTimeout(f"{self._other} sent {self._dealer.peer} no plan for {timeout:g} s")

    def _expand(self, request: Request, corrections: np.ndarray) -> None:
        """Make the values of a request, or keep its corrections if it must wait for its turn."""
        view = PartyView(self._rank, self._streams.of(request.index), corrections, self._matrices, ahead=True)
        try:
            request.values = request.correlation.deal(view)
        except NotYet:
            # A copy: a slice would keep the whole batch in memory.
            request.corrections = corrections.copy()

    def _count(self, request: Request) -> None:
        """Count the time and bytes since the last request towards the stage of this one."""
        since, self._since = self._since, perf_counter()
        counted, self._counted = self._counted, self._dealer.wire_received
        self.dealt += sum(request.bytes.corrections)
        if request.stage:
            request.stage.add((since, 0, 0, 0, counted), (self._since, 0, 0, 0, self._counted))
        if self._since - self._logged >= _SILENCE:
            self._logged = self._since
            log.info("correlated randomness: %.0f MB dealt so far", self.dealt / 1e6)


def parts_of(message: Any, parts: dict[str, type]) -> list[Any]:
    """Return the named parts of a dealer's message: bytes, or flat arrays of a dtype. Raises ProtocolDesync."""
    if not isinstance(message, dict) or message.keys() != parts.keys():
        raise ProtocolDesync(f"the dealer must send {' and '.join(parts)}")
    for name, kind in parts.items():
        value = message[name]
        flat = isinstance(value, np.ndarray) and value.dtype == kind and value.ndim == 1
        if not (isinstance(value, bytes) if kind is bytes else flat):
            raise ProtocolDesync(f"the dealer must send {name} as {kind.__name__}")
    return [message[name] for name in parts]
