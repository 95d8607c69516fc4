"""A worker: a process that an engine starts for one party, and that connects to its peer worker over mutual TLS.

Messages between the lead and its workers stay inside the party; they are sent as bytes, so that arrays arrive as
writable arrays.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from mpc.errors import ConfigError
from mpc.host.process import keep_freed_memory, leave_no_core_dump
from protocols.runtime.hosts import Network, joined
from protocols.runtime.workers.worker_party import Site
from protocols.transport.certificates import Credentials
from protocols.transport.tcp import Address, Listener, listen

# The first and the last port of a range.
Ports = tuple[int, int]


class Worker:
    """A worker of party `rank`, which loads `credentials` on its machine. Call `listen` (party 0) and `meet` first."""

    def __init__(self, rank: int, credentials: Callable[[], Credentials]) -> None:
        keep_freed_memory()
        leave_no_core_dump()
        self._rank, self._credentials = rank, credentials()
        self._listener: Listener | None = None
        self._stack = ExitStack()
        self._site: Site | None = None

    def listen(self, host: str, ports: Ports | None = None) -> Address:
        """Listen for the peer, at party 0, at a free one of `ports` or any free port; return the address.

        Raises ConfigError.
        """
        self._listener = _listening(host, ports, self._credentials)
        return self._listener.address

    def listen_at_node(self, ports: Ports | None = None) -> Address:
        """Listen in the same way at Ray's address of this machine."""
        import ray

        host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        return self.listen(host, ports)

    def meet(self, network: Network) -> None:
        """Connect with the peer, and with the dealer if any. Raises what `protocols.runtime.hosts.run_party` raises."""
        met = joined(network, self._rank, self._credentials, listener=self._listener)
        self._site = Site(self._stack.enter_context(met))

    def perform(self, call: bytes, planned: str, *own: bytes) -> tuple[bool, bytes]:
        """Run `call`, which is (program, given) as packed by `packed`; return True and the packed answer."""
        program, given = pickle.loads(call)
        answer = self._there.perform(program, [*given, *map(pickle.loads, own)], planned)
        return True, packed(answer)

    def provide(self, plan: bytes) -> None:
        """Request the randomness for a plan, as packed by `packed`."""
        self._there.provide(pickle.loads(plan))

    def costs(self) -> dict[str, Any]:
        """Return `Site.costs`."""
        return self._there.costs()

    def close(self) -> None:
        """End the session with the peer."""
        self._stack.close()

    @property
    def _there(self) -> Site:
        assert self._site is not None, "a worker must meet its peer first"
        return self._site


def packed(value: Any) -> bytes:
    """Pack a message between a lead and its workers."""
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def _listening(host: str, ports: Ports | None, credentials: Credentials) -> Listener:
    if ports is None:
        return listen((host, 0), credentials)
    first, last = ports
    for port in range(first, last + 1):
        try:
            return listen((host, port), credentials)
        except ConfigError as error:
            refused = error
    raise ConfigError(f"no port from {first} to {last} is free for a worker: {refused}")
