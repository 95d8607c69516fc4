"""Run a second party and a dealer in separate processes, so that a benchmark times party 0's side of an operation.

In `Pair.prepare`, both parties share inputs and the dealer fulfils the plan, timed separately; then the operation runs.
If an operation fails at either party, the parties are out of step, so the pair ends; the next operation has a new one.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from benchmarks.cores import CORES, keep_to, let_go
from benchmarks.plain import plain_channel
from mpc.endpoint import ROUND_PRICE
from mpc.errors import PeerFailure
from mpc.host.process import keep_freed_memory
from mpc.party import Party
from mpc.planning import provide, rehearse
from protocols.offline.dealer.client import FromDealer
from protocols.offline.dealer.server import serve
from protocols.transport.certificates import Credentials, make_credentials
from protocols.transport.channel import Channel
from protocols.transport.tcp import Listener, connect

# An operation: the party and a size -> the function to run online.
Operation = Callable[[Party, int], Callable[[Party], Any]]
Operations = Mapping[str, Operation]
# Not forked: a new pair may start after CrypTen has started torch's threads in this process.
_SPAWN = multiprocessing.get_context("spawn")
NAMES = ("party_a", "party_b", "dealer")
_PAIRS = ((0, 1), (0, 2), (1, 2))
_PATIENCE = 60.0  # seconds for the other processes to start


@dataclass(frozen=True)
class _Wiring:
    """How three processes on this machine reach each other: a listening socket for each two of them."""

    servers: dict[tuple[int, int], socket.socket]
    credentials: Mapping[str, Credentials]
    plain: bool
    cores: list[int]

    def channel(self, me: int, peer: int) -> Channel:
        server = self.servers[min(me, peer), max(me, peer)]
        if self.plain:
            server.settimeout(_PATIENCE)
            connection = server.accept()[0] if me < peer else socket.create_connection(server.getsockname())
            return plain_channel(connection, NAMES[peer])
        own = self.credentials[NAMES[me]]
        if me < peer:
            return Listener(server, own.context(server=True)).accept(NAMES[peer])
        return connect(server.getsockname(), own, NAMES[peer])


class _Side:
    """One of the two parties."""

    def __init__(self, rank: int, wiring: _Wiring, operations: Operations) -> None:
        self._operations = operations
        self._link = wiring.channel(rank, 1 - rank)
        self._dealer = wiring.channel(rank, 2)
        self._randomness = FromDealer(rank, self._dealer)
        self.party = Party(rank, self._link, self._randomness, round_price=ROUND_PRICE)

    def ready(self, name: str, size: int) -> tuple[Callable[[Party], Any], dict[str, float]]:
        party = self.party
        run = self._operations[name](party, size)
        demand = rehearse(party, run)
        received = self._randomness.received
        party.exchange_public("benchmark.start", None)
        facts = {"started": time.perf_counter()}
        provide(party, [demand])
        self._randomness.settle()
        facts["ended"] = time.perf_counter()
        party.exchange_public("benchmark.ready", None)
        facts |= {
            "offline_bytes": self._randomness.received - received,
            "rounds": demand.rounds,
            "online_bytes": demand.sent + demand.received,
        }
        return run, facts

    def close(self) -> None:
        self._link.close()
        self._dealer.close()


def _dealer(wiring: _Wiring) -> None:
    # With two cores, it runs on party 0's core, which waits meanwhile, while party 1 receives from the dealer.
    keep_to(2, wiring.cores)
    keep_freed_memory()
    serve(wiring.channel(2, 0), wiring.channel(2, 1))


def _second(wiring: _Wiring, operations: Callable[[], Operations], commands: Connection) -> None:
    """Play party 1: for each command send the facts of its preparation, and an error or None after its run.

    After an error this process ends, and with it party 0's wait for it.
    """
    keep_to(1, wiring.cores)
    keep_freed_memory()
    side = _Side(1, wiring, operations())
    try:
        while True:
            run, facts = side.ready(*commands.recv())
            commands.send(facts)
            run(side.party)
            commands.send(None)
    except EOFError:
        return
    except Exception as error:
        commands.send(f"{type(error).__name__}: {error}")
        raise SystemExit(1) from None


class Pair:
    """Party 0 in this process, party 1 and the dealer in two others, which know the `operations` by name.

    `operations` is a function of a module, which the other processes import. The parties communicate over TLS, or over
    plain sockets like CrypTen.
    """

    def __init__(self, operations: Callable[[], Operations], plain: bool = False) -> None:
        keep_freed_memory()
        self._operations, self._plain = operations, plain
        self._children: list[BaseProcess] = []
        self._side: _Side | None = None
        self._running = False

    def _start(self) -> _Side:
        servers = {pair: socket.create_server(("127.0.0.1", 0)) for pair in _PAIRS}
        wiring = _Wiring(servers, make_credentials(NAMES), self._plain, CORES)
        self._commands, theirs = _SPAWN.Pipe()
        self._children = [
            _SPAWN.Process(target=_second, args=(wiring, self._operations, theirs), daemon=True),
            _SPAWN.Process(target=_dealer, args=(wiring,), daemon=True),
        ]
        let_go()
        for child in self._children:
            child.start()
        theirs.close()
        keep_to(0, CORES)
        self._side = _Side(0, wiring, self._operations())
        for server in servers.values():
            server.close()
        return self._side

    @property
    def party(self) -> Party:
        """Party 0, once an operation has been prepared."""
        assert self._side is not None, "nothing is prepared"
        return self._side.party

    @contextmanager
    def _ends_with_an_error(self) -> Iterator[None]:
        """End the pair if the block fails; raise party 1's error where that is why party 0 failed."""
        try:
            yield
        except BaseException as error:
            theirs = self._last_words() if isinstance(error, PeerFailure) else None
            self.close()
            if theirs:
                raise RuntimeError(f"{NAMES[1]}: {theirs}") from error
            raise

    def _last_words(self) -> str | None:
        with suppress(EOFError, OSError):
            while self._commands.poll(1):
                said = self._commands.recv()
                if isinstance(said, str):
                    return said
        return None

    def prepare(self, name: str, size: int) -> tuple[Callable[[], Any], dict[str, float]]:
        """Prepare both parties for one run; return what starts it here, and rounds, bytes and offline seconds."""
        self.settle()
        with self._ends_with_an_error():
            side = self._side or self._start()
            self._commands.send((name, size))
            run, facts = side.ready(name, size)
            theirs = self._commands.recv()
            if isinstance(theirs, str):
                raise RuntimeError(f"{NAMES[1]}: {theirs}")
        # One clock for all processes of a machine: from the first start to the last end.
        started, ended = min(facts.pop("started"), theirs["started"]), max(facts.pop("ended"), theirs["ended"])
        facts["offline_seconds"] = ended - started
        facts["offline_bytes"] += theirs["offline_bytes"]

        def play() -> Any:
            self._running = True
            with self._ends_with_an_error():
                return run(side.party)

        return play, facts

    def settle(self) -> None:
        """Wait for party 1 to end the last run, and raise its error if it failed. `prepare` begins with this."""
        if self._running:
            with self._ends_with_an_error():
                self._running = False
                if error := self._commands.recv():
                    raise RuntimeError(f"{NAMES[1]}: {error}")

    def close(self) -> None:
        """End the processes; a later `prepare` starts new ones."""
        let_go()
        for child in self._children:
            child.kill()
            child.join()
        if self._side:
            self._side.close()
        self._children, self._side, self._running = [], None, False
