"""Workers: processes of one party that hold parts of its rows. Worker i has a party of its own, whose peer is worker i
of the other party; what they compute there comes back to the party that has asked, as shares.

Functionality  a program runs at all workers of both parties, pair by pair -> at each party the answers of its own
Messages       each party -> the other: whether its workers are all there, one byte                    (one round)
Cost           one round, whatever the number of workers; what a program costs is on the workers' own meters
Security       the byte is public: it tells that a process has ended
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpc.endpoint import Endpoint, Program
from mpc.errors import PeerFailure, WorkersLost
from mpc.ring import U8
from mpc.rounds import Round, Steps

_THERE, _LOST, _FAILED = range(3)


def unplanned(program: Program) -> Program:
    """Mark a program that is not rehearsed where it is asked as a planned one: it takes no correlated randomness, or
    plans what it takes by itself.
    """
    program.unplanned = True  # type: ignore[attr-defined]
    return program


def is_unplanned(program: Program) -> bool:
    """Whether it is marked so."""
    return getattr(program, "unplanned", False)


def ask(
    party: Endpoint,
    program: Program,
    *given: Any,
    own: Sequence[tuple[Any, ...]] = (),
    planned: str = "",
    keep: bool = False,
) -> Steps[list[Any]]:
    """Run a program at all workers, of both parties; as `Workers.each`.

    Raises WorkersLost at both parties where one has lost a worker, what a program has raised, and PeerFailure at the
    other party.
    """
    answers: list[Any] = []
    failure: Exception | None = None
    try:
        assert party.workers is not None, "whoever asks workers has some"
        answers = party.workers.each(program, given, own, planned, keep)
    except Exception as error:
        failure = error
    lost = isinstance(failure, WorkersLost)
    mine = _THERE if failure is None else _LOST if lost else _FAILED
    (told,) = yield Round([np.array([mine], U8)], [1], "workers")
    if failure is not None and not lost:
        raise failure
    if told[0] >= _FAILED:
        raise PeerFailure("a worker of the other party has failed: the log there says why")
    if failure is not None:
        raise failure
    if told[0] == _LOST:
        raise WorkersLost("the other party has lost a worker")
    return answers
