"""Channels over plain sockets, like CrypTen's: for the cost of TLS, and a like-for-like comparison of arithmetic.

Nothing is secret or authenticated: use them for measurements only.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from mpc.errors import PeerVanished
from mpc.host.streaming import Pieces
from protocols.transport.channel import Channel
from protocols.transport.codec import Buffer
from protocols.transport.link import Intake, Link
from protocols.transport.tls import LOOKS

T = TypeVar("T")


class PlainLink(Link):
    """One connection with `peer`, which waits for it without limit."""

    def __init__(self, connection: socket.socket, peer: str) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer, self._socket, self._poll = peer, connection, select.poll()
        self._poll.register(connection)

    def transfer(self, outgoing: Sequence[Buffer | Pieces], intake: Intake[T], step: str) -> None:
        unsent = [view for view in map(_view, outgoing) if view.nbytes]
        try:
            while unsent or intake.target is not None:
                inward = select.POLLIN if intake.target is not None else 0
                ready = self._wait((select.POLLOUT if unsent else 0) | inward)
                if unsent and ready & ~select.POLLIN:
                    self._send(unsent)
                if intake.target is not None and ready & ~select.POLLOUT:
                    count = self._socket.recv_into(intake.target)
                    if not count:
                        raise PeerVanished(f"{self.peer} closed the connection in {step}")
                    self.received += count
                    intake.filled(count)
        except OSError as error:
            raise PeerVanished(f"{self.peer} closed the connection in {step}: {error.strerror}") from error

    def _send(self, unsent: list[memoryview]) -> None:
        count = self._socket.sendmsg(unsent)
        self.sent += count
        while unsent and count >= unsent[0].nbytes:
            count -= unsent.pop(0).nbytes
        if unsent:
            unsent[0] = unsent[0][count:]

    def _wait(self, events: int) -> int:
        self._poll.modify(self._socket, events)
        for _ in range(LOOKS):
            if ready := self._poll.poll(0):
                return ready[0][1]
        return self._poll.poll()[0][1]

    def watch(self, other: Link, gone: Callable[[], None]) -> None:
        """Do nothing: a benchmark ends as a whole."""

    def unwatch(self, other: Link) -> None:
        """Do nothing, like `watch`."""

    def deafen(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        self._socket.close()


def _view(buffer: Buffer | Pieces) -> memoryview:
    return memoryview(buffer.tobytes() if isinstance(buffer, Pieces) else buffer)


def plain_channel(connection: socket.socket, peer: str) -> Channel:
    """A channel over a connected socket."""
    return Channel(PlainLink(connection, peer))
