"""Two parties on this machine, with or without a dealer: a process for each, and TLS between every two."""

from __future__ import annotations

import hashlib
import itertools
import logging
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Never

import numpy as np

from mpc.checks.verdict import begin
from mpc.errors import ConfigError
from mpc.host.process import bound_memory, end_with
from mpc.operators import session
from mpc.party import Party
from protocols.offline.dealer.client import FromDealer
from protocols.offline.dealer.server import SEED_BYTES, serve
from protocols.offline.pairwise.client import FromPeer, pairwise
from protocols.offline.pairwise.known_transfers import local_pair
from protocols.offline.supply import AHEAD
from protocols.ot.correlated import OtKind
from protocols.runtime.dealer_host import run_dealer
from protocols.runtime.hosts import Network
from protocols.runtime.processes import SECOND, Role, run_processes
from protocols.runtime.removed import refuse_removed
from protocols.runtime.settings import FROM_DEALER, Link, Maker, Offline, check_together, price_of
from protocols.runtime.workers.ray_cluster import check_shards
from protocols.runtime.workers.ray_workers import with_workers
from protocols.transport.certificates import Credentials, make_credentials
from protocols.transport.channel import Channel
from protocols.transport.tcp import Address, Listener, listen

PARTIES = ("party_a", "party_b")
DEALER = "dealer"
_HERE = "127.0.0.1"
# Bits per second of a line that is never full.
_UNLIMITED = 1e12
_FORK = multiprocessing.get_context("fork")

log = logging.getLogger("sharewood")

Job = Callable[[Party], Any]
# What someone who is no party does with its lines to both parties.
Play = Callable[[Sequence[Channel]], Any]
# A table (X, y) or (X, y, weights), or what the owner does.
Owner = tuple[Any, ...] | Play
# Rows to predict, or what the client does.
Client = Any | Play


@dataclass(frozen=True)
class LocalWorkers:
    """Rows divided among workers: how many, their credentials, and where a dealer for them listens."""

    shards: int
    credentials: dict[str, Credentials]
    dealer: Address | None

    def network(self, offline: Offline) -> Network:
        """Return the network of two workers; each pair has its own address."""
        return Network(PARTIES, (_HERE, 1), self.dealer, offline=offline)


def party_role(
    rank: int,
    job: Job,
    offline: Offline = FROM_DEALER,
    audit: bool = False,
    division: LocalWorkers | None = None,
    seed: int | None = None,
    owners: Collection[str] = (),
    clients: Collection[str] = (),
    link: Link | None = None,
) -> Role:
    """Return the role of party `rank`, which runs `job(party)` with its peer, and the dealer, owners and clients."""
    draw = _drawing(seed, PARTIES[rank])

    def play(channels: dict[str, Channel]) -> Any:
        name = PARTIES[1 - rank]
        peer = channels[name]
        randomness: FromDealer | FromPeer
        if offline.pairwise and seed is not None:
            shared = _drawing(seed, "both")(32)
            randomness = local_pair(rank, channels[name + SECOND], shared, draw(SEED_BYTES), peer)
        elif offline.pairwise:
            randomness = pairwise(rank, channels[name + SECOND], offline.ot, peer)
        else:
            randomness = FromDealer(rank, channels[DEALER], peer, draw=draw)
        given, asking = ({name: channels[name] for name in names} for names in (owners, clients))
        price = price_of(link)
        this = Party(rank, peer, randomness, round_price=price, draw=draw, contributed=given, clients=asking)
        with session(this) as party:
            if audit:
                begin(party)
            if division is None:
                result, costs = job(party), {}
            else:
                network, own = division.network(offline), division.credentials[PARTIES[rank]]
                with with_workers(party, division.shards, network, _HERE, partial(replace, own)) as workers:
                    result = job(party)
                    costs = {"workers": workers.costs()}
            party.audit.settle(party)
        randomness.close()
        return {"result": result, **costs, **_process()}

    return play


def dealer_role(channels: dict[str, Channel], seed: int | None = None) -> Any:
    """Run the dealer, in its own process, with bounded memory as on the dealer's host.

    It deals ahead, so it runs at a lower priority than the parties on the same machine.
    """
    bound_memory()
    os.nice(AHEAD)
    dealt = serve(channels[PARTIES[0]], channels[PARTIES[1]], draw=_drawing(seed, DEALER))
    return {"result": dealt, **_process()}


def _drawing(seed: int | None, who: str) -> Callable[[int], bytes]:
    """Return the source of someone's random bytes: the system's or, to repeat a run, a hash of the seed."""
    if seed is None:
        return os.urandom
    count = itertools.count()

    def draw(size: int) -> bytes:
        return hashlib.shake_256(f"sharewood, repeated run {seed}, {who}, {next(count)}".encode()).digest(size)

    return draw


def _process() -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"pid": os.getpid(), "memory_peak_bytes": peak, "cpu_seconds": time.process_time()}


