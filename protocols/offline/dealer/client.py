"""A party's end of the dealer: a supply whose material the dealer makes (supply.py, delivery.py)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from mpc.errors import ProtocolDesync
from protocols.offline.bounded_queue import BoundedQueue
from protocols.offline.dealer.delivery import Delivery, parts_of
from protocols.offline.dealer.server import FEW_BYTES, NONCE_BYTES, SEED_BYTES
from protocols.offline.streams import Streams
from protocols.offline.supply import WINDOW, Request, Supply
from protocols.offline.views import PartyView
from protocols.transport.channel import Channel


class FromDealer(Supply):
    """Implements `mpc.endpoint.Randomness` over a channel to the dealer, which this object owns from now on.

    If the program fails, the channel can still tell the dealer why. `domain` is that of a worker's shard. `draw`
    returns secret random bytes.
    """

    has_dealer = True

    def __init__(
        self,
        rank: int,
        dealer: Channel,
        peer: Channel | None = None,
        domain: bytes = b"",
        draw: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._dealer = dealer
        own = draw(NONCE_BYTES)
        dealer.send("dealer.hello", own + domain)
        seed, nonce = parts_of(dealer.receive("dealer.session", FEW_BYTES), {"seed": bytes, "nonce": bytes})
        fits = len(seed) == SEED_BYTES and len(nonce) == 3 * NONCE_BYTES + len(domain) and nonce[48:] == domain
        if not fits or own not in (nonce[16:32], nonce[32:48]):
            raise ProtocolDesync(f"{dealer.peer} opened a session that is not this party's")
        self.session = hashlib.sha256(nonce).digest()
        self._streams = Streams(seed, nonce)
        self._matrices: dict[int, np.ndarray] = {}
        window: BoundedQueue[Request] = BoundedQueue(WINDOW)
        others = (peer.peer,) if peer else ()
        self._delivery = Delivery(rank, dealer, Streams(seed, nonce), self._matrices, window, *others)
        super().__init__(rank, window, self._delivery, dealer.peer, peer)

    @property
    def received(self) -> int:
        """Bytes on the wire from the dealer so far."""
        return self._dealer.wire_received

    def keep(self, number: int, matrix: Any) -> None:
        self._matrices[number] = matrix

    def forget(self, number: int) -> None:
        self._matrices.pop(number, None)

    def _values(self, request: Request) -> Any:
        """Return the values, made now if the request had to wait for its turn."""
        if request.corrections is None:
            return request.values
        stream = self._streams.of(request.index)
        return request.correlation.deal(PartyView(self._rank, stream, request.corrections, self._matrices))

    def _give_up(self) -> None:
        self._dealer.deafen()
