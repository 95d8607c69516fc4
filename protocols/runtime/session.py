"""Two parties on this machine, with or without a dealer: a process each, TLS between every two of them."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import Any, Literal

from mpc.party import Party
from mpc.session import session
from mpc.verdict import begin
from protocols.ot.correlated import OtKind
from protocols.randomness.dealer import serve
from protocols.randomness.dealt import DealtRandomness
from protocols.randomness.pairwise import PairwiseRandomness, pairwise
from protocols.randomness.supply import AHEAD
from protocols.runtime.launch import SECOND, Role, run_processes
from protocols.runtime.memory import bound_memory
from protocols.transport.channel import Channel

PARTIES = ("party_a", "party_b")
DEALER = "dealer"

Job = Callable[[Party], Any]


# Who makes correlated randomness: a third process, or the parties by themselves.
Offline = Literal["dealer", "pairwise"]


def party_role(rank: int, job: Job, offline: Offline = "dealer", ot: OtKind = "ferret", audit: bool = False) -> Role:
    """The role of party `rank`: connects itself to its peer, and to the dealer if any, then runs `job(party)`."""

    def play(channels: dict[str, Channel]) -> Any:
        name = PARTIES[1 - rank]
        peer = channels[name]
        randomness: DealtRandomness | PairwiseRandomness
        if offline == "pairwise":
            randomness = pairwise(rank, channels[name + SECOND], ot, peer)
        else:
            randomness = DealtRandomness(rank, channels[DEALER], peer)
        with session(Party(rank, peer, randomness)) as party:
            if audit:
                begin(party)
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


def run_session(
    job: Job,
    *,
    timeout: float | None = None,
    offline: Offline = "dealer",
    ot: OtKind = "ferret",
    audit: bool = False,
) -> dict[str, dict[str, Any]]:
    """Run `job` at both parties; for each process its result, its pid and its peak memory."""
    roles = {PARTIES[rank]: party_role(rank, job, offline, ot, audit) for rank in (0, 1)}
    if offline == "dealer":
        roles[DEALER] = dealer_role
    return run_processes(roles, timeout=timeout, second=offline == "pairwise")


def run_local(
    job: Job,
    *,
    timeout: float | None = None,
    offline: Offline = "dealer",
    ot: OtKind = "ferret",
    audit: bool = False,
) -> tuple[Any, Any]:
    """Run `job(party)` in two forked party processes; what it returned at each party.

    Correlated randomness comes from a dealer process, or, "pairwise", from the two parties by oblivious transfers: by
    "ferret", or by "softspoken", which takes more bytes and does not rest on the hardness of LPN. With `audit` the
    parties check what they compute, and raise AuditFailure where it contradicts itself.

    Inside the job the operators of mpc/session.py talk through its party: `x * y`, `x @ y`, `x < y`, `x == y`.
    Results come back through Sharewood's own codec: plain values, lists, tuples, dicts and arrays.
    """
    outcome = run_session(job, timeout=timeout, offline=offline, ot=ot, audit=audit)
    return outcome[PARTIES[0]]["result"], outcome[PARTIES[1]]["result"]
