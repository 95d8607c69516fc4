"""Every protocol of the catalogue as an operation to measure, with the calls of the complexity page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.pair import Operation
from mpc.catalogue import Call, Zeros, entries
from mpc.contract import Contract
from mpc.linear_map import VectorSupply
from mpc.party import Party


def _operation(protocol: Contract, call: Call) -> Operation:
    def prepare(party: Party, n: int) -> Callable[[Party], Any]:
        given = call.arguments(Zeros(party), n)

        def run(p: Party) -> Any:
            # Masks of a known matrix' vectors are used once, and belong to the run.
            fresh = [x.of.supply(p, len(x.half)) if isinstance(x, VectorSupply) else x for x in given]
            return protocol(p, *fresh, **call.named)

        return run

    return prepare


def _name(protocol: Contract, call: Call) -> str:
    variant = "".join(f", {name}={value}" for name, value in call.named.items())
    return f"{protocol.name}: {call.element}{variant}"


EVERY_PROTOCOL: dict[str, Operation] = {
    _name(entry.protocol, call): _operation(entry.protocol, call) for entry in entries() for call in entry.priced
}
