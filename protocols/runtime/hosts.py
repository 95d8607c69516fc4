"""Parties on separate hosts: who listens where, and how the parties find each other and the dealer, if there is one.

Party 0 listens for party 1, and the dealer (dealing.py) for both. Every connection is mutual TLS, so certificates
identify all of them. The two parties compare what they expect and draw the session id together; both name it to the
dealer, or, without a dealer, party 1 names it to party 0 in its second connection. While a party waits for one of the
other two it watches the third, and when it fails it reports why.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from mpc.checks.verdict import begin
from mpc.errors import ConfigError, PeerFailure, PeerTimeout, PeerVanished, ProtocolDesync
from mpc.host.process import keep_freed_memory, leave_no_core_dump
from mpc.party import Party
from protocols.offline.dealer.client import FromDealer
from protocols.offline.dealer.server import FEW_BYTES
from protocols.offline.pairwise.client import FromPeer, pairwise
from protocols.offline.pairwise.prepared import Prepared
from protocols.offline.streams import shard_domain
from protocols.runtime.settings import FROM_DEALER, Link, Offline, price_of
from protocols.transport.certificates import Credentials
from protocols.transport.channel import Channel
from protocols.transport.codec import encode
from protocols.transport.tcp import Address, Listener, connect, listen

log = logging.getLogger("sharewood")
T = TypeVar("T")
_NONCE_BYTES = 16
_DECLINING = 1.0
_LATER = 1.25
_ADDRESS = re.compile(r"(?:(?P<host>[^\s:\[\]]+)|\[(?P<v6>[0-9A-Fa-f:.]+)\]):(?P<port>[0-9]{1,5})", re.ASCII)


@dataclass(frozen=True)
class Network:
    """The hosts of a job: `parties` by rank, and the addresses at which party 0 (`meeting`) and the dealer listen.

    If `dealer` is None, party 0 announces its address, unless `offline` is "pairwise". With `audit` they check
    what they compute.

    `shards` is the number of workers among which each party divides its rows. Two workers connect for one `shard` of
    the job of two leads, whose session has the id `leads`. `ledger`: whether the parties keep ledgers.

    `patience`: seconds that a host may take to connect. `timeout`: seconds of silence after which a wait fails. `link`:
    that between the hosts, by which protocols choose between rounds and bytes.
    """

    parties: tuple[str, str]
    meeting: Address
    dealer: Address | None
    dealer_name: str = "dealer"
    patience: float = 60.0
    timeout: float = 600.0
    offline: Offline = FROM_DEALER
    audit: bool = False
    shards: int = 0
    shard: int | None = None
    leads: str | None = None
    ledger: bool = False
    link: Link | None = None

    @property
    def domain(self) -> bytes:
        """The bytes that go into every key of two workers; none for two leads."""
        return b"" if self.shard is None else shard_domain(self.shard, self.shards, str(self.leads))

    def expected(self, supplied: bool) -> dict[str, Any]:
        """Return what the hosts compare: who makes correlated randomness and how, if the job is `supplied` with any."""
        divided = {"shards": self.shards, "shard": self.shard, "session of the leads": self.leads}
        return {
            "parties": list(self.parties),
            "offline": self.offline.maker if supplied else None,
            "ot": self.offline.ot if supplied and self.offline.pairwise else None,
            "audit": self.audit if supplied else None,
            "dealer": self.dealer_name if supplied and not self.offline.pairwise else None,
            **(divided if self.shards else {}),
            **({"ledger": True} if self.ledger else {}),
            **({"link": [self.link.round_trip, self.link.rate]} if self.link else {}),
        }


def parse_address(text: str) -> Address:
    """`host:port` -> (host, port). Raises ConfigError."""
    found = _ADDRESS.fullmatch(text.strip())
    if not found or not 0 < int(found["port"]) < 65536:
        raise ConfigError(f"an address must be host:port, with a port up to 65535, got {text!r}")
    return found["host"] or found["v6"], int(found["port"])


@contextmanager
def joined(
    network: Network,
    rank: int,
    credentials: Credentials,
    own_dealer: Callable[[], Address] | None = None,
    prepared: Prepared | None = None,
    listener: Listener | None = None,
) -> Iterator[Party]:
    """Connect party `rank` with its peer and the dealer for the length of the block; tell both how the block ended.

    At party 0, `own_dealer` starts a dealer on this machine and returns its address, and `listener` is a listener that
    is already open; it is closed once the peer has connected. A pair without a dealer may use `prepared` material,
    which is closed at the end. Raises PeerFailure, and ConfigError or DataError if the parties expect different
    things. In an audit, raises AuditFailure at the end of the block if values that no verdict has covered are wrong.
    """
    keep_freed_memory()
    leave_no_core_dump()
    with (
        prepared or nullcontext(),
        _meet(network, rank, credentials, supplied=True, listener=listener) as (peer, session, second),
        _supplied(network, rank, credentials, peer, session, second, own_dealer, prepared) as randomness,
        randomness,
    ):
        party = Party(rank, peer, randomness, round_price=price_of(network.link))
        if network.audit:
            begin(party)
        yield party
        party.audit.settle(party)
        _part(peer)
        with suppress(PeerFailure):
            randomness.close()


def run_party(
    network: Network,
    rank: int,
    credentials: Credentials,
    job: Callable[[Party], T],
    own_dealer: Callable[[], Address] | None = None,
    prepared: Prepared | None = None,
) -> T:
    """Run a job as party `rank`, `joined` with its peer and the dealer."""
    with joined(network, rank, credentials, own_dealer, prepared) as party:
        return job(party)


@contextmanager
def _supplied(
    network: Network,
    rank: int,
    credentials: Credentials,
    peer: Channel,
    session: bytes,
    second: Channel | None,
    own_dealer: Callable[[], Address] | None,
    prepared: Prepared | None,
) -> Iterator[FromDealer | FromPeer]:
    """Yield correlated randomness, from the dealer or made over the second channel to the peer."""
    if second:
        with second.explained(), _at_first_hand(peer, second):
            with second.watching(peer, _give_up):
                made = pairwise(rank, second, network.offline.ot, peer, prepared, network.domain)
            yield made
        return
    address = network.dealer or _own_dealer(peer, rank, own_dealer)
    waits: dict[str, Any] = {"patience": network.patience, "timeout": network.timeout}
    dealer = connect(address, credentials, network.dealer_name, session=session, beside=peer, **waits)
    with dealer.explained(), _at_first_hand(peer, dealer):
        # The dealer may wait just as long for the other party, and must be the first to report it.
        dealer.timeout = _LATER * max(network.patience, network.timeout)
        with dealer.watching(peer, _give_up):
            dealt = FromDealer(rank, dealer, peer, network.domain)
            _same_session(peer, dealt)
        dealer.timeout = _LATER * network.timeout
        yield dealt


@contextmanager
def _at_first_hand(peer: Channel, other: Channel) -> Iterator[None]:
    """If `peer` has caused the end of `other`, its second channel or the dealer's, give the reason and name it."""
    try:
        yield
    except PeerVanished as failure:
        _, gone, where = str(failure).partition(f"{peer.peer} closed the connection")
        if failure.explained and other.peer != peer.peer and gone:
            raise PeerVanished(f"{gone}{where} (as {other.peer} says)") from None
        if failure.explained or other.peer != peer.peer:
            raise
        # Both channels end at the same time, and what was said on the first may arrive later.
        peer.timeout = _DECLINING
        told = peer.last_words("the end")
        if isinstance(told, PeerVanished) and told.explained:
            raise told from None
        raise


