"""The trusted dealer: a process that sees public shapes only, and fulfils plans ahead of their use.

Functionality  the same plan from both parties -> to each its seed, once, and its corrections, request by request
Messages       party -> dealer: 16 random bytes;  dealer -> party: its seed, and the nonce of the attempt
               then for each plan   party -> dealer: the plan;  dealer -> party: batches of corrections
Security       the dealer is trusted not to collude with either party. It learns shapes and nothing of the data; a
               party's corrections are one-time padded by the other party's stream. Every request has a stream of
               its own under HKDF(seed, nonce of all three, index), and an index is dealt once
Source         Beaver, CRYPTO 1991 (commodity-based: Beaver, STOC 1997)
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from mpc.correlation import Kind
from mpc.errors import PeerVanished, ProtocolDesync
from protocols.randomness.hands import DealerHand
from protocols.randomness.plan import decode_plan
from protocols.randomness.prg import Stream
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
        batches = _Batches(parties)
        for kind in _requests(decode_plan(plans[0])):
            hand = DealerHand((Stream(seeds[0], nonce, index), Stream(seeds[1], nonce, index)), matrices)
            kind.deal(hand)
            batches.add(hand.corrections)
            index += 1
        batches.flush()


def _nonce(channel: Channel) -> bytes:
    nonce = channel.receive("dealer.hello")
    if not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES:
        raise ProtocolDesync(f"{channel.peer} sent no nonce of {NONCE_BYTES} bytes")
    return nonce


def _requests(plan: list[tuple[list[Kind], int]]) -> Iterator[Kind]:
    for kinds, times in plan:
        for _ in range(times):
            yield from kinds


class _Batches:
    """Corrections of many requests in messages that grow to some 32 MB: the parties start on the first ones early."""

    def __init__(self, parties: tuple[Channel, Channel]) -> None:
        self._parties, self._enough = parties, FIRST_BATCH
        self._clear()

    def _clear(self) -> None:
        self._parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        self._sizes: tuple[list[int], list[int]] = ([], [])
        self._bytes = 0

    def add(self, corrections: tuple[list[np.ndarray], list[np.ndarray]]) -> None:
        for parts, sizes, mine in zip(self._parts, self._sizes, corrections, strict=True):
            parts.extend(mine)
            sizes.append(sum(a.size for a in mine))
            self._bytes += sizes[-1]
        if self._bytes > min(self._enough, BATCH):
            self._enough *= 2
            self.flush()

    def flush(self) -> None:
        """Send what has gathered; nothing where nothing has."""
        if not self._sizes[0]:
            return
        for to in (1, 0):  # party 1 has more to read
            parts, sizes = self._parts[to], np.array(self._sizes[to], np.int64)
            self._parties[to].send("dealer.batch", {"sizes": sizes, "data": Joined(parts)})
        self._clear()
