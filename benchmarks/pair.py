"""Run a second party and a dealer in separate processes, so that a benchmark times party 0's side of an operation.

In `Pair.prepare`, both parties share inputs and the dealer fulfils the plan, timed separately; then the operation runs.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.cores import CORES, keep_to, let_go
from benchmarks.plain import plain_channel
from mpc.party import Party
from mpc.tracing import Trace
from protocols.randomness.dealer import serve
from protocols.randomness.dealt import DealtRandomness
from protocols.runtime.memory import keep_freed_memory
from protocols.transport.certificates import Credentials, make_credentials
from protocols.transport.channel import Channel
from protocols.transport.tcp import Listener, connect

# An operation: the party and a size -> the function to run online.
Operation = Callable[[Party, int], Callable[[Party], Any]]
_FORK = multiprocessing.get_context("fork")
NAMES = ("party_a", "party_b", "dealer")


class Pair:
    """Party 0 in this process, party 1 and the dealer in two others; `operations` are known to both by name.

    They communicate over TLS, or over plain sockets like CrypTen.
    """

    def __init__(self, operations: dict[str, Operation], plain: bool = False) -> None:
        keep_freed_memory()  # the children inherit it
        self._operations = operations
        credentials = make_credentials(NAMES)
        servers = {pair: socket.create_server(("127.0.0.1", 0)) for pair in ((0, 1), (0, 2), (1, 2))}

        def channel(me: int, peer: int) -> Channel:
            server = servers[min(me, peer), max(me, peer)]
            if plain:
                connection = server.accept()[0] if me < peer else socket.create_connection(server.getsockname())
                return plain_channel(connection, NAMES[peer])
            own: Credentials = credentials[NAMES[me]]
            if me < peer:
                return Listener(server, own.context(server=True)).accept(NAMES[peer])
            return connect(server.getsockname(), own, NAMES[peer])

        self._commands, receiver = _FORK.Pipe()
        self._children = [
            _FORK.Process(target=self._second, args=(channel, receiver), daemon=True),
            _FORK.Process(target=self._dealer, args=(channel,), daemon=True),
        ]
        for child in self._children:
            child.start()
        keep_to(0, CORES)
        link = channel(0, 1)
        self.party = Party(0, link, DealtRandomness(0, channel(0, 2)))

    def _dealer(self, channel: Callable[[int, int], Channel]) -> None:
        # With two cores, it runs on party 0's core, which waits meanwhile, while party 1 receives from the dealer.
        keep_to(2, CORES)
        serve(channel(2, 0), channel(2, 1))

    def _second(self, channel: Callable[[int, int], Channel], receiver: Any) -> None:
        keep_to(1, CORES)
        link = channel(1, 0)
        party = Party(1, link, DealtRandomness(1, channel(1, 2)))
        while True:
            name, size, by = receiver.recv()
            run, facts = self._ready(party, name, size, by)
            receiver.send(facts)
            run(party)

    def _ready(self, party: Party, name: str, size: int, by: str) -> tuple[Callable[[Party], Any], dict[str, float]]:
        party.comparison = by  # type: ignore[assignment]
        run = self._operations[name](party, size)
        trace = Trace(party)
        run(trace.party)
        received = party.randomness.received
        party.exchange_public("benchmark.start", None)
        facts = {"started": time.perf_counter()}
        party.randomness.provide([(trace.cut(), 1)])
        party.randomness.settle()
        facts["ended"] = time.perf_counter()
        party.exchange_public("benchmark.ready", None)
        total = trace.party.meter.total
        facts |= {
            "offline_bytes": party.randomness.received - received,
            "rounds": total.rounds,
            "online_bytes": (total.sent + total.received) // 8,
        }
        return run, facts

    def prepare(self, name: str, size: int, by: str = "bits") -> tuple[Callable[[], Any], dict[str, float]]:
        """Prepare both parties for one run; return what starts it here, and rounds, bytes and offline seconds."""
        self._commands.send((name, size, by))
        run, facts = self._ready(self.party, name, size, by)
        theirs = self._commands.recv()
        # One clock for all processes of a machine: from the first start to the last end.
        started, ended = min(facts.pop("started"), theirs["started"]), max(facts.pop("ended"), theirs["ended"])
        facts["offline_seconds"] = ended - started
        facts["offline_bytes"] += theirs["offline_bytes"]
        return lambda: run(self.party), facts

    def close(self) -> None:
        let_go()
        for child in self._children:
            child.terminate()
            child.join()


def random_words(party: Party, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    """Return the same generated integers at both parties."""
    return np.random.default_rng(5).integers(low, high, shape)
