"""Every protocol of the catalogue as an operation to measure, with the calls of the complexity page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.pair import Operation
from mpc.arithmetic.fixed_factor import FixedValues
from mpc.matrix.linear_map import VectorSupply
from mpc.party import Party
from mpc.protocol.catalogue import Call, Zeros, entries
from mpc.protocol.contract import Contract


def _operation(protocol: Contract[..., Any], call: Call) -> Operation:
    def prepare(party: Party, n: int) -> Callable[[Party], Any]:
        given = call.arguments(Zeros(party), n)

        def run(p: Party) -> Any:
            return protocol(p, *(_unused(p, x) for x in given), **call.named)

        return run

    return prepare


def _unused(party: Party, x: Any) -> Any:
    """Return an argument as it was prepared, where a run uses it up. Masks of vectors belong to the run."""
    if isinstance(x, VectorSupply):
        return x.of.supply(party, len(x.half))
    return replace(x) if isinstance(x, FixedValues) else x


def _name(protocol: Contract[..., Any], call: Call) -> str:
    variant = "".join(f", {name}={value}" for name, value in call.named.items())
    return f"{protocol.name}: {call.element}{variant}"


EVERY_PROTOCOL: dict[str, Operation] = {
    _name(entry.protocol, call): _operation(entry.protocol, call) for entry in entries() for call in entry.priced
}
