"""Channels over plain sockets, like CrypTen's: for the cost of TLS, and a like-for-like comparison of arithmetic.

Nothing is secret or authenticated: use them for measurements only.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Sequence
from typing import TypeVar

from mpc.errors import PeerVanished
from protocols.transport.channel import Channel, Intake, Link
from protocols.transport.codec import Buffer
from protocols.transport.tls import LOOKS

T = TypeVar("T")


class _PlainLink(Link):
    def __init__(self, connection: socket.socket, peer: str) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer, self._socket, self._poll = peer, connection, select.poll()
        self._poll.register(connection)

    def transfer(self, outgoing: Sequence[Buffer], intake: Intake[T], step: str) -> None:
        unsent = [view for view in map(memoryview, outgoing) if view.nbytes]
        while unsent or intake.target is not None:
            ready = self._wait((select.POLLOUT if unsent else 0) | (select.POLLIN if intake.target is not None else 0))
            if unsent and ready & ~select.POLLIN:
                self._send(unsent)
            if intake.target is not None and ready & ~select.POLLOUT:
                count = self._socket.recv_into(intake.target)
                if not count:
                    raise PeerVanished(f"{self.peer} closed the connection in {step}")
                self.received += count
                intake.filled(count)

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

    def close(self) -> None:
        self._socket.close()


def plain_channel(connection: socket.socket, peer: str) -> Channel:
    """A channel over a connected socket."""
    return Channel(_PlainLink(connection, peer))
