"""A party's side of the dealer: plans go out, material comes in while the program goes on, each request is given once.

A thread (delivery.py) takes in material up to a bound, WINDOW bytes beyond what the program has taken. So a party and
the dealer hold no more of a long plan than of a short one, and both work while the program is online.

What the thread does counts towards the stage in which the plan was provided: its seconds at work, or waiting for the
dealer, and the bytes that come in. The time in which the program waits for material counts towards no stage.
"""

from __future__ import annotations

import hashlib
import os
from threading import Thread
from typing import Self, TypeVar

import numpy as np

from mpc.correlation import Correlation
from mpc.errors import PeerFailure, ProtocolDesync
from mpc.meter import Stage
from protocols.randomness.dealer import FEW_BYTES, NONCE_BYTES, SEED_BYTES
from protocols.randomness.delivery import Delivery, Request, parts_of
from protocols.randomness.plan import Plan
from protocols.randomness.prg import Streams
from protocols.randomness.views import PartyView
from protocols.randomness.window import Window
from protocols.transport.channel import Channel

T = TypeVar("T")
WINDOW = 1 << 28
_STOPPING = 1.0


class DealtRandomness:
    """Implements `mpc.party.Randomness` over a channel to the dealer, which from now on belongs to this object.

    A program that waits for the dealer notices that `peer` has hung up. To be closed, or, where the program has failed,
    left as a context manager: then the channel can be used to say why.
    """

    def __init__(self, rank: int, dealer: Channel, peer: Channel | None = None) -> None:
        self._rank, self._dealer, self._peer = rank, dealer, peer
        own = os.urandom(NONCE_BYTES)
        dealer.send("dealer.hello", own)
        seed, nonce = parts_of(dealer.receive("dealer.session", FEW_BYTES), {"seed": bytes, "nonce": bytes})
        if len(seed) != SEED_BYTES or len(nonce) != 3 * NONCE_BYTES or own not in (nonce[16:32], nonce[32:]):
            raise ProtocolDesync(f"{dealer.peer} opened a session that is not this party's")
        self.session = hashlib.sha256(nonce).digest()
        self.billed: Stage | None = None
        self.used = self._due = 0
        self._streams = Streams(seed, nonce)
        self._matrices: dict[int, np.ndarray] = {}
        self._window: Window[Request] = Window(WINDOW)
        self._delivery = Delivery(rank, dealer, Streams(seed, nonce), self._matrices, self._window)
        self._thread = Thread(target=self._delivery.run, name="delivery", daemon=True)
        self._thread.start()

    @property
    def received(self) -> int:
        """Bytes on the wire from the dealer so far."""
        return self._dealer.wire_received

    @property
    def dealt(self) -> int:
        return self._delivery.dealt

    @property
    def waited(self) -> float:
        return self._window.waited

    def keep(self, number: int, masked: np.ndarray) -> None:
        self._matrices[number] = masked

    def forget(self, number: int) -> None:
        self._matrices.pop(number, None)

    def provide(self, plan: Plan) -> None:
        self._due += sum(len(requests) * times for requests, times in plan)
        self._delivery.plans.put((plan, self.billed))

    def take(self, correlation: Correlation[T]) -> T:
        """The next request of the plan, which must be this one; without a plan it is asked for on the spot."""
        if not self._due:
            self.provide([([correlation], 1)])
        self._due -= 1
        request = self._window.take(self._look_at_peer)
        if request.correlation != correlation:
            raise ProtocolDesync(f"the plan has {request.correlation} where the program asks for {correlation}")
        self.used += request.bytes.corrections[self._rank]
        if request.corrections is None:
            values: T = request.values
            return values
        stream = self._streams.of(request.index)
        return correlation.deal(PartyView(self._rank, stream, request.corrections, self._matrices))

    def settle(self) -> None:
        """Wait until all that was provided has come in, or as much as there is room for."""
        self._window.settle(self._due, self._look_at_peer)

    def close(self) -> None:
        """Tell the dealer that this party needs nothing more. Raises what has kept provided material from coming."""
        self._window.drop()
        self._delivery.plans.put(None)
        self._thread.join()
        if self._window.failure:
            raise self._window.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self._window.fail(PeerFailure("this party has failed"))
            self._delivery.plans.put(None)
            self._dealer.deafen()
            self._thread.join(_STOPPING)

    def _look_at_peer(self) -> None:
        if self._peer and self._peer.hung_up:
            raise self._peer.last_words(f"waiting for {self._dealer.peer}")
