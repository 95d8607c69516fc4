"""A party's workers on Ray: each party has its own cluster; none spans both.

The lead uses the Ray that is running, or starts it on this machine. Worker i of party 0 listens on its machine; its
lead sends the address to the other lead, and worker i of party 1 connects to it. Both workers name the shard, the
number of shards, and the session of the leads, so that workers of different shards or jobs refuse each other.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from mpc.endpoint import Call, Endpoint, Program
from mpc.errors import ConfigError, PeerFailure, ProtocolDesync, WorkersLost
from protocols.runtime.hosts import Network
from protocols.runtime.workers.pulse import Pulses, start_counting
from protocols.runtime.workers.ray_cluster import ray_cluster
from protocols.runtime.workers.worker import Ports, Worker, packed
from protocols.transport.certificates import Credentials

log = logging.getLogger("sharewood")
_ATTEMPTS = 4
_ENDING = 10.0
# Seconds between two looks whether the workers that are awaited still run.
_LOOK = 1.0


class RayWorker(Worker):
    """A worker whose lead sees that it runs: it counts in Ray's store under `pulse`."""

    def __init__(self, rank: int, credentials: Callable[[], Credentials], pulse: str, timeout: float) -> None:
        start_counting(pulse, timeout)
        super().__init__(rank, credentials)


@contextmanager
def with_workers(
    party: Endpoint,
    count: int,
    network: Network,
    host: str | None,
    credentials: Callable[[], Credentials],
    ports: Ports | None = None,
) -> Iterator[RayWorkers]:
    """Give a party workers for the length of the block; the other party must do so at the same time.

    Workers of party 0 listen at `host`; if that is None, at Ray's address of their node. `ports` are the first and the
    last port at which they may listen. Ray is started on this machine if it is not running.
    """
    with ray_cluster(workers=count):
        workers = RayWorkers(party.rank, count, network, host, credentials, ports)
        try:
            workers.start(party)
            party.workers = workers
            yield workers
            workers.close()
        finally:
            party.workers = None
            workers.kill()


