"""The verdict of an audit: one bit per stage, revealed to both parties.

Functionality  both parties' digests of what must be zero -> for each stage, whether they differ
Messages       `all_of` on eight bits at a time, three times, by mpc/lookup/one_hot.py; the remaining bits are opened
               twice, and the parties then exchange whether the two were equal
Security       composition, perfect: each party's digests are its shares of their difference
Source         see mpc/lookup/one_hot.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mpc.checks.audit import Ledger, open_twice
from mpc.checks.repetition import run_twice
from mpc.errors import AuditFailure, ProtocolDesync
from mpc.lookup.one_hot import all_of
from mpc.party import Party
from mpc.rounds import Steps
from mpc.shares import BShare
from mpc.sharing import zero_for

T = TypeVar("T")
AT_ONCE = 8
SEED_BYTES = 16
REVEALED = "whether the audit found a fault, by stage"


class Auditor(Ledger):
    """The audit of a party, which takes verdicts."""

    def anew(self) -> Auditor:
        return Auditor()

    def run(self, party: Party, program: Callable[..., T], *changed: Any) -> T:
        """Return program(party, *changed), after a repetition of its local work and a verdict. Raises AuditFailure."""
        result = self.repeat(party, program, *changed)
        self.settle(party)
        return result

    def repeat(self, party: Party, program: Callable[..., T], *changed: Any) -> T:
        return run_twice(party, self, program, *changed)

    def settle(self, party: Party) -> None:
        party.run(self.checks())
        names, digests = self.take()
        if not names:
            return
        # The verdict is not part of the program whose local work is repeated.
        end = party.unaudited()
        differ = end.run(_differ(end, digests))
        if REVEALED not in party.revealed:
            party.revealed.append(REVEALED)
        broken = open_twice(end, differ, None, [zero_for(end, differ) for _ in range(2)], REVEALED)
        assert broken is not None, "revealed to both"
        if broken.any() and party.live:
            broken_names = ", ".join(name for name, bit in zip(names, broken, strict=True) if bit)
            raise AuditFailure(
                f"the audit found inconsistent values in: {broken_names}. Do not use the model or prediction; suspect "
                "the memory, processor or program of either party, or the dealer, and run it again"
            )


def begin(party: Party) -> None:
    """Audit what the party computes from now on, with a seed from both parties. Raises ProtocolDesync."""
    mine = party.draw(SEED_BYTES)
    theirs = party.exchange_public("audit.seed", mine)
    if not isinstance(theirs, bytes) or len(theirs) != SEED_BYTES:
        raise ProtocolDesync(
            f"audit.seed: expected a seed of {SEED_BYTES} bytes, and the other party sent something else"
        )
    party.audit = Auditor(bytes(a ^ b for a, b in zip(mine, theirs, strict=True)))


def _differ(party: Party, digests: np.ndarray) -> Steps[BShare]:
    """Own digests, bits [n, 128] -> <they differ from the other party's>, [n]."""
    equal = ~BShare(digests, party.rank)
    while equal.shape[1] > 1:
        width = min(AT_ONCE, equal.shape[1])
        equal = (yield from all_of.steps(party, equal.reshape(-1, width))).reshape(len(digests), -1)
    return ~equal[:, 0]
