"""In an audit: what a party computes by itself, done twice, and what it keeps in memory, compared.

Functionality  a program -> its result; in an audit, for every stage, whether the program gives its protocols, and in
               the end its caller, the same words when it runs again
Messages       none: the second run takes from a record what protocols gave in the first, in the order in which it asks
Finds          whatever changes a word between protocols in one of the runs, or in memory between programs: an adder, a
               copy, a memory cell. What is wrong in the same way in both runs, as in a wrong program, it does not find
Source         time redundancy, as in fault-tolerant computing; here a second run needs no peer
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mpc.audit import FIRST_STAGE, Audit, Entry, digest_of
from mpc.endpoint import Endpoint
from mpc.party import Party
from mpc.rehearsal import Requests, Silence
from mpc.rounds import Round, Steps
from mpc.shares import Share

T = TypeVar("T")
LOCAL_WORK = "local work is the same when it is done again"


def twice(party: Party, program: Callable[..., T], *changed: Any) -> T:
    """program(party, *changed); in an audit its local work again, on copies of what it changes from before."""
    audit = party.audit
    if audit is None or audit.again:
        return program(party, *changed)
    again = _Again(stage=audit.stage, of=audit)
    before = [copy.copy(each) for each in changed]
    outer, audit.record = audit.record, [] if audit.record is None else audit.record
    start = len(audit.record)
    try:
        result = program(party, *changed)
        again.rest = audit.record[start:]
    finally:
        audit.record = outer
    second = program(_replaying(party, again), *before)
    audit.right(f"{again.last}: {LOCAL_WORK}", digest_of(result) == digest_of(second))
    return result


def hold(party: Endpoint, name: str, *parts: Any, more: bool = False) -> None:
    """In an audit: remember what is in memory; `more`: beside what is held under this name."""
    if party.audit is not None:
        before = party.audit.held.get(name, []) if more else []
        party.audit.held[name] = before + [digest_of(part) for part in parts]


def unchanged(party: Endpoint, name: str, *parts: Any) -> None:
    """In an audit: the first parts that are held under this name have to be these."""
    if party.audit is not None:
        held = party.audit.held.get(name, [])
        same = all(digest_of(part) == digest for part, digest in zip(parts, held, strict=False))
        party.audit.right(f"memory: {name} are as they were", same)


def _replaying(party: Party, audit: Audit) -> Party:
    """A party of the same kind with no peer."""
    return type(party)(
        party.rank,
        Silence(),
        Requests(party.rank, party.randomness.masks_operands),
        comparison=party.comparison,
        matrices=party.matrices,
        audit=audit,
    )


@dataclass
class _Again(Audit):
    """The audit of a second run: whether protocols are given what they were given in the first. `last` is the stage
    of the last one of them, and of what comes after it.
    """

    again: bool = True
    last: str = FIRST_STAGE
    of: Audit = field(default_factory=Audit)
    rest: list[Entry] = field(default_factory=list)

    def once(self, make: Callable[[], T]) -> T:
        made: T = self.rest.pop(0).result
        return made

    def remembered(self, name: str, given: Any, steps: Steps[T]) -> Steps[T]:
        steps.close()
        entry = self.rest.pop(0)
        assert entry.name == name, f"{name} in the place of {entry.name}"
        self.last = self.stage
        self.of.right(f"{self.last}: {LOCAL_WORK}", entry.given == digest_of(given))
        for _ in range(entry.rounds):
            yield Round([], [])
        result: T = entry.result
        return result

    def zero(self, x: Share, relation: str, bits: int | None = None) -> None:
        pass

    def later(self, check: Steps[Share], relation: str) -> None:
        check.close()
