"""Planning: rehearse a program, and list the correlated randomness that it requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mpc.endpoint import Call
from mpc.offline.correlation import Correlation
from mpc.party import Party
from mpc.protocol.rehearsal import NoWorkers, Requests, Silence

T = TypeVar("T")


class Trace:
    """A rehearsal of the next steps of `party`: run programs on `trace.party`, then `cut()` the demand so far."""

    def __init__(self, party: Party) -> None:
        self._requests = Requests(party.rank, party.randomness.masks_operands)
        self._workers = NoWorkers(party.workers.count) if party.workers else None
        self.party = Party(
            party.rank,
            Silence(),
            self._requests,
            round_price=party.round_price,
            matrices=party.matrices,
            audit=party.audit.anew(),
            workers=self._workers,
            live=False,
        )

    @classmethod
    def at(cls, rank: int, masks_operands: bool = True) -> Trace:
        """Return a rehearsal of party `rank` from its first step, before the party exists."""
        return cls(Party(rank, Silence(), Requests(rank, masks_operands)))

    def cut(self) -> list[Correlation[object]]:
        """Return and clear the requests since the last cut."""
        requests, self._requests.asked = self._requests.asked, []
        return requests

    def cut_calls(self) -> list[Call]:
        """Return and clear the calls to workers since the last cut."""
        if self._workers is None:
            return []
        requests, self._workers.asked = self._workers.asked, []
        return requests


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
        trace = Trace(party)
        run(trace.party)
        party.randomness.provide([(trace.cut(), 1)])
    with party.stage(stage):
        return run(party)
