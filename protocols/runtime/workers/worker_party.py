"""A worker, independent of the engine that starts it: its party, the values that programs keep, and a rehearsal."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mpc.endpoint import Call, Program
from mpc.party import Party
from mpc.planning import Rehearsal, provide
from mpc.workers import is_unplanned
from protocols.runtime.workers.busy import Busy


class Site:
    """One worker: programs run on its party, after a rehearsal on zeros that plans the randomness they use."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self._rehearsal = Rehearsal(party)
        self._kept: dict[str, Any] = {}
        self._rehearsed: dict[str, Any] = {}
        self._busy = Busy()

    def perform(self, program: Program, given: Sequence[Any], planned: str) -> Any:
        """Run a program, at the same time as the peer worker.

        If `planned` names a stage, the program is rehearsed first and counted in that stage; otherwise it was planned
        before.
        """
        if planned and not is_unplanned(program):
            self._rehearse([(program, tuple(given))], 1, self._rehearsed)
        phase = planned or "online"
        with self.party.stage(phase), self._busy.at(phase):
            return program(self.party, self._kept, *given)

    def provide(self, plan: Sequence[tuple[Sequence[Call], int]]) -> None:
        """Rehearse lists of calls, and request what each list uses, a number of times. What a list keeps is dropped."""
        for calls, times in plan:
            self._rehearse(calls, times, dict(self._rehearsed))

    def _rehearse(self, calls: Sequence[Call], times: int, kept: dict[str, Any]) -> None:
        with self.party.stage("offline"), self._busy.at("offline"):
            for program, given in calls:
                program(self._rehearsal.party, kept, *given)
            del kept  # and with it the values that only this rehearsal needed
            provide(self.party, [self._rehearsal.cut(times=times)])

    def costs(self) -> dict[str, Any]:
        """Return the costs so far, in plain values: stages, rounds, CPU seconds, busy spans, peak of memory, pid."""
        return {
            "stages": {name: asdict(stage) for name, stage in self.party.stages.items()},
            "rounds": self.party.meter.total.rounds,
            "cpu_seconds": time.process_time(),
            "busy": [list(span) for span in self._busy.spans],
            "memory_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "pid": os.getpid(),
        }
