"""Planning: rehearse a program, and list the correlated randomness that it asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpc.correlation import Correlation
from mpc.party import Party
from mpc.rehearsal import Requests, Silence
from mpc.shares import AShare, BShare


class _Rehearsing(Party):
    """A party that learns nothing: with no peer, what it opens is half a result, and means nothing."""

    def reveal(self, x: AShare | BShare, *, to: int | None = None, what: str) -> np.ndarray | None:
        opened = super().reveal(x, to=to, what=what)
        return None if opened is None else np.zeros_like(opened)


class Trace:
    """A rehearsal of what `party` is about to do: run programs on `trace.party`, then `cut()` the demand so far."""

    def __init__(self, party: Party) -> None:
        self._requests = Requests(party.rank)
        self.party = _Rehearsing(
            party.rank, Silence(), self._requests, comparison=party.comparison, matrices=party.matrices
        )

    @classmethod
    def at(cls, rank: int) -> Trace:
        """A rehearsal of party `rank` from its first step, where there is no party yet."""
        return cls(Party(rank, Silence(), Requests(rank)))

    def cut(self) -> list[Correlation[Any]]:
        """The requests since the last cut."""
        asked, self._requests.asked = self._requests.asked, []
        return asked
