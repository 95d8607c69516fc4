"""Material for programs that run in an order nobody knows yet: each program's part waits in a lot of its own.

A supply gives out requests in the order of its plans. A stock draws them in that order, too, and puts each into the lot
that it was provided for; a lot gives its requests to its program, whenever that runs. Both parties provide, and begin,
the same lots in the same order. What needs the peer's data to be made, where no dealer masks it, is provided when the
program begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mpc.correlation import Correlation
from mpc.errors import ProtocolDesync
from mpc.meter import Stage
from protocols.randomness.plan import Plan
from protocols.randomness.sizes import request_bytes
from protocols.randomness.supply import Request, Supply

T = TypeVar("T")
Requests = Sequence[Correlation[Any]]


class Stock:
    """Lots of one supply, which from now on belongs to this object."""

    def __init__(self, supply: Supply) -> None:
        self.supply = supply
        self.held = 0
        self._coming: deque[tuple[Lot, int]] = deque()
        self._matrices = 0

    def lot(self, requests: Requests, matrices: int) -> Lot:
        """Have material made for a program that asks for `requests`, with its matrices numbered from 1 to `matrices`.

        Raises NeedsDealer.
        """
        first, self._matrices = self._matrices, self._matrices + matrices
        return Lot(self, [_renumbered(request, first) for request in requests], first)

    def provide(self, lot: Lot, requests: Requests) -> None:
        """Have more of a lot made, after all that was provided before."""
        if requests:
            self.supply.provide([(requests, 1)])
            self._coming.append((lot, len(requests)))

    def settle(self) -> None:
        """Wait until all that was provided has come. Raises what keeps it from coming."""
        while self._coming:
            self.fetch()

    def fetch(self) -> None:
        """Put the next request of the supply into its lot."""
        lot, count = self._coming.popleft()
        lot.add(self.supply.draw())
        if count > 1:
            self._coming.appendleft((lot, count - 1))


class Lot:
    """The material of one program: implements `mpc.endpoint.Randomness`. `begin` comes before the program.

    The program's party begins with `first` matrices.
    """

    def __init__(self, stock: Stock, requests: Requests, first: int) -> None:
        self.first = first
        self.masks_operands = stock.supply.masks_operands
        self.billed: Stage | None = None
        self._stock, self._supply = stock, stock.supply
        self._early: deque[Request] = deque()
        self._late: deque[Request] = deque()
        self._to_begin = [request for request in requests if self._needs_data(request)]
        early = [request for request in requests if not self._needs_data(request)]
        self.held = sum(request_bytes(request).held for request in early)
        stock.held += self.held
        stock.provide(self, early)

    @property
    def waited(self) -> float:
        return self._supply.waited

    @property
    def dealt(self) -> int:
        return self._supply.dealt

    @property
    def used(self) -> int:
        return self._supply.used

    def begin(self) -> None:
        """The program is about to run."""
        self._stock.held -= self.held
        self._stock.provide(self, self._to_begin)

    def add(self, request: Request) -> None:
        """A request that has come."""
        (self._late if self._needs_data(request.correlation) else self._early).append(request)

    def provide(self, plan: Plan) -> None:
        raise AssertionError("the plan of a lot is known when it is made")

    def discard(self) -> None:
        raise AssertionError("a lot is for one program, which begins no part of it again")

    def take(self, correlation: Correlation[T]) -> T:
        """The next request, which must be this one. Raises ProtocolDesync, and what keeps material from coming."""
        queue = self._late if self._needs_data(correlation) else self._early
        while not queue:
            self._stock.fetch()
        request = queue.popleft()
        if request.correlation != correlation:
            raise ProtocolDesync(f"the lot has {request.correlation} where the program asks for {correlation}")
        values: T = self._supply.values(request)
        return values

    def keep(self, number: int, matrix: Any) -> None:
        self._supply.keep(number, matrix)

    def forget(self, number: int) -> None:
        self._supply.forget(number)

    def _needs_data(self, request: Correlation[Any]) -> bool:
        return not self.masks_operands and hasattr(request, "number")


def _renumbered(request: Correlation[Any], first: int) -> Correlation[Any]:
    """The request about a matrix whose number is higher by `first`, if it is about one."""
    number = getattr(request, "number", None)
    changed: Correlation[Any] = request if number is None else replace(request, number=number + first)  # type: ignore[type-var]
    return changed