def run_pair(network: Network, rank: int, credentials: Credentials, job: Callable[[Channel], T]) -> T:
    """Connect party `rank` with its peer and run a job that needs no dealer. Raises PeerFailure, ConfigError."""
    leave_no_core_dump()
    with _meet(network, rank, credentials, supplied=False) as (peer, _, _):
        result = job(peer)
        _part(peer)
    return result


def decline(network: Network, rank: int, credentials: Credentials, supplied: bool) -> None:
    """Tell the peer, if it is already waiting, that this party has refused its own input. Takes at most a second.

    `supplied` says whether the job uses correlated randomness.
    """
    with (
        suppress(PeerFailure, ConfigError),
        _meet(replace(network, patience=_DECLINING), rank, credentials, supplied) as (peer, _, _),
    ):
        peer.end("it refused its own files or settings; its log has the reason")


@contextmanager
def _meet(
    network: Network, rank: int, credentials: Credentials, supplied: bool, listener: Listener | None = None
) -> Iterator[tuple[Channel, bytes, Channel | None]]:
    """Connect with the peer: yield its channel, the session id and, for a pair without a dealer, a second channel.

    If the block fails, tell the peer why.
    """
    name = network.parties[1 - rank]
    waits: dict[str, Any] = {"patience": network.patience, "timeout": network.timeout}
    expected, paired = network.expected(supplied), supplied and network.offline.pairwise
    if rank == 1:
        with _hinting(name):
            peer = connect(network.meeting, credentials, name, **waits)
        with peer.explained():
            session = _greet(peer, rank, expected, network.patience)
            second = None
            if paired:
                second = connect(network.meeting, credentials, name, session=session, beside=peer, **waits)
            yield peer, session, second
        return
    until = time.monotonic() + network.patience
    with listener or listen(network.meeting, credentials) as listening:
        while True:
            with _hinting(name):
                left = max(0.0, until - time.monotonic())
                peer = listening.accept(name, patience=left, timeout=network.timeout)
            try:
                session = _greet(peer, rank, expected, max(0.0, until - time.monotonic()))
                break
            except PeerFailure as failure:
                peer.close()
                log.warning("a connection from %s did not start a session: %s", name, failure)
        second = _second(listening, peer, session, waits) if paired else None
    with peer.explained():
        yield peer, session, second


