"""Workers: processes of one party that hold parts of its rows.

Each worker is a party of its own, whose peer is the worker with the same number at the other party. The results of the
workers return to the calling party as shares.

Functionality  a program runs at all workers of both parties, pair by pair -> at each party, the answers of its workers
Messages       each party -> the other: whether all its workers are running, one byte                  (one round)
Cost           one round, whatever the number of workers; the cost of a program is on the workers' own meters
Security       the byte is public: it reveals that a process has ended
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpc.endpoint import Endpoint, Program
from mpc.errors import PeerFailure, WorkersLost
from mpc.rounds import Round, Steps
from mpc.words import U8

_THERE, _LOST, _FAILED = range(3)


def unplanned(program: Program) -> Program:
    """Mark a program that workers do not rehearse: it takes no correlated randomness, or plans what it takes."""
    program.unplanned = True  # type: ignore[attr-defined]
    return program


def is_unplanned(program: Program) -> bool:
    """Return whether a program is marked by `unplanned`."""
    return getattr(program, "unplanned", False)


def ask(
    party: Endpoint,
    program: Program,
    *given: Any,
    own: Sequence[tuple[Any, ...]] = (),
    planned: str = "",
    keep: bool = False,
) -> Steps[list[Any]]:
    """Run a program at all workers of both parties, as `Workers.each`.

    Raises WorkersLost at both parties if either has lost a worker. If the program raises, raises that error here and
    PeerFailure at the other party.
    """
    answers: list[Any] = []
    failure: Exception | None = None
    try:
        assert party.workers is not None, "only a party with workers calls them"
        answers = party.workers.each(program, given, own, planned, keep)
    except Exception as error:
        failure = error
    lost = isinstance(failure, WorkersLost)
    mine = _THERE if failure is None else _LOST if lost else _FAILED
    (status,) = yield Round([np.array([mine], U8)], [1], "workers")
    if failure is not None and not lost:
        raise failure
    if status[0] >= _FAILED:
        raise PeerFailure("a worker of the other party has failed: see the log there")
    if failure is not None:
        raise failure
    if status[0] == _LOST:
        raise WorkersLost("the other party has lost a worker")
    return answers
