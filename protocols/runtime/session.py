"""Two parties and a dealer on this machine: a process each, TLS between every two of them."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import Any

from mpc.party import Party
from mpc.session import session
from protocols.randomness.dealer import serve
from protocols.randomness.dealt import DealtRandomness
from protocols.randomness.delivery import AHEAD
from protocols.runtime.launch import Role, run_processes
from protocols.runtime.memory import bound_memory
from protocols.transport.channel import Channel

PARTIES = ("party_a", "party_b")
DEALER = "dealer"

Job = Callable[[Party], Any]


def party_role(rank: int, job: Job) -> Role:
    """The role of party `rank`: connects itself to its peer and the dealer, then runs `job(party)`."""

    def play(channels: dict[str, Channel]) -> Any:
        peer = channels[PARTIES[1 - rank]]
        randomness = DealtRandomness(rank, channels[DEALER], peer)
        with session(Party(rank, peer, randomness)) as party:
            result = job(party)
        randomness.close()
        return {"result": result, **_process()}

    return play


def dealer_role(channels: dict[str, Channel]) -> Any:
    """The role of the dealer, in a process of its own: with a bound on its memory, as at the dealer's host.

    It deals ahead, and so gives way to the parties, with which it shares this machine.
    """
    bound_memory()
    os.nice(AHEAD)
    return {"result": serve(channels[PARTIES[0]], channels[PARTIES[1]]), **_process()}


def _process() -> dict[str, int]:
    return {"pid": os.getpid(), "memory_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def run_session(job: Job, *, timeout: float | None = None) -> dict[str, dict[str, Any]]:
    """Run `job` at both parties; for each process its result, its pid and its peak memory."""
    roles = {PARTIES[0]: party_role(0, job), PARTIES[1]: party_role(1, job), DEALER: dealer_role}
    return run_processes(roles, timeout=timeout)


def run_local(job: Job, *, timeout: float | None = None) -> tuple[Any, Any]:
    """Run `job(party)` in two forked party processes with a dealer process; what it returned at each party.

    Inside the job the operators of mpc/session.py talk through its party: `x * y`, `x @ y`, `x < y`, `x == y`.
    Results come back through Sharewood's own codec: plain values, lists, tuples, dicts and arrays.
    """
    outcome = run_session(job, timeout=timeout)
    return outcome[PARTIES[0]]["result"], outcome[PARTIES[1]]["result"]