def _second(listener: Listener, peer: Channel, session: bytes, waits: dict[str, Any]) -> Channel:
    """Wait for the second channel to the peer; if it does not come, tell the peer over the first."""
    try:
        while (channel := listener.accept(peer.peer, **waits)).session != session:
            channel.close()
        return channel
    except PeerFailure as failure:
        peer.end(str(failure))
        peer.close()
        raise


@contextmanager
def _hinting(name: str) -> Iterator[None]:
    """Add a hint to a timeout: a party that refuses its own files never connects."""
    try:
        yield
    except PeerTimeout as failure:
        raise PeerTimeout(f"{failure}; is it running? If it refused its own files, its log has the reason") from None


def _greet(peer: Channel, rank: int, expected: dict[str, Any], seconds: float) -> bytes:
    """Compare what the two parties expect, and draw the session id. Raises ConfigError, PeerFailure."""
    nonce = os.urandom(_NONCE_BYTES)
    usual, peer.timeout = peer.timeout, seconds
    theirs = peer.exchange_public("session.hello", {**expected, "nonce": nonce}, FEW_BYTES)
    peer.timeout = usual
    for part, does in (("shards", "divides its rows"), ("ledger", "keeps a ledger"), ("link", "states its link")):
        if isinstance(theirs, dict) and (part in theirs) != (part in expected):
            who = "this party" if part in expected else peer.peer
            raise ConfigError(f"the hosts disagree on {part}: only {who} {does}")
    if not isinstance(theirs, dict) or theirs.keys() != {*expected, "nonce"}:
        raise ProtocolDesync(f"{peer.peer} must begin with a hello")
    for what, value in expected.items():
        if encode(theirs[what]) != encode(value):
            raise ConfigError(f"the hosts disagree on {what}: {value!r} here, {theirs[what]!r} at {peer.peer}")
    if not isinstance(theirs["nonce"], bytes) or len(theirs["nonce"]) != _NONCE_BYTES:
        raise ProtocolDesync(f"{peer.peer} must begin with a nonce of {_NONCE_BYTES} bytes")
    both = (nonce, theirs["nonce"]) if rank == 0 else (theirs["nonce"], nonce)
    return hashlib.sha256(b"sharewood session" + both[0] + both[1]).digest()[:_NONCE_BYTES]


def _own_dealer(peer: Channel, rank: int, start: Callable[[], Address] | None) -> Address:
    """Start a dealer and announce its address, at party 0; receive it at party 1. Raises ProtocolDesync."""
    if rank == 0:
        assert start is not None, "without a dealer's address, party 0 must start a dealer"
        address = start()
        peer.send("dealer.address", list(address))
        return address
    place = peer.receive("dealer.address", FEW_BYTES)
    if not isinstance(place, list) or [type(part) for part in place] != [str, int] or not 0 < place[1] < 65536:
        raise ProtocolDesync(f"{peer.peer} must name the address of a dealer")
    return place[0], place[1]


def _same_session(peer: Channel, randomness: FromDealer) -> None:
    """Raise PeerFailure unless the dealer serves both parties in one session."""
    theirs = peer.exchange_public("session.dealer", randomness.session, FEW_BYTES)
    if not isinstance(theirs, bytes) or theirs != randomness.session:
        raise PeerFailure(f"the dealer paired this party and {peer.peer} with others: run both again")


def _part(peer: Channel) -> None:
    """Wait until the peer is done, too. This party's result is complete in any case."""
    try:
        peer.exchange_public("session.end", None, FEW_BYTES)
    except PeerFailure as failure:
        log.warning("this party is done, but %s did not confirm that it is: %s", peer.peer, failure)


def _give_up(failure: PeerFailure) -> NoReturn:
    raise failure
