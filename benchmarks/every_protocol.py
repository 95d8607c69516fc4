"""Every registered protocol as an operation to be measured, with the arguments of the complexity page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.complexity import ROWS
from benchmarks.pair import Operation
from mpc.linear_map import VectorSupply
from mpc.party import Party


def _operation(protocol: Callable, arguments: Callable, named: dict) -> Operation:
    def prepare(party: Party, n: int) -> Callable[[Party], Any]:
        given = arguments(party, n)

        def run(p: Party) -> Any:
            # Masks of a known matrix' vectors are used once, and belong to the run.
            fresh = [x.of.supply(p, len(x.half)) if isinstance(x, VectorSupply) else x for x in given]
            return protocol(p, *fresh, **named)

        return run

    return prepare


def _name(protocol: Callable, element: str, named: dict) -> str:
    variant = "".join(f", {name}={value}" for name, value in named.items())
    return f"{protocol.name}: {element}{variant}"


EVERY_PROTOCOL: dict[str, Operation] = {
    _name(protocol, element, named): _operation(protocol, arguments, named)
    for protocol, element, arguments, named in ROWS
}
