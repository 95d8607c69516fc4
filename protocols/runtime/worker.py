"""A worker: a process that an engine starts for one party, and that meets its peer worker over mutual TLS by itself.

What the lead and its workers tell each other stays inside the party; it crosses as bytes, so that arrays arrive as
arrays that can be written.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from mpc.process import leave_no_core_dump
from protocols.runtime.hosts import Network, joined
from protocols.runtime.memory import keep_freed_memory
from protocols.runtime.site import Site
from protocols.transport.certificates import Credentials
from protocols.transport.tcp import Address, Listener, listen


class Worker:
    """Of party `rank`; `credentials` are loaded where it runs. To be used in this order: listen, meet, the rest."""

    def __init__(self, rank: int, credentials: Callable[[], Credentials]) -> None:
        keep_freed_memory()
        leave_no_core_dump()
        self._rank, self._credentials = rank, credentials()
        self._listener: Listener | None = None
        self._stack = ExitStack()
        self._site: Site | None = None

    def listen(self, host: str) -> Address:
        """Party 0 waits for its peer here."""
        self._listener = listen((host, 0), self._credentials)
        return self._listener.address

    def listen_at_node(self) -> Address:
        """The same, at the address by which Ray knows this machine."""
        import ray

        host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        return self.listen(host)

    def meet(self, network: Network) -> None:
        """Connect with the peer, and for correlated randomness. Raises as `protocols.runtime.hosts.run_party`."""
        met = joined(network, self._rank, self._credentials, listener=self._listener)
        self._site = Site(self._stack.enter_context(met))

    def perform(self, call: bytes, planned: str, *own: bytes) -> tuple[bool, bytes]:
        """Run what `packed` has made of (program, given); True and its answer, packed."""
        program, given = pickle.loads(call)
        answer = self._there.perform(program, [*given, *map(pickle.loads, own)], planned)
        return True, packed(answer)

    def provide(self, plan: bytes) -> None:
        """Ask for what calls take."""
        self._there.provide(pickle.loads(plan))

    def costs(self) -> dict[str, Any]:
        """As of `Site.costs`."""
        return self._there.costs()

    def close(self) -> None:
        """Part from the peer."""
        self._stack.close()

    @property
    def _there(self) -> Site:
        assert self._site is not None, "a worker meets its peer first"
        return self._site


def packed(value: Any) -> bytes:
    """What crosses between a lead and its workers."""
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
