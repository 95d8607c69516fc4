"""Planning: rehearse a program on zeros, and provide the correlated randomness that it will take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mpc.endpoint import Audit, Call, Workers
from mpc.host.process import give_back_freed_memory
from mpc.offline.correlation import Correlation
from mpc.party import Party
from mpc.protocol.rehearsal import NoWorkers, Requests, Silence

T = TypeVar("T")


@dataclass(frozen=True)
class Demand:
    """What a step of a program takes, which is done `times` times: its requests and its calls of workers, in order.

    rounds, and payload bytes each way, of its party. matrices: how many known matrices it numbers. plans: the requests
    of each part that the program plans by itself.
    """

    requests: list[Correlation[object]]
    calls: list[Call]
    rounds: int
    sent: int
    received: int
    matrices: int
    times: int = 1
    step: str = ""
    plans: Sequence[Sequence[Correlation[object]]] = ()


class Rehearsal:
    """A rehearsal of the next steps of `like`: run programs on `party`, then `cut()` their demand.

    Only shapes matter: later programs may be given what earlier ones returned.
    """

    def __init__(self, like: Party) -> None:
        self._requests = Requests(like.rank, like.randomness.has_dealer)
        self._workers = NoWorkers(like.workers.count) if like.workers else None
        self.party = silent(like, self._requests, like.audit.anew(), self._workers)
        self._before = 0, 0, 0, like.matrices

    @classmethod
    def at(cls, rank: int, has_dealer: bool = True, round_price: int = 0) -> Rehearsal:
        """Return a rehearsal of party `rank` from its first step, before the party exists."""
        return cls(Party(rank, Silence(), Requests(rank, has_dealer), round_price=round_price))

    def cut(self, step: str = "", times: int = 1) -> Demand:
        """Return the demand since the last cut."""
        give_back_freed_memory()
        requests, self._requests.asked = self._requests.asked, []
        plans, self._requests.plans = self._requests.plans, []
        calls: list[Call] = []
        if self._workers:
            calls, self._workers.asked = self._workers.asked, []
        total = self.party.meter.total
        now = total.rounds, total.sent // 8, total.received // 8, self.party.matrices
        rounds, sent, received, matrices = (b - a for a, b in zip(self._before, now, strict=True))
        self._before = now
        return Demand(requests, calls, rounds, sent, received, matrices, times, step, plans)


def silent(
    like: Party, randomness: Requests, audit: Audit, workers: Workers | None = None, live: bool = False
) -> Party:
    """Return a party without a peer, at the place of another."""
    return Party(
        like.rank,
        Silence(),
        randomness,
        round_price=like.round_price,
        matrices=like.matrices,
        audit=audit,
        workers=workers,
        live=live,
    )


def rehearse(party: Party, program: Callable[[Party], object]) -> Demand:
    """Return the demand of the next step of `party`."""
    rehearsal = Rehearsal(party)
    program(rehearsal.party)
    return rehearsal.cut()


def provide(party: Party, plan: Sequence[Demand]) -> None:
    """Request the correlated randomness of these steps, of the party and of its workers, after earlier ones."""
    party.randomness.provide([(demand.requests, demand.times) for demand in plan])
    if party.workers:
        party.workers.provide([(demand.calls, demand.times) for demand in plan if demand.calls])


def planned(
    party: Party, stage: str, program: Callable[[Party], T], offline: str | None = None, own_verdicts: bool = False
) -> T:
    """Rehearse a program, provide the correlated randomness that it requests, and run it.

    Its costs are charged to `stage`; with `offline`, those of the provision are charged to that stage instead. In an
    audit the run ends with a verdict, unless the program takes its own, `own_verdicts`.
    """

    def run(party: Party) -> T:
        return program(party) if own_verdicts else party.audit.run(party, program)

    with party.stage(offline or stage):
        provide(party, [rehearse(party, run)])
    with party.stage(stage):
        return run(party)
