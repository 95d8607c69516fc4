"""The trusted dealer: a process that sees public shapes only, and fulfils plans ahead of their use.

Functionality  the same plan from both parties -> to each its seed, once, and its corrections, request by request
Messages       party -> dealer: 16 random bytes;  dealer -> party: its seed, and the nonce of the attempt
               then for each plan   party -> dealer: the plan;  dealer -> party: batches of corrections
Security       the dealer is trusted not to collude with either party. It learns shapes and nothing of the data; a
               party's corrections are one-time padded by the other party's stream. Every request has a stream of
               its own, by its index, under HKDF(seed, nonce of all three), and an index is dealt once
Source         Beaver, CRYPTO 1991 (commodity-based: Beaver, STOC 1997)
"""

from __future__ import annotations

import os

import numpy as np

from mpc.errors import PeerVanished, ProtocolDesync
from protocols.randomness.plan import decode_plan, in_order
from protocols.randomness.prg import Streams
from protocols.randomness.views import DealerView
from protocols.transport.channel import Channel
from protocols.transport.codec import Joined

FIRST_BATCH, BATCH = 1 << 18, 32 << 20
NONCE_BYTES = SEED_BYTES = 16


def serve(first: Channel, second: Channel) -> int:
    """Deal to party 0 (`first`) and party 1 (`second`) until both are done; the number of requests fulfilled."""
    parties = first, second
    nonce = os.urandom(NONCE_BYTES) + b"".join(_nonce(channel) for channel in parties)
    seeds = os.urandom(SEED_BYTES), os.urandom(SEED_BYTES)
    for channel, seed in zip(parties, seeds, strict=True):
        channel.send("dealer.session", {"seed": seed, "nonce": nonce})
    streams = Streams(seeds[0], nonce), Streams(seeds[1], nonce)
    matrices: dict[int, np.ndarray] = {}
    index = 0
    while True:
        try:
            plans = [channel.receive("dealer.plan") for channel in parties]
        except PeerVanished:
            return index
        if plans[0] != plans[1]:
            for channel in parties:
                channel.send("dealer.batch", {"error": "the two parties asked for different correlated randomness"})
            raise ProtocolDesync("the two parties asked for different correlated randomness")
        if plans[0] is None:
            return index
        outgoing = _Batches(second), _Batches(first)  # party 1 has more to read
        for request in in_order(decode_plan(plans[0])):
            view = DealerView((streams[0].of(index), streams[1].of(index)), matrices)
            request.deal(view)
            dealt = sum(a.size for corrections in view.corrections for a in corrections)
            for batches, corrections in zip(outgoing, reversed(view.corrections), strict=True):
                batches.add(corrections, dealt)
            index += 1
        for batches in outgoing:
            batches.flush()


def _nonce(channel: Channel) -> bytes:
    nonce = channel.receive("dealer.hello")
    if not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES:
        raise ProtocolDesync(f"{channel.peer} sent no nonce of {NONCE_BYTES} bytes")
    return nonce


class _Batches:
    """Corrections to one party, of many requests in a message that grows to some 32 MB: it starts on the first early.

    Where it has next to none, it is told after as much for both.
    """

    def __init__(self, party: Channel) -> None:
        self._party, self._enough = party, FIRST_BATCH
        self._clear()

    def _clear(self) -> None:
        self._parts: list[np.ndarray] = []
        self._sizes: list[int] = []
        self._bytes = self._dealt = 0

    def add(self, corrections: list[np.ndarray], dealt: int) -> None:
        """The corrections of one request to this party; `dealt` bytes to both."""
        size = sum(a.size for a in corrections)
        self._parts.extend(corrections)
        self._sizes.append(size)
        self._bytes += size
        self._dealt += dealt
        if self._bytes > self._enough or self._dealt > BATCH:
            self._enough = min(2 * self._enough, BATCH)
            self.flush()

    def flush(self) -> None:
        """Send what has gathered; nothing where nothing has."""
        if self._sizes:
            self._party.send("dealer.batch", {"sizes": np.array(self._sizes, np.int64), "data": Joined(self._parts)})
            self._clear()
