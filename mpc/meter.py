"""Meters: rounds and payload bits by protocol, and the cost of each stage of the work."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

# Seconds, rounds, and bytes sent, received and dealt so far.
Counters = tuple[float, int, int, int, int]
# The program and the thread that receives material both add to a stage.
_ADDING = Lock()


@dataclass
class Traffic:
    """Rounds and payload bits, from this party's point of view."""

    rounds: int = 0
    sent: int = 0
    received: int = 0


@dataclass
class Meter:
    """Traffic in total and by protocol."""

    total: Traffic = field(default_factory=Traffic)
    by_protocol: dict[str, Traffic] = field(default_factory=dict)

    def count(self, name: str, sent: int, received: int) -> None:
        traffic = self.by_protocol.setdefault(name, Traffic())
        for line in (traffic, self.total):
            line.sent += sent
            line.received += received
        traffic.rounds += 1


@dataclass
class Stage:
    """The cost of a phase: seconds, rounds, bytes on the wire to and from the peer, bytes dealt."""

    seconds: float = 0.0
    rounds: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    bytes_dealt: int = 0

    def add(self, before: Counters, now: Counters) -> None:
        """Add the difference of two readings of the counters."""
        seconds, rounds, sent, received, dealt = (b - a for a, b in zip(before, now, strict=True))
        with _ADDING:
            self.seconds += seconds
            self.rounds += int(rounds)
            self.bytes_sent += int(sent)
            self.bytes_received += int(received)
            self.bytes_dealt += int(dealt)
