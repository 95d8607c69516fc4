"""Pairwise randomness for tests and notebooks: real transfers on top of fake correlated transfers.

Both parties know both ends of every correlated transfer, from a common seed: correct and fast, but not private.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from mpc.rounds import Steps
from mpc.words import U64
from protocols.offline.pairwise.client import FromPeer
from protocols.offline.streams import Streams
from protocols.ot.transfers import Transfers, key_of
from protocols.transport.channel import Channel


@dataclass
class _Known:
    """Correlated transfers that both parties know in full, in the direction in which party `chooser` chooses."""

    chooser: int
    streams: Streams
    delta: np.ndarray = field(init=False)
    _count: int = 0

    def __post_init__(self) -> None:
        self.delta = self._words(1)[0] | np.array([1, 0], U64)

    def _words(self, count: int) -> np.ndarray:
        self._count += 1
        return self.streams.of(2 * self._count + self.chooser).words((count, 2), U64)

    def blocks(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        q = self._words(count)
        return (self._words(count)[:, 0] & np.uint64(1)).astype(np.uint8), q


class KnownSender(_Known):
    def extend(self, count: int) -> Steps[np.ndarray]:
        yield from ()
        return self.blocks(count)[1]


class KnownReceiver(_Known):
    def extend(self, count: int) -> Steps[tuple[np.ndarray, np.ndarray]]:
        yield from ()
        bits, q = self.blocks(count)
        return bits, q ^ bits[:, None] * self.delta


def known_transfers(rank: int, session: bytes) -> Transfers:
    """Return one party's end of transfers on top of correlated transfers that both know."""
    known = Streams(session[:16], session)
    sender, receiver = KnownSender(1 - rank, known), KnownReceiver(rank, known)
    return Transfers(rank, sender, receiver, (key_of(session, 0), key_of(session, 1)))


def local_pair(
    rank: int,
    channel: Channel,
    session: bytes = bytes(32),
    seed: bytes | None = None,
    peer: Channel | None = None,
) -> FromPeer:
    """Return one party's supply, over a channel of its own."""
    return FromPeer(rank, channel, known_transfers(rank, session), seed or os.urandom(16), session, peer)
