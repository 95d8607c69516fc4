"""Audit of local work: each party repeats what it computes by itself, and checks that its memory has not changed.

Functionality  a program -> its result; in an audit, for every stage, whether a second run gives its protocols, and in
               the end its caller, the same words as the first
Messages       none: in the second run, protocols return the recorded results of the first, in the same order
Finds          any word that changes between protocols in one of the runs, or in memory between programs: a fault of an
               adder, a copy or a memory cell. An error that both runs make, as a wrong program does, is not found
Source         time redundancy, as in fault-tolerant computing; here the second run needs no peer
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mpc.checks.audit import FIRST_STAGE, Ledger, Recorded, digest_of
from mpc.party import Party
from mpc.planning import silent
from mpc.protocol.rehearsal import Requests
from mpc.rounds import Round, Steps
from mpc.shares import Share

T = TypeVar("T")
LOCAL_WORK = "repeated local work gives the same words"


def run_twice(party: Party, audit: Ledger, program: Callable[..., T], *changed: Any) -> T:
    """Return program(party, *changed), and repeat its local work on copies of what it changes."""
    before = [copy.copy(each) for each in changed]
    outer, audit.record = audit.record, [] if audit.record is None else audit.record
    start, stage = len(audit.record), audit.stage
    try:
        result = program(party, *changed)
        repetition = _Repetition(stage=stage, of=audit, rest=deque(audit.record[start:]))
    finally:
        audit.record = outer
    requests = Requests(party.rank, party.randomness.has_dealer)
    second = program(silent(party, requests, repetition, live=party.live), *before)
    audit.require(f"{repetition.last}: {LOCAL_WORK}", digest_of(result) == digest_of(second))
    return result


@dataclass
class _Repetition(Ledger):
    """The audit `of` a program during its second run: protocols must get the input that they got in the first.

    `rest` is the record of the first run that is still to come, and `last` the stage of its latest protocol.
    """

    last: str = FIRST_STAGE
    of: Ledger = field(default_factory=Ledger)
    rest: deque[Recorded] = field(default_factory=deque)

    def once(self, make: Callable[[], T]) -> T:
        made: T = self.rest.popleft().result
        return made

    def recorded(self, name: str, given: Any, steps: Steps[T]) -> Steps[T]:
        steps.close()
        entry = self.rest.popleft()
        assert entry.name == name, f"the second run calls {name}, the first called {entry.name}"
        self.last = self.stage
        self.of.require(f"{self.last}: {LOCAL_WORK}", entry.given == digest_of(given))
        for _ in range(entry.rounds):
            yield Round([], [])
        result: T = entry.result
        return result

    def zero(self, x: Share, relation: str, bits: int | None = None) -> None:
        pass

    def settle(self, party: Party) -> None:
        pass

    def later(self, check: Steps[Share], relation: str) -> None:
        check.close()
