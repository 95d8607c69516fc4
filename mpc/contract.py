"""`@protocol`: a generator of rounds as an object that runs, composes and prices itself.

@protocol(cost=lambda x, y: Cost(rounds=1, bits=both(2 * x.bits * x.size)))
def multiply(party: Endpoint, x: AShare, y: AShare) -> Steps[AShare]: ...

z = multiply(party, x, y)                       runs it
z = yield from multiply.steps(party, x, y)      composes it
multiply.cost(x, y)                             as stated, or rehearsed where it is made of others
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from mpc.endpoint import Endpoint
from mpc.rehearsal import rehearsing
from mpc.rounds import Steps, named

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Cost:
    """Rounds, and payload bits that each party sends: (party 0, party 1)."""

    rounds: int
    bits: tuple[int, int]


def both(bits: int) -> tuple[int, int]:
    """The same number of bits in each direction."""
    return bits, bits


class Contract(Generic[P, T]):
    """A protocol: what it costs and what it reveals, beside the steps that it takes.

    `name` is the tag of its rounds. `cost` is a function of public shapes: stated for a protocol with messages of its
    own, and for one that is made of others what a rehearsal of them counts.
    """

    def __init__(
        self,
        steps: Callable[Concatenate[Endpoint, P], Steps[T]],
        cost: Callable[..., Cost] | None,
        reveals: tuple[str, ...],
    ) -> None:
        functools.update_wrapper(self, steps)
        self.name = f"{steps.__module__.removeprefix('mpc.')}.{steps.__name__}"
        self.reveals = reveals
        self._steps, self._stated = steps, cost

    def __call__(self, party: Endpoint, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it with the peer."""
        return party.run(self.steps(party, *args, **kwargs))

    def steps(self, party: Endpoint, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        """Its rounds, to be composed with others."""
        return named(self.name, self._steps(party, *args, **kwargs))

    def cost(self, *args: P.args, **kwargs: P.kwargs) -> Cost:
        """What a call with arguments of these shapes costs."""
        if self._stated is not None:
            return self._stated(*args, **kwargs)
        endpoint = rehearsing(0)
        self(endpoint, *args, **kwargs)
        total = endpoint.meter.total
        return Cost(total.rounds, (total.sent, total.received))

    @property
    def atomic(self) -> bool:
        """Whether its cost is stated."""
        return self._stated is not None


REGISTRY: dict[str, Contract[..., Any]] = {}


def protocol(
    cost: Callable[..., Cost] | None = None, reveals: tuple[str, ...] = ()
) -> Callable[[Callable[Concatenate[Endpoint, P], Steps[T]]], Contract[P, T]]:
    """Turn a generator of rounds into a protocol."""

    def declare(steps: Callable[Concatenate[Endpoint, P], Steps[T]]) -> Contract[P, T]:
        contract = Contract(steps, cost, reveals)
        REGISTRY[contract.name] = contract
        return contract

    return declare
