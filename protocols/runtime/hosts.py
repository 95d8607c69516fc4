"""Roles on hosts of their own: who listens where, and how two parties and a dealer find each other.

Party 0 listens for party 1, and the dealer for both. Every connection is mutual TLS: a certificate says who it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mpc.errors import ConfigError, PeerFailure, PeerTimeout
from mpc.party import Party
from protocols.randomness.dealer import serve
from protocols.randomness.dealt import DealtRandomness
from protocols.runtime.memory import keep_freed_memory
from protocols.runtime.process import leave_no_core_dump
from protocols.transport.certificates import Credentials
from protocols.transport.channel import Channel
from protocols.transport.tcp import Address, Listener, connect, listen

log = logging.getLogger("sharewood")
T = TypeVar("T")
# A connection that says nothing may keep a dealer from others for this many seconds.
_LOOK = 60.0
_ADDRESS = re.compile(r"(?:(?P<host>[^\s:\[\]]+)|\[(?P<v6>[0-9A-Fa-f:.]+)\]):(?P<port>[0-9]{1,5})", re.ASCII)


@dataclass(frozen=True)
class Network:
    """`parties` by rank, where party 0 and the dealer listen (None: party 0 tells), and seconds of patience."""

    parties: tuple[str, str]
    meeting: Address
    dealer: Address | None
    dealer_name: str = "dealer"
    patience: float = 60.0
    timeout: float = 600.0


def parse_address(text: str) -> Address:
    """`host:port` -> (host, port). Raises ConfigError."""
    found = _ADDRESS.fullmatch(text.strip())
    if not found or not 0 < int(found["port"]) < 65536:
        raise ConfigError(f"an address is host:port, not {text!r}")
    return found["host"] or found["v6"], int(found["port"])


def run_party(
    network: Network,
    rank: int,
    credentials: Credentials,
    job: Callable[[Party], T],
    own_dealer: Callable[[], Address] | None = None,
) -> T:
    """Connect party `rank` with its peer and the dealer, run the job, tell the dealer that it may go.

    `own_dealer`, at party 0, starts a dealer on this machine and says where it listens. Raises PeerFailure.
    """
    leave_no_core_dump()
    keep_freed_memory()
    peer = _meet(network, rank, credentials)
    with peer:
        address = network.dealer
        if address is None:
            if rank == 0:
                assert own_dealer is not None, "without an address party 0 starts a dealer"
                address = own_dealer()
                peer.send("dealer.address", list(address))
            else:
                host, port = peer.receive("dealer.address")
                address = str(host), int(port)
        dealer = connect(address, credentials, network.dealer_name, patience=network.patience, timeout=network.timeout)
        with dealer:
            randomness = DealtRandomness(rank, dealer)
            result = job(Party(rank, peer, randomness))
            randomness.close()
    return result


def run_pair(network: Network, rank: int, credentials: Credentials, job: Callable[[Channel], T]) -> T:
    """Connect party `rank` with its peer alone, and run a job that needs no dealer. Raises PeerFailure."""
    with _meet(network, rank, credentials) as peer:
        return job(peer)


def _meet(network: Network, rank: int, credentials: Credentials) -> Channel:
    name = network.parties[1 - rank]
    waits: dict[str, Any] = {"patience": network.patience, "timeout": network.timeout}
    if rank == 1:
        return connect(network.meeting, credentials, name, **waits)
    with listen(network.meeting, credentials) as listener:
        return listener.accept(name, **waits)


def run_dealer(
    listener: Listener, parties: tuple[str, str], *, sessions: int | None = None, patience: float | None = None
) -> None:
    """Serve one session after another, `sessions` of them or until interrupted.

    A party that comes twice replaces its first connection; strangers, and parties that vanish, are logged and end
    nothing but themselves. With `patience`, PeerTimeout after so many seconds without both parties.
    """
    leave_no_core_dump()
    keep_freed_memory()
    served = 0
    while sessions is None or served < sessions:
        first, second = _both(listener, parties, patience)
        with first, second:
            try:
                log.info("dealt %d requests to %s and %s", serve(first, second), *parties)
            except PeerFailure as failure:
                log.warning("session ended early: %s", failure)
        served += 1


def _both(listener: Listener, parties: tuple[str, str], patience: float | None) -> tuple[Channel, Channel]:
    waiting: dict[str, Channel] = {}
    while len(waiting) < 2:
        try:
            channel = listener.accept(*parties, patience=patience or _LOOK)
        except PeerTimeout:
            if patience is not None:
                raise
            continue
        except PeerFailure as failure:
            log.warning("turned a connection away: %s", failure)
            continue
        if channel.peer in waiting:
            waiting.pop(channel.peer).close()
        waiting[channel.peer] = channel
    return waiting[parties[0]], waiting[parties[1]]
