"""A relay on loopback that adds latency and limits rates like a network, as a process without special rights.

Bytes cross two lines, each `rate` bits per second wide: the uplink of the sending host, then, `delay` seconds later,
the downlink of the receiving host. A line sends one byte after the other, in the order in which they reached it, and
the directions are independent. With `lines` "host", each host has one uplink and one downlink for all its connections,
as offices and cloud machines have; with "pair", it has a pair of them for every other host. A connection has at most as
many bytes in transit as TCP has that fills the line and a buffer of one round trip before it; beyond that, its sender
waits. Bytes are those of TCP's payload; headers, loss and slow start are not simulated.
"""

from __future__ import annotations

import ctypes
import heapq
import multiprocessing
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from mpc.host.process import end_with
from protocols.transport.tcp import Address

Lines = Literal["host", "pair"]

_LEAST_HELD = 256 << 10
_CHUNK_SECONDS, _LEAST_CHUNK, _MOST_CHUNK = 1e-3, 4 << 10, 64 << 10
_SPIN = 1e-4  # a sleep this short ends too late: look at the clock instead
_PATIENCE = 60.0
_NICE = -10
_TIMER_SLACK = 29  # prctl's PR_SET_TIMERSLACK


@dataclass(frozen=True)
class Route:
    """Connections from one host to a server at another, by name."""

    client: str
    server: str
    address: Address


class Line:
    """One direction of a line, which sends bytes one after the other at `rate` bits per second."""

    def __init__(self, rate: float) -> None:
        self._rate, self._free = rate, 0.0

    def passed(self, now: float, size: int) -> float:
        """Return when the last of `size` bytes that reach the line at `now` has passed it."""
        self._free = max(self._free, now) + 8 * size / self._rate
        return self._free


@dataclass
class Pipe:
    """One direction of a connection: chunks with their times of arrival; an empty chunk marks the end."""

    source: socket.socket
    target: socket.socket
    uplink: Line
    downlink: Line
    chunks: deque[tuple[float, memoryview]] = field(default_factory=deque)
    held: int = 0
    open: bool = True

    def give(self) -> bool:
        """Forward what is due; return True if the target accepts no more for now."""
        while self.chunks and self.chunks[0][0] <= time.monotonic():
            due, data = self.chunks.popleft()
            try:
                sent = self.target.send(data) if data else 0
                if not data:
                    self.target.shutdown(socket.SHUT_WR)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.open, self.held = False, 0
                self.chunks.clear()
                return False
            self.held -= sent
            if sent < len(data):
                self.chunks.appendleft((due, data[sent:]))
                return True
        return False


class ShapedNetwork:
    """Lines between hosts, and the pipes that share them."""

    def __init__(self, delay: float, rate: float, lines: Lines) -> None:
        self.pipes: list[Pipe] = []
        self._delay, self._rate, self._lines_are = delay, rate, lines
        self._chunk = max(_LEAST_CHUNK, min(_MOST_CHUNK, round(_CHUNK_SECONDS * rate / 8)))
        self._most = max(_LEAST_HELD, round(3 * delay * rate / 8))
        self._lines: dict[tuple[str, ...], Line] = {}
        # Chunks on their way to a downlink, by their times of arrival there.
        self._far: list[tuple[float, int, Pipe, memoryview]] = []
        self._numbers = count()

    def join(self, source: socket.socket, target: socket.socket, sender: str, receiver: str) -> None:
        """Add one direction of a connection."""
        pair = self._lines_are == "pair"
        uplink = self._line("up", sender, *[receiver] * pair)
        downlink = self._line("down", receiver, *[sender] * pair)
        self.pipes.append(Pipe(source, target, uplink, downlink))

    def _line(self, *name: str) -> Line:
        return self._lines.setdefault(name, Line(self._rate))

    def readable(self) -> dict[socket.socket, Pipe]:
        """Return the pipes that accept more bytes, by source."""
        return {pipe.source: pipe for pipe in self.pipes if pipe.open and pipe.held < self._most}

    def take(self, pipe: Pipe) -> None:
        """Read what has arrived from a pipe's source."""
        data = b""
        with suppress(ConnectionError):
            data = pipe.source.recv(self._chunk)
        pipe.open = bool(data)
        pipe.held += len(data)
        there = pipe.uplink.passed(time.monotonic(), len(data)) + self._delay
        heapq.heappush(self._far, (there, next(self._numbers), pipe, memoryview(data)))

    def forward(self) -> tuple[list[socket.socket], float]:
        """Forward what is due; return the sockets that accept no more for now, and when more will be due."""
        while self._far and self._far[0][0] <= time.monotonic():
            there, _, pipe, data = heapq.heappop(self._far)
            pipe.chunks.append((pipe.downlink.passed(there, len(data)), data))
        full = [pipe.target for pipe in self.pipes if pipe.give()]
        due = [pipe.chunks[0][0] for pipe in self.pipes if pipe.chunks and pipe.target not in full]
        return full, min([*due, *(there for there, *_ in self._far[:1])], default=float("inf"))


@contextmanager
def relay(routes: Sequence[Route], delay: float, rate: float, lines: Lines = "host") -> Iterator[list[Address]]:
    """Start a relay process, and return the address of each route for its clients.

    delay  seconds, each way
    rate   bits per second of a line, in each direction
    """
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in routes]
    fork = multiprocessing.get_context("fork")
    shaped = ShapedNetwork(delay, rate, lines)
    process = fork.Process(target=_serve, args=(routes, listening, shaped, os.getpid()), daemon=True)
    process.start()
    try:
        yield [server.getsockname() for server in listening]
    finally:
        process.terminate()
        process.join()
        for server in listening:
            server.close()


def _serve(routes: Sequence[Route], listening: Sequence[socket.socket], network: ShapedNetwork, parent: int) -> None:
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent ends it
    with suppress(AttributeError):  # only on Linux
        ctypes.CDLL(None).prctl(_TIMER_SLACK, 1, 0, 0, 0)
    with suppress(PermissionError):  # a line does not wait for a processor
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    by_server = dict(zip(listening, routes, strict=True))
    while True:
        full, due = network.forward()
        wait = max(0.0, due - time.monotonic() - _SPIN) if due < float("inf") else None
        sources = network.readable()
        ready, _, _ = select.select([*listening, *sources], full, [], wait)
        for each in ready:
            if each in sources:
                network.take(sources[each])
            else:
                route = by_server[each]
                client, server = each.accept()[0], _connect(route.address)
                for end in (client, server):
                    end.setblocking(False)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                network.join(client, server, route.client, route.server)
                network.join(server, client, route.server, route.client)


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
