"""Checks of a protocol against its declaration: its cost, and that the shape of its messages is data-independent.

    for case in cases(entries()):
        check_cost(case)
        check_shape(case, seeds=(1, 2))

Both parties are threads of this process. A failed check raises an AssertionError that names the case.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.party import Party
from mpc.protocol.contract import Cost
from protocols.testing.cases import Case
from protocols.testing.two_parties import Recorder, run_both


@dataclass(frozen=True)
class CallCost:
    """The cost of one call at one party, declared and metered, and the tag and bytes of every round that it sent."""

    declared: Cost
    rounds: int
    bits: int
    sent: list[tuple[str, bytes]]

    @property
    def shape(self) -> list[tuple[str, int]]:
        """The tag and length of every round."""
        return [(tag, len(data)) for tag, data in self.sent]


def traffic(case: Case, seed: int, size: int) -> list[CallCost]:
    """Run a case on inputs drawn from `seed`; return the traffic of the call itself at each party."""

    def job(party: Party) -> CallCost:
        arguments = case.arguments(party, np.random.default_rng(seed), size)
        declared = case.protocol.cost(*arguments, **case.named)
        party.link = recorder = Recorder(party.link)
        rounds, bits = party.meter.total.rounds, party.meter.total.sent
        case.protocol(party, *arguments, **case.named)
        total = party.meter.total
        return CallCost(declared, total.rounds - rounds, total.sent - bits, recorder.rounds)

    return run_both(job)[0]


def check_cost(case: Case, sizes: tuple[int, ...] = (5, 16)) -> None:
    """Check that the declared rounds and bits are those of the meter and of the messages."""
    for size in sizes:
        for rank, run in enumerate(traffic(case, 1, size)):
            found = run.rounds, len(run.sent), run.bits, 8 * sum(len(data) for _, data in run.sent)
            expected = (run.declared.rounds,) * 2 + (run.declared.bits[rank],) * 2
            assert found == expected, f"{case.name}, size {size}, party {rank}: {found}, declared {expected}"


def check_shape(case: Case, seeds: tuple[int, int], size: int = 5) -> None:
    """Check that two runs on different data send rounds of the same tags and lengths."""
    shapes = [[run.shape for run in traffic(case, seed, size)] for seed in seeds]
    assert shapes[0] == shapes[1], f"{case.name}: the wire of seeds {seeds} differs in shape"


def wire(case: Case) -> dict[str, Any]:
    """Return tags, a digest of the bytes, rounds and bits of both directions of one run with fixed seeds."""
    runs = traffic(case, seed=3, size=5)
    digest, tags = hashlib.sha256(), dict[str, None]()
    for run in runs:
        for tag, data in run.sent:
            digest.update(data)
            tags[tag.split(maxsplit=1)[1]] = None
    return {
        "tags": list(tags),
        "digest": digest.hexdigest()[:16],
        "rounds": runs[0].rounds,
        "bits": [run.bits for run in runs],
    }
