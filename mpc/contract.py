"""`@protocol(cost, reveals)`: what a protocol costs and what it reveals, stated as code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpc.party import Party, Steps


@dataclass(frozen=True)
class Cost:
    """Rounds, and payload bits that each party sends: (party 0, party 1)."""

    rounds: int
    bits: tuple[int, int]


def both(bits: int) -> tuple[int, int]:
    """The same number of bits in each direction."""
    return bits, bits


def in_sequence(*costs: Cost) -> Cost:
    """Protocols one after another: rounds and bits add."""
    return Cost(sum(c.rounds for c in costs), (sum(c.bits[0] for c in costs), sum(c.bits[1] for c in costs)))


REGISTRY: dict[str, Callable] = {}


def protocol(cost: Callable[..., Cost], reveals: tuple[str, ...] = ()) -> Callable:
    """Turn a generator of rounds into a protocol: `name(party, ...)` runs it, `name.steps` composes it."""

    def declare(steps: Callable[..., Steps]) -> Callable[..., Any]:
        @functools.wraps(steps)
        def run(party: Party, *args: Any, **kwargs: Any) -> Any:
            return party.run(steps(party, *args, **kwargs))

        run.steps, run.cost, run.reveals = steps, cost, reveals  # type: ignore[attr-defined]
        REGISTRY[f"{steps.__module__}.{steps.__name__}"] = run
        return run

    return declare
