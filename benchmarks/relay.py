"""A relay on loopback that adds latency and limits rates like a network, as a process without special rights.

A host's outgoing bytes share its uplink: each chunk leaves when the uplink has sent all earlier ones at `rate` bits per
second, and arrives `delay` seconds later. Both directions of a connection are independent. Bytes are those of TCP's
payload; headers, loss and slow start are not simulated.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Address = tuple[str, int]

_CHUNK = 32 << 10
_HELD = 8 << 20  # bytes in transit beyond which a sender has to wait: more than delay times rate of these networks
_SPIN = 1e-4  # a sleep this short ends too late: look at the clock instead
_PATIENCE = 60.0
_TIMER_SLACK = 29  # prctl's PR_SET_TIMERSLACK


@dataclass(frozen=True)
class Route:
    """Connections from one host to a server at another, by name."""

    client: str
    server: str
    address: Address


class Uplink:
    """The bytes of one host, sent one after the other at `rate` bits per second."""

    def __init__(self, rate: float) -> None:
        self._rate, self._free = rate, 0.0

    def leaves(self, now: float, count: int) -> float:
        """Return when the last of `count` bytes that are ready at `now` has left."""
        self._free = max(self._free, now) + 8 * count / self._rate
        return self._free


@dataclass
class Pipe:
    """One direction of a connection: chunks with their times of arrival; an empty chunk marks the end."""

    source: socket.socket
    target: socket.socket
    uplink: Uplink
    delay: float
    chunks: deque[tuple[float, memoryview]] = field(default_factory=deque)
    held: int = 0
    open: bool = True

    def take(self) -> None:
        """Read what has arrived from the source."""
        data = b""
        with suppress(ConnectionError):
            data = self.source.recv(_CHUNK)
        self.open = bool(data)
        self.held += len(data)
        self.chunks.append((self.uplink.leaves(time.monotonic(), len(data)) + self.delay, memoryview(data)))

    def give(self) -> bool:
        """Forward what is due; return True if the target accepts no more for now."""
        while self.chunks and self.chunks[0][0] <= time.monotonic():
            due, data = self.chunks.popleft()
            try:
                count = self.target.send(data) if data else self.target.shutdown(socket.SHUT_WR) or 0
            except BlockingIOError:
                count = 0
            except OSError:
                self.open, self.held = False, 0
                self.chunks.clear()
                return False
            self.held -= count
            if count < len(data):
                self.chunks.appendleft((due, data[count:]))
                return True
        return False


@contextmanager
def relay(routes: Sequence[Route], delay: float, rate: float) -> Iterator[list[Address]]:
    """Start a relay process, and return the address of each route for its clients."""
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in routes]
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=_serve, args=(routes, listening, delay, rate), daemon=True)
    process.start()
    try:
        yield [server.getsockname() for server in listening]
    finally:
        process.terminate()
        process.join()
        for server in listening:
            server.close()


def _serve(routes: Sequence[Route], listening: Sequence[socket.socket], delay: float, rate: float) -> None:
    with suppress(AttributeError):  # only on Linux
        ctypes.CDLL(None).prctl(_TIMER_SLACK, 1, 0, 0, 0)
    by_server = dict(zip(listening, routes, strict=True))
    uplinks = {name: Uplink(rate) for route in routes for name in (route.client, route.server)}
    pipes: list[Pipe] = []
    while True:
        full = [pipe.target for pipe in pipes if pipe.give()]
        due = [p.chunks[0][0] for p in pipes if p.chunks and p.target not in full]
        wait = max(0.0, min(due) - time.monotonic() - _SPIN) if due else None
        sources = {pipe.source: pipe for pipe in pipes if pipe.open and pipe.held < _HELD}
        ready, _, _ = select.select([*listening, *sources], full, [], wait)
        for each in ready:
            if each in sources:
                sources[each].take()
            else:
                route = by_server[each]
                client, server = each.accept()[0], _connect(route.address)
                for end in (client, server):
                    end.setblocking(False)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pipes.append(Pipe(client, server, uplinks[route.client], delay))
                pipes.append(Pipe(server, client, uplinks[route.server], delay))


def _connect(address: Address) -> socket.socket:
    """Connect to a server that may start to listen a little later."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
