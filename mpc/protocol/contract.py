"""`@protocol`: a generator of rounds as an object that can be run, composed and priced.

@protocol(cost=lambda x, y: Cost(rounds=1, bits=both(2 * x.bits * x.size)))
def multiply(party: Endpoint, x: AShare, y: AShare) -> Steps[AShare]: ...

z = multiply(party, x, y)                       runs it
z = yield from multiply.steps(party, x, y)      composes it
multiply.cost(x, y)                             the stated cost, or that of a rehearsal if it is composed of others
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from mpc.endpoint import Endpoint
from mpc.protocol.rehearsal import rehearsing
from mpc.rounds import Steps
from mpc.shares import Share

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Cost:
    """Rounds, and payload bits that each party sends: (party 0, party 1)."""

    rounds: int
    bits: tuple[int, int]


def both(bits: int) -> tuple[int, int]:
    """Return the same number of bits for each direction."""
    return bits, bits


class Contract(Generic[P, T]):
    """A protocol: its steps, its cost and what it reveals.

    `name` is the tag of its rounds. `cost` is a function of public shapes: stated for a protocol that sends messages of
    its own, counted in a rehearsal for a protocol that is composed of others.
    """

    def __init__(
        self,
        steps: Callable[Concatenate[Endpoint, P], Steps[T]],
        cost: Callable[..., Cost] | None,
        reveals: tuple[str, ...],
        exact: bool | Callable[..., bool],
        near: Callable[..., Steps[Share]] | None,
        elementwise: bool,
    ) -> None:
        functools.update_wrapper(self, steps)
        self.name = f"{steps.__module__.rpartition('.')[2]}.{steps.__name__}"
        self.body, self.reveals = steps, reveals
        self.near, self.elementwise = near, elementwise
        self._stated, self._exact = cost, exact

    def __call__(self, party: Endpoint, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the protocol with the peer."""
        return party.run(self.steps(party, *args, **kwargs))

    def steps(self, party: Endpoint, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        """Return its rounds, to be composed with others; in an audit, with those of its check."""
        return party.audit.steps(self, party, args, kwargs)

    def exact(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether a second evaluation with these arguments has the same result, or by `near` nearly the same."""
        return self._exact(*args, **kwargs) if callable(self._exact) else self._exact

    def cost(self, *args: P.args, **kwargs: P.kwargs) -> Cost:
        """Return the cost of a call with arguments of these shapes."""
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
    cost: Callable[..., Cost] | None = None,
    reveals: tuple[str, ...] = (),
    exact: bool | Callable[..., bool] | None = None,
    near: Callable[..., Steps[Share]] | None = None,
    elementwise: bool = False,
) -> Callable[[Callable[Concatenate[Endpoint, P], Steps[T]]], Contract[P, T]]:
    """Turn a generator of rounds into a protocol.

    `exact` tells whether the result, shares, is a function of the secret inputs and of how they are shared, either for
    all arguments or as a function of them. With `near` it need only be approximately so. By default it holds for
    protocols with a stated cost or with `near`. An audit evaluates such a protocol twice and compares the results word
    by word, or by `near`, which takes both results and the arguments and returns what must be zero. `elementwise`: the
    shares among the positional arguments have one shape, and the result holds one entry per element, in order.
    """

    def declare(steps: Callable[Concatenate[Endpoint, P], Steps[T]]) -> Contract[P, T]:
        contract = Contract(
            steps, cost, reveals, (cost or near) is not None if exact is None else exact, near, elementwise
        )
        REGISTRY[contract.name] = contract
        return contract

    return declare