def run_session(
    job: Job,
    *,
    timeout: float | None = None,
    offline: Offline = FROM_DEALER,
    audit: bool = False,
    shards: int = 0,
    round_trip: float = 0.0,
    rate: float | None = None,
    seed: int | None = None,
    owners: Mapping[str, Owner] | None = None,
    clients: Mapping[str, Client] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run `job` at both parties, and `owners` and `clients` beside them; return each process's result, pid, peak
    memory, CPU seconds, and `workers`, if any.
    """
    line = None if not round_trip and rate is None else Link(round_trip, _UNLIMITED if rate is None else rate)
    if shards and line:
        raise ConfigError("round_trip and rate shape the line of one process at each party: leave out shards")
    if seed is not None:
        if shards:
            raise ConfigError("seed repeats runs with one process at each party: leave out shards")
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
            raise ConfigError(f"seed must be an integer, got {seed!r}")
        log.warning("seed=%d: whoever knows the seed knows all shares of this run; for tests and notebooks only", seed)
    check_together(offline, shards, audit)
    with _divided(shards, offline) as division:
        names = tuple(owners or ()), tuple(clients or ())
        if taken := sorted({*names[0]} & {*names[1]} | {*names[0], *names[1]} & {*PARTIES, DEALER}):
            raise ConfigError(f"owners and clients must have names of their own, got {', '.join(taken)} twice")
        roles = {PARTIES[rank]: party_role(rank, job, offline, audit, division, seed, *names, line) for rank in (0, 1)}
        roles |= {name: partial(_play, _owner(owner)) for name, owner in (owners or {}).items()}
        roles |= {name: partial(_play, _client(client)) for name, client in (clients or {}).items()}
        if not offline.pairwise:
            roles[DEALER] = partial(dealer_role, seed=seed)
        return run_processes(roles, timeout=timeout, second=offline.pairwise, line=line)


def _owner(owner: Owner) -> Play:
    """Return what an owner does: contribute a table, if that is what it is."""
    if callable(owner):
        return owner
    from secure_tree.owners.contributing import contribute

    table = owner
    return lambda lines: contribute(lines, *table)


def _client(client: Client) -> Play:
    """Return what a client does: ask for predictions of rows, if that is what it is."""
    if callable(client):
        play: Play = client
        return play
    from secure_tree.prediction.client import ask

    return lambda lines: ask(lines, client)


def _play(play: Play, channels: dict[str, Channel]) -> Any:
    return {"result": play([channels[name] for name in PARTIES]), **_process()}


@contextmanager
def _divided(shards: int, offline: Offline) -> Iterator[LocalWorkers | None]:
    """Provide what workers of both parties on this machine need: certificates, and a dealer that serves every pair."""
    if not shards:
        yield None
        return
    check_shards("shards", shards)
    _check_forkable()
    credentials = make_credentials((*PARTIES, DEALER))
    if offline.pairwise:
        yield LocalWorkers(shards, credentials, None)
        return
    with listen((_HERE, 0), credentials[DEALER]) as listener:
        process = _FORK.Process(target=_deal_to_workers, args=(listener, os.getpid()), daemon=False)
        process.start()
        try:
            yield LocalWorkers(shards, credentials, listener.address)
        finally:
            process.terminate()
            process.join()


def _check_forkable() -> None:
    """Raise ConfigError if this process has threads of gRPC: Ray never starts in a process forked from it."""
    if any(name.startswith(("grpc_", "event_engine", "gcs_client")) for name in _threads()):
        raise ConfigError(
            "shards need a process that has not used Ray or gRPC before, and this one has: run the job in a new process"
        )


def _deal_to_workers(listener: Listener, parent: int) -> None:
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("sharewood").setLevel(logging.ERROR)
    run_dealer(listener, PARTIES)


def _threads() -> Iterator[str]:
    """Yield the names of this process's threads, including those of libraries."""
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            yield (thread / "comm").read_text()


def run_local(
    job: Job,
    *,
    timeout: float | None = None,
    offline: Maker = "dealer",
    ot: OtKind = "ferret",
    audit: bool = False,
    shards: int = 0,
    round_trip: float = 0.0,
    rate: float | None = None,
    seed: int | None = None,
    owners: Mapping[str, Owner] | None = None,
    clients: Mapping[str, Client] | None = None,
    **removed: Never,
) -> tuple[Any, ...]:
    """Run `job(party)` in two forked party processes; return its result at each party.

    With `offline` "dealer", correlated randomness comes from a dealer process; with "pairwise", the two parties make
    it by oblivious transfers. These are "ferret", or "softspoken", which sends more bytes but does not rely on the
    hardness of LPN. With `audit` the parties check what they compute, and raise AuditFailure if it is inconsistent.

    With `shards`, each party starts its own Ray on this machine, and divides its rows among that many workers.

    With `round_trip` or `rate`, messages take as long as between hosts: `round_trip` seconds from one to the other and
    back, over one line per host that carries `rate` bits per second each way (None: any number), and protocols take
    the shape that suits such a line. Loss and slow start of TCP are not simulated.

    With `seed`, an integer, a run can be repeated on this machine, coins of rounding included: everything that is
    otherwise drawn at random, by the parties and the dealer, follows from the seed; with "pairwise", the oblivious
    transfers are simulated. This protects nothing, and there is no such option between hosts. For tests and notebooks.

    With `owners`, {name: (X, y)}, further processes contribute rows that no party knows. Inside the job,
    `party.contributed` has lines to them: `model.fit(party, X, y, contributed=party.contributed)` trains on them.

    With `clients`, {name: rows}, further processes ask for predictions, which nobody else learns. Inside the job,
    `model.predict_for(party, party.clients)` answers them. The third result is then what each client gets, by name:
    probabilities of classes, or numbers. Rows are an array, or columns by name.

    Inside the job the operators of mpc/operators.py use its party: `x * y`, `x @ y`, `x < y`, `x == y`. Results are
    returned through Sharewood's codec: plain values, lists, tuples, dicts and arrays; numpy's numbers become Python's.
    """
    refuse_removed(removed)
    outcome = run_session(
        job,
        timeout=timeout,
        offline=Offline(offline, ot),
        audit=audit,
        shards=shards,
        round_trip=round_trip,
        rate=rate,
        seed=seed,
        owners=owners,
        clients=clients,
        **removed,
    )
    results = tuple(outcome[name]["result"] for name in PARTIES)
    return (*results, {name: outcome[name]["result"] for name in clients}) if clients else results
