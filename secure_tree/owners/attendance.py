"""Owners who are on the line to both parties, and those who are left out because they are late, fail or lie.

The parties compare after every stage which owners it is complete with: an owner counts at both of them or at neither.
Without `least`, the failure of one ends the session; with it, the others go on while there are as many.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mpc.errors import DataError, PeerFailure, SharewoodError
from mpc.party import Party
from secure_tree.agreement.messages import Message, Text, exchange
from secure_tree.owners.lines import Line
from secure_tree.public.bounds import Bounds
from secure_tree.public.context import OwnerFacts

T = TypeVar("T")
log = logging.getLogger("sharewood")
# The part of its `timeout` after which a silent owner is lost, before the other party loses this one; and the seconds
# that every owner has for a stage, however long others have been silent.
_SOONER, _LEAST_SECONDS = 0.8, 2.0


class Complete(Message):
    """What this party has of each owner after a stage: facts that must be equal at both, by name."""

    owners: dict[Text, list[Text]]


def agree_on_kept(party: Party, owners: Sequence[OwnerFacts]) -> None:
    """Wait until both parties have kept the same contributions. Raises DataError, PeerFailure."""
    mine = Complete.of(owners={owner.name: [owner.id] for owner in owners})
    if exchange(party, "owners.kept", mine) != mine:
        raise DataError("the parties have kept different contributions: collect again")


def _difference(here: list[str], there: list[str]) -> str:
    """Say what an owner told the parties differently."""
    differ = [f"{a} and the other party {b}" for a, b in zip(here, there, strict=False) if a != b]
    return f"{differ[0]:.300}" if differ else "other facts than the other party"


class Attendance:
    """The lines to owners, in the order of their names."""

    def __init__(self, lines: Mapping[str, Line], bounds: Bounds) -> None:
        self.lines = dict(sorted(lines.items()))
        self.bounds = bounds
        self.left_out: dict[str, str] = {}

    @property
    def strict(self) -> bool:
        return self.bounds.least is None

    def each(
        self,
        party: Party,
        stage: Callable[[str, Line], T],
        shown: Callable[[T], list[str]],
        only: str | None = None,
        keep: Callable[[T], T] = lambda part: part,
    ) -> dict[str, T]:
        """Run a stage with every owner, or `only` with one; return the results that are complete at both parties.

        What is `shown` of a result must be equal at both. `keep` puts a result into files; no owner is to blame if
        that fails. Raises what the stage raises, or DataError if too few remain.
        """
        done, failed = dict[str, T](), dict[str, SharewoodError]()
        began = time.monotonic()
        for name in list(self.lines) if only is None else [only]:
            line = self.lines[name]
            waits = line.timeout
            try:
                if waits is not None:
                    line.timeout = max(_LEAST_SECONDS, _SOONER * waits + began - time.monotonic())
                part = stage(name, line)
                line.timeout = waits
            except SharewoodError as error:
                failed[name] = error
            else:
                done[name] = keep(part)
        mine = Complete.of(owners={name: shown(part) for name, part in done.items()})
        theirs = exchange(party, "owners.complete", mine)
        for name in list(done):
            there = theirs.owners.get(name)
            if there != mine.owners[name]:
                failed[name] = (
                    PeerFailure(f"{name}: the other party has lost it")
                    if there is None
                    else DataError(
                        f"{name}: it told this party {_difference(mine.owners[name], there)}: it is not used"
                    )
                )
                del done[name]
        for name, reason in failed.items():
            self.leave_out(name, reason)
        self.check_enough()
        return done

    def leave_out(self, name: str, error: SharewoodError) -> None:
        """Go on without an owner, who is told why; if all must contribute, raise the error."""
        if self.strict:
            raise error
        reason = error.fact if isinstance(error, PeerFailure) and error.fact else str(error)
        self.left_out[name] = reason
        log.warning("%s is left out: %s", name, reason)
        self.lines.pop(name).end(reason)

    def check_enough(self) -> None:
        """Raise DataError if too few owners are left."""
        if self.bounds.least is not None and len(self.lines) < self.bounds.least:
            present = ", ".join(self.lines) or "none"
            why = "".join(f"; {name}: {reason.removeprefix(f'{name}: ')}" for name, reason in self.left_out.items())
            raise DataError(
                f"owners.least is {self.bounds.least}, and contributions are complete at both parties of {present}: "
                f"nothing is kept{why}"
            )
