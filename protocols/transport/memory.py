"""A channel between two threads of one process, with the same frames and checks as over a network."""

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

from mpc.errors import PeerTimeout, PeerVanished
from mpc.host.streaming import Pieces
from protocols.transport.channel import Channel
from protocols.transport.codec import Buffer
from protocols.transport.frames import FACTS_LIMIT
from protocols.transport.link import Intake, Link

T = TypeVar("T")
_END = b""


def memory_pair(
    names: tuple[str, str] = ("party_a", "party_b"),
    *,
    timeout: float | None = 60.0,
    limit: int = FACTS_LIMIT,
) -> tuple[Channel, Channel]:
    """Return two connected channels: the first for the party of the first name, the second for the other."""
    forth: SimpleQueue[bytes] = SimpleQueue()
    back: SimpleQueue[bytes] = SimpleQueue()
    first = _MemoryLink(names[1], forth, back, timeout)
    second = _MemoryLink(names[0], back, forth, timeout)
    return Channel(first, limit), Channel(second, limit)


class _MemoryLink(Link):
    def __init__(self, peer: str, outbox: SimpleQueue[bytes], inbox: SimpleQueue[bytes], timeout: float | None) -> None:
        self.peer = peer
        self._outbox = outbox
        self._inbox = inbox
        self.timeout = timeout
        self._arrived = memoryview(b"")
        self._closed = False

    def transfer(self, outgoing: Sequence[Buffer | Pieces], intake: Intake[T], step: str) -> None:
        if self._closed:
            raise PeerVanished(f"the channel to {self.peer} is closed in {step}")
        if outgoing:
            message = b"".join(part.tobytes() if isinstance(part, Pieces) else part for part in outgoing)
            self._outbox.put(message)
            self.sent += len(message)
        while intake.target is not None:
            if not self._arrived:
                self._arrived = memoryview(self._next_message(step))
            count = min(len(self._arrived), len(intake.target))
            intake.target[:count] = self._arrived[:count]
            self._arrived = self._arrived[count:]
            self.received += count
            intake.filled(count)

    def watch(self, other: Link, gone: Callable[[], None]) -> None:
        """Do nothing: threads of one process end together."""

    def unwatch(self, other: Link) -> None:
        """Do nothing: nothing was watched."""

    def deafen(self) -> None:
        self._inbox.put(_END)

    def close(self) -> None:
        self._closed = True
        self._outbox.put(_END)

    def _next_message(self, step: str) -> bytes:
        try:
            message = self._inbox.get(timeout=self.timeout)
        except Empty:
            raise PeerTimeout.at(f"{self.peer} silent for {self.timeout:g} s", step) from None
        if message == _END:
            self._inbox.put(_END)
            raise PeerVanished.at(f"{self.peer} closed the connection", step)
        return message
