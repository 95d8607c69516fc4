"""The trusted dealer: a process that sees only public shapes, and fulfils plans ahead of their use.

Functionality  the same plan from both parties -> to each party its seed, once, and its corrections for each request
Messages       party -> dealer: 16 random bytes and, from a worker, the domain of its shard;  dealer -> party: its
               seed, and the nonce of the attempt, made from those of all three and the domain
               then for each plan   party -> dealer: the plan;  dealer -> party: every NOTICE seconds until the other
               party's plan arrives, an empty message; then batches of corrections
Security       the dealer is trusted not to collude with either party. It learns shapes but nothing about the data. A
               party's corrections are one-time padded with the other party's stream. Every request has its own
               stream, by its index, under HKDF(seed, nonce of the attempt), and each index is dealt once
Source         Beaver, CRYPTO 1991 (commodity-based: Beaver, STOC 1997)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from mpc.errors import ProtocolDesync
from mpc.offline.correlation import Correlation
from protocols.offline.dealer.pace import Pace
from protocols.offline.plan import decode_plan, in_order
from protocols.offline.sizes import request_bytes
from protocols.offline.streams import DOMAIN_BYTES, Rows, Streams
from protocols.offline.views import DealerView
from protocols.transport.channel import Channel, first_to_speak
from protocols.transport.codec import Joined, decode

FIRST_BATCH, BATCH, BATCH_REQUESTS = 1 << 18, 1 << 20, 1 << 16
NONCE_BYTES = SEED_BYTES = 16
FEW_BYTES = 4096
NOTICE = 0.5
# Bytes that a plan may take in memory, about 1.6 million requests: 300 rounds of ten classes take a third of it, even
# if no two rounds are the same.
PLAN_ROOM = 1 << 30


def serve(first: Channel, second: Channel, *, draw: Callable[[int], bytes] = os.urandom) -> int:
    """Deal to party 0 (`first`) and party 1 (`second`) until both are done; return the number of requests fulfilled.

    `draw` returns secret random bytes. There is no time limit between two plans of a party. If the session fails, both
    are told why. Raises PeerFailure.
    """
    with first.explained(), second.explained():
        try:
            return _serve((first, second), draw)
        except MemoryError:
            raise ProtocolDesync("the dealer has too little memory for a plan of this length") from None


def _serve(parties: tuple[Channel, Channel], draw: Callable[[int], bytes]) -> int:
    (first, domain), (second, other) = (_hello(channel) for channel in parties)
    if domain != other:
        raise ProtocolDesync(f"{parties[0].peer} and {parties[1].peer} are workers of different shards or jobs")
    nonce = draw(NONCE_BYTES) + first + second + domain
    seeds = draw(SEED_BYTES), draw(SEED_BYTES)
    for channel, seed in zip(parties, seeds, strict=True):
        channel.send("dealer.session", {"seed": seed, "nonce": nonce})
    streams = Streams(seeds[0], nonce), Streams(seeds[1], nonce)
    matrices: dict[int, np.ndarray | Rows] = {}
    pace, index = Pace(parties), 0
    while (plan := _next_plan(parties)) is not None:
        outgoing = _Batches(parties[1]), _Batches(parties[0])  # party 1 has more to read
        requests, size = _requests(plan)
        pace.begin(size)
        for request in requests:
            view = DealerView((streams[0].of(index), streams[1].of(index)), matrices)
            with _dealing(request):
                request.deal(view)
            dealt = sum(a.size for corrections in view.corrections for a in corrections)
            for batches, corrections in zip(outgoing, reversed(view.corrections), strict=True):
                if batches.add(corrections, dealt):
                    pace.look()
            index += 1
        for batches in outgoing:
            batches.flush()
        pace.look()
    return index


def _next_plan(parties: tuple[Channel, Channel]) -> bytes | None:
    """Return the plan of both, encoded; None once both are done. Raises ProtocolDesync."""
    plans: set[bytes | None] = set()
    waiting = list(parties)
    while waiting:
        channel = first_to_speak(waiting, NOTICE if any(plans) else None)  # a party that is done no longer reads
        if channel is None:
            for other in set(parties).difference(waiting):
                other.send("dealer.batch", None)
            continue
        waiting.remove(channel)
        plan = channel.receive("dealer.plan")
        if plan is not None and not isinstance(plan, bytes):
            raise ProtocolDesync(f"{channel.peer} must send a plan")
        plans.add(plan)
    if len(plans) > 1:
        raise ProtocolDesync("the two parties asked for different correlated randomness")
    return plans.pop()


@lru_cache(maxsize=16)
def _requests(plan: bytes) -> tuple[tuple[Correlation[Any], ...], int]:
    """Decode a plan, and count its bytes of corrections. Raises ProtocolDesync.

    Cached, since a training makes the same requests for every tree.
    """
    requests = tuple(in_order(decode_plan(decode(plan, PLAN_ROOM))))
    size = 0
    for request in requests:
        with _dealing(request):
            size += sum(request_bytes(request).corrections)
    return requests, size


@contextmanager
def _dealing(request: Correlation[Any]) -> Iterator[None]:
    """Raise ProtocolDesync if a request is invalid, or this process has too little memory for it."""
    try:
        yield
    except MemoryError:
        raise ProtocolDesync(f"the dealer has too little memory for {request}") from None
    except Exception as error:  # a plan may contain any request
        raise ProtocolDesync(f"{request} cannot be dealt: {type(error).__name__}: {error}") from error


def _hello(channel: Channel) -> tuple[bytes, bytes]:
    """Receive a party's nonce, and the domain of its shard, empty unless it is a worker. Raises ProtocolDesync."""
    hello = channel.receive("dealer.hello", FEW_BYTES)
    if not isinstance(hello, bytes) or len(hello) not in (NONCE_BYTES, NONCE_BYTES + DOMAIN_BYTES):
        raise ProtocolDesync(f"{channel.peer} must send a nonce of {NONCE_BYTES} bytes, and a domain or none")
    return hello[:NONCE_BYTES], hello[NONCE_BYTES:]


class _Batches:
    """Corrections to one party, for many requests per message.

    The first message is short, so that the party starts early; later ones grow to BATCH bytes. A message also ends
    after BATCH_REQUESTS requests, and once BATCH bytes have been dealt to both parties together: the dealer must not
    be silent for long to a party whose own part of them is small.
    """

    def __init__(self, party: Channel) -> None:
        self._party, self._enough = party, FIRST_BATCH
        self._clear()

    def _clear(self) -> None:
        self._parts: list[np.ndarray] = []
        self._sizes: list[int] = []
        self._bytes = self._dealt = 0

    def add(self, corrections: list[np.ndarray], dealt: int) -> bool:
        """Add the corrections of one request to this party; `dealt` is the bytes dealt to both.

        Returns whether a message has been sent.
        """
        size = sum(a.size for a in corrections)
        self._parts.extend(corrections)
        self._sizes.append(size)
        self._bytes += size
        self._dealt += dealt
        if self._bytes > self._enough or self._dealt > BATCH or len(self._sizes) == BATCH_REQUESTS:
            self._enough = min(2 * self._enough, BATCH)
            self.flush()
            return True
        return False

    def flush(self) -> None:
        """Send what has been added, if anything."""
        if self._sizes:
            self._party.send("dealer.batch", {"sizes": np.array(self._sizes, np.int64), "data": Joined(self._parts)})
            self._clear()
