"""Correlated randomness that the two parties make without a dealer.

Functionality  the same plan at both parties -> the same values as a dealer would deal, request by request
Messages       party to party: transfers (protocols/ot/transfers.py), all requests of a portion in the same rounds
Security       semi-honest. Masks are words of a party's own stream; values derived from both parties' masks are
               shared by transfers. Computational: see protocols/ot
Source         offline phase by oblivious transfer: Demmler, Schneider and Zohner (ABY), NDSS 2015

A view reads the description of a request: it draws this party's halves and keeps the recipes of derived values. Their
two-party forms are then run in parallel, in place, wave by wave.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from mpc.endpoint import Endpoint, Peer
from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.host.encryption import FileKey
from mpc.meter import Counters
from mpc.offline import transfers
from mpc.offline.correlation import Correlation, Half
from mpc.protocol.rehearsal import Requests
from mpc.rounds import Steps, parallel
from protocols.offline.bounded_queue import BoundedQueue
from protocols.offline.dealer.server import FEW_BYTES, NONCE_BYTES, SEED_BYTES
from protocols.offline.pairwise.cost import request_transfers
from protocols.offline.pairwise.operands import Operands
from protocols.offline.pairwise.prepared import Label, Prepared, preparable, preparing
from protocols.offline.pairwise.view import LocalPair, PairView, fulfil
from protocols.offline.plan import Plan, encode_plan, in_order
from protocols.offline.sizes import portions
from protocols.offline.streams import Streams
from protocols.offline.supply import WINDOW, Plans, Request, Supply, numbered
from protocols.ot.correlated import OtKind, set_up
from protocols.ot.transfers import Transfers, key_of
from protocols.transport.channel import Channel
from protocols.transport.codec import encode

# Most transfers and most requests per portion: each portion takes about 30 rounds.
PORTION, MOST = 1 << 23, 4096
# The least transfers of a portion that is made in two halves, one of which computes while the messages of the other are
# in transit.
SPLIT = 1 << 20
T = TypeVar("T")


class Maker:
    """Makes requests together with the peer: all requests of one call in the same rounds."""

    def __init__(self, pair: LocalPair, link: Peer, transfers: Transfers, streams: Streams) -> None:
        self.pair, self._transfers, self._streams = pair, transfers, streams
        self.endpoint = Endpoint(pair.rank, link, Requests(pair.rank))

    def make(self, requests: Sequence[Request]) -> list[list[Half]]:
        """Make the values of requests; return the derived ones, by request. Raises NeedsDealer, PeerFailure."""
        views, programs, weights = [], [], []
        for request in requests:
            view = PairView(self.pair.rank, self._streams.of(request.index), request.correlation)
            request.values = request.correlation.deal(view)
            views.append(view)
            if view.due:
                programs.append(fulfil(self.pair, view.due))
                weights.append(count_transfers(request.correlation))
        self.endpoint.run_in_turns([self._waves(parallel(*half)) for half in halves(programs, weights)])
        for view in views:
            for number in view.dropped:
                self.pair.operands.forget(number)
        return [[value for derived in view.due for value in derived.values] for view in views]

    def _waves(self, program: transfers.OfflineSteps[Any]) -> Steps[None]:
        try:
            asked = next(program)
            while True:
                # If nothing is asked, it waits for trees that the other half makes.
                asked = program.send((yield from self._transfers.run(asked)) if asked else (yield []))
        except StopIteration:
            return


def first_uses(requests: Sequence[Correlation[Any]], seen: set[int]) -> Iterator[int]:
    """Yield the places of the first requests about matrices that are not `seen`; the numbers are added to these."""
    for i, request in enumerate(requests):
        number = getattr(request, "number", None)
        if number is not None and number not in seen:
            seen.add(number)
            yield i


def halves(programs: Sequence[T], weights: Sequence[int]) -> list[Sequence[T]]:
    """Split programs into halves of about the same number of transfers; do not split fewer than SPLIT."""
    ends = np.cumsum(weights)
    if not programs or ends[-1] < SPLIT:
        return [programs] if programs else []
    cut = 1 + int(np.searchsorted(ends, ends[-1] / 2))
    return [half for half in (programs[:cut], programs[cut:]) if half]


class Making:
    """A party's thread that makes material with the peer, portion by portion; a `Source` of supply.py.

    Both parties cut the same plans into the same portions, take the same requests from prepared material, and keep the
    same matrices before they make the requests that need them.
    """

    dealt = 0

    def __init__(self, maker: Maker, window: BoundedQueue[Request], prepared: Prepared | None) -> None:
        self._maker, self._window, self._prepared = maker, window, prepared
        self.plans = Plans(PORTION, MOST, count_transfers)
        self._seen: set[int] = set()

    def run(self) -> None:
        while (following := self.plans.next(wait=True)) is not None:
            _, asked = following
            for requests in self._able(asked):
                self._window.reserve(sum(request.bytes.held for request in requests), wait=True)
                before = self._counters()
                self._maker.make(self._prepared.fulfil(requests) if self._prepared else requests)
                if requests[0].stage:
                    requests[0].stage.add(before, self._counters())
                for request in requests:
                    self._window.put(request, request.bytes.held)

    def _able(self, portion: Sequence[Request]) -> Iterator[Sequence[Request]]:
        """Split a portion: the first request about a matrix starts a piece, which waits until the matrix is kept."""
        start, asked = 0, [request.correlation for request in portion]
        for i in first_uses(asked, self._seen):
            if i > start:
                yield portion[start:i]
            start = i
            self._maker.pair.operands.wait_for(asked[i].number)  # type: ignore[attr-defined]  # of a matrix
        yield portion[start:]

    def _counters(self) -> Counters:
        endpoint = self._maker.endpoint
        return perf_counter(), endpoint.meter.total.rounds, endpoint.link.wire_sent, endpoint.link.wire_received, 0


class FromPeer(Supply):
    """Implements `mpc.endpoint.Randomness` over a second channel to the peer, which this object owns from now on.

    `seed` is this party's secret; `session`, 32 bytes, is known to both; both are fresh for each session. `prepared`
    is material that both parties have and have agreed to use.
    """

    has_dealer = False

    def __init__(
        self,
        rank: int,
        channel: Channel,
        transfers: Transfers,
        seed: bytes,
        session: bytes,
        peer: Channel | None = None,
        prepared: Prepared | None = None,
    ) -> None:
        self._channel = channel
        maker = _maker(rank, channel, transfers, seed, session)
        self._operands = maker.pair.operands
        window: BoundedQueue[Request] = BoundedQueue(WINDOW)
        super().__init__(rank, window, Making(maker, window, prepared), channel.peer, peer)

    def provide(self, plan: Plan) -> None:
        """Request the material of a plan. Raises NeedsDealer if two parties cannot make it."""
        for requests, _ in plan:
            for request in requests:
                request_transfers(request)
        super().provide(plan)

    def keep(self, number: int, matrix: Any) -> None:
        self._operands.keep(number, matrix)

    def forget(self, number: int) -> None:
        self._operands.forget(number)

    def _give_up(self) -> None:
        self._operands.give_up()
        self._channel.deafen()


def count_transfers(request: Correlation[Any]) -> int:
    """Return the transfers of one request, in both directions together."""
    return sum(request_transfers(request).transfers)


def pairwise(
    rank: int,
    channel: Channel,
    ot: OtKind = "ferret",
    peer: Channel | None = None,
    prepared: Prepared | None = None,
    domain: bytes = b"",
) -> FromPeer:
    """Draw a session with the peer, agree on prepared material, and set up the transfers.

    `domain` is that of a worker's shard, which both know. Raises PeerFailure, and ConfigError or DataError if the
    parties differ.
    """
    session = _greet(rank, channel, ot, prepared, domain)
    if prepared:
        prepared.agree(channel)
    transfers = _set_up(rank, channel, ot, session)
    return FromPeer(rank, channel, transfers, os.urandom(SEED_BYTES), session, peer, prepared)


def prepare(
    rank: int,
    channel: Channel,
    parties: tuple[str, str],
    plan: Plan,
    path: Path,
    ot: OtKind,
    key: FileKey | None = None,
) -> Prepared:
    """Make a plan's material with the peer, which does the same at the same time, and write this party's file.

    With a key, the file is encrypted.

    Requests about kept matrices are left out: they need data. Raises ConfigError if the parties differ or need a
    dealer, DataError if the file cannot be written, PeerFailure.
    """
    plan, seed = preparable(plan), os.urandom(SEED_BYTES)
    session = _greet(rank, channel, ot, None)
    digest = hashlib.sha256(b"".join(encode(encode_plan(plan)))).digest()
    if channel.exchange_public("pair.plan", digest, FEW_BYTES) != digest:
        raise ConfigError(
            f"{channel.peer} prepares different material: [train] and [plan] must be the same at both parties"
        )
    maker = _maker(rank, channel, _set_up(rank, channel, ot, session), seed, session)
    with preparing(path, Label(session, seed, rank, parties), plan, key) as add:
        index = 0
        for portion in portions([(list(in_order(plan)), 1)], PORTION, MOST, count_transfers):
            for derived in maker.make(numbered(portion, index)):
                add([part for value in derived for part in value.ring.pack(value.out)])
            index += len(portion.requests)
        channel.exchange_public("pair.prepared", None, FEW_BYTES)
    return Prepared(path, rank, parties, key)


def _greet(rank: int, channel: Channel, ot: OtKind, prepared: Prepared | None, domain: bytes = b"") -> bytes:
    """Draw a session with the peer: 32 bytes from which all its keys are derived.

    Checks that both use the same transfers, and the same prepared material, if any.
    """
    nonce, pair = os.urandom(NONCE_BYTES), prepared.label.pair if prepared else None
    theirs = channel.exchange_public("pair.hello", {"nonce": nonce, "ot": ot, "prepared": pair}, FEW_BYTES)
    if not isinstance(theirs, dict) or theirs.keys() != {"nonce", "ot", "prepared"}:
        raise ProtocolDesync(f"{channel.peer} must begin with a nonce, the kind of transfers, and prepared material")
    if theirs["ot"] != ot:
        raise ConfigError(f"the parties disagree on ot: {ot} here, {theirs['ot']!r} at {channel.peer}")
    if (theirs["prepared"] is None) != (pair is None):
        owner = channel.peer if pair is None else "this party"
        raise ConfigError(f"both parties or neither must name prepared material, but only {owner} does")
    if prepared and theirs["prepared"] != pair:
        raise DataError(f"{prepared.path}: made in another run than the file of {channel.peer}: prepare again at both")
    if not isinstance(theirs["nonce"], bytes) or len(theirs["nonce"]) != NONCE_BYTES:
        raise ProtocolDesync(f"{channel.peer} must begin with a nonce of {NONCE_BYTES} bytes")
    both = (nonce, theirs["nonce"]) if rank == 0 else (theirs["nonce"], nonce)
    return hashlib.sha256(b"sharewood pair" + both[0] + both[1] + domain).digest()


def _set_up(rank: int, channel: Channel, ot: OtKind, session: bytes) -> Transfers:
    endpoint = Endpoint(rank, channel, Requests(rank))
    sender, receiver = endpoint.run(set_up(rank, session, ot, os.urandom))
    return Transfers(rank, sender, receiver, (key_of(session, 0), key_of(session, 1)))


def _maker(rank: int, channel: Channel, transfers: Transfers, seed: bytes, session: bytes) -> Maker:
    pair = LocalPair(rank, Streams(session[:16], session), Operands(rank, session[16:], transfers.sender.delta))
    return Maker(pair, channel, transfers, Streams(seed, session))