class RayWorkers:
    """Implements `mpc.endpoint.Workers` by Ray actors."""

    def __init__(
        self,
        rank: int,
        count: int,
        network: Network,
        host: str | None,
        credentials: Callable[[], Credentials],
        ports: Ports | None = None,
    ) -> None:
        self.count = count
        self._rank, self._network, self._host, self._credentials = rank, network, host, credentials
        self._ports = ports
        self._pulses: list[str] = []
        self._actors: list[Any] = []
        self._pending: list[Any] = []

    def start(self, party: Endpoint) -> None:
        """Start all workers and connect them with their peers. Raises PeerFailure if a peer does not connect."""
        for left in reversed(range(_ATTEMPTS)):
            try:
                return self._start(party)
            except WorkersLost as lost:
                self.kill()
                if not left:
                    raise
                log.warning("%s: trying again", lost)

    def restart(self, party: Endpoint) -> None:
        self.kill()
        self.start(party)

    def each(
        self, program: Program, given: tuple[Any, ...], own: Sequence[tuple[Any, ...]], planned: str, keep: bool
    ) -> list[Any]:
        import ray

        call = ray.put(packed((program, given)))
        refs = []
        for actor, mine in zip(self._actors, own or [()] * self.count, strict=True):
            parts = [part if isinstance(part, ray.ObjectRef) else packed(part) for part in mine]
            refs.append(actor.perform.options(num_returns=2).remote(call, planned, *parts))
        pending, self._pending = self._pending, []
        self._gather([*pending, *(done for done, _ in refs)])
        answers = [answer for _, answer in refs]
        return answers if keep else self.fetch(answers)

    def fetch(self, kept: Sequence[Any]) -> list[Any]:
        import pickle

        return [pickle.loads(part) for part in self._gather(kept)]

    def provide(self, plan: Sequence[tuple[Sequence[Call], int]]) -> None:
        import ray

        if plan:
            asked = ray.put(packed(plan))
            self._pending += [actor.provide.remote(asked) for actor in self._actors]

    def costs(self) -> list[dict[str, Any]]:
        """Return `Site.costs` of every worker so far. Raises WorkersLost."""
        return self._gather([actor.costs.remote() for actor in self._actors])

    def close(self) -> None:
        """End the sessions of all workers, once they are done."""
        import ray

        ray.wait([actor.close.remote() for actor in self._actors], num_returns=self.count, timeout=_ENDING)

    def kill(self) -> None:
        """Kill all workers, whatever they are doing."""
        import ray

        for actor in self._actors:
            with suppress(Exception):
                ray.kill(actor)
        self._actors, self._pending = [], []

    def _start(self, party: Endpoint) -> None:
        import ray

        places: list[list[Any]] | None = []
        token = secrets.token_hex(16)
        who = self._network.parties[self._rank]
        # Names for Ray's dashboard, unique to a job and a start.
        names = [f"{who}, shard {i} of {self.count}, {token[:8]}" for i in range(self.count)]
        remote = ray.remote(RayWorker)
        self._pulses = names
        self._actors = [
            remote.options(num_cpus=1, max_restarts=0, name=name).remote(
                self._rank, self._credentials, name, self._network.timeout
            )
            for name in names
        ]
        if self._rank == 0:
            try:
                places = [list(place) for place in self._gather([self._listening(actor) for actor in self._actors])]
            except WorkersLost:
                places = None
        mine = {"count": self.count, "token": token, "places": places}
        theirs = party.exchange_public("workers.start", mine)
        found = places if self._rank == 0 else _checked(theirs, self.count)
        if theirs["count"] != self.count:
            raise ConfigError(f"the parties disagree on shards: {self.count} here, {theirs['count']} at the peer")
        failure: PeerFailure | ConfigError | None = None
        if found is not None:
            both = (token, theirs["token"]) if self._rank == 0 else (theirs["token"], token)
            network = replace(self._network, shards=self.count, leads="".join(both))
            try:
                self._gather(
                    [
                        actor.meet.remote(replace(network, shard=i, meeting=(str(host), int(port))))
                        for i, (actor, (host, port)) in enumerate(zip(self._actors, found, strict=True))
                    ]
                )
            except (PeerFailure, ConfigError) as error:
                failure = error
        there = party.exchange_public("workers.met", found is not None and failure is None)
        if failure is not None and not isinstance(failure, WorkersLost):
            raise failure
        if failure is not None or there is not True or found is None:
            raise failure or WorkersLost("workers of the two parties did not connect")

    def _listening(self, actor: Any) -> Any:
        if self._host is not None:
            return actor.listen.remote(self._host, self._ports)
        return actor.listen_at_node.remote(self._ports)

    def _gather(self, refs: Sequence[Any]) -> list[Any]:
        """Return the answers.

        Raises what a worker has raised, ConfigError if a worker cannot start, and WorkersLost if a worker or its peer
        has ended. A worker that is frozen is killed.
        """
        import ray

        waiting, pulses = list(refs), Pulses(self._pulses, self._network.timeout)
        while waiting:
            _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=_LOOK)
            for shard in pulses.frozen() if waiting else ():
                ray.kill(self._actors[shard])
        answers, failures, lost = [], list[Exception](), list[Exception]()
        for i, ref in enumerate(refs):
            shard = i % self.count
            try:
                answers.append(ray.get(ref))
            except ray.exceptions.RayTaskError as error:
                cause = error.cause
                if isinstance(cause, PeerFailure):
                    lost.append(WorkersLost(f"shard {shard}: {cause}"))
                else:
                    failures.append(cause if isinstance(cause, Exception) else error)
            except ray.exceptions.RayActorError as error:
                if error.actor_init_failed:
                    why = str(error).strip().splitlines()[-1].removeprefix("mpc.errors.ConfigError: ")
                    failures.append(ConfigError(f"shard {shard}: its worker cannot start on its machine: {why}"))
                else:
                    lost.append(WorkersLost(f"shard {shard}: its worker has ended"))
            except ray.exceptions.RayError as error:
                failures.append(PeerFailure(f"shard {shard}: Ray has lost the worker's data: {error}"))
        for failure in (*failures, *lost):
            raise failure
        return answers


def _checked(told: Any, count: int) -> list[list[Any]] | None:
    """Return where the workers of party 0 listen; None if some do not. Raises ProtocolDesync."""
    if not isinstance(told, dict) or told.keys() != {"count", "token", "places"} or type(told["count"]) is not int:
        raise ProtocolDesync("the other party must send its number of workers and their addresses")
    places = told["places"]
    if places is None or told["count"] != count:
        return None
    fits = isinstance(places, list) and len(places) == count
    if not fits or any(
        not isinstance(place, list) or [type(part) for part in place] != [str, int] or not 0 < place[1] < 65536
        for place in places
    ):
        raise ProtocolDesync("the other party must send an address for each of its workers")
    return places
