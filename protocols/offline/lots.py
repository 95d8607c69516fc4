"""Material for programs whose order is not known in advance: each program's part is kept in a lot.

A supply gives out requests in the order of its plans. A stock draws them in that order and puts each into the lot that
it was provided for; a lot gives its requests to its program, whenever that runs. Both parties provide and begin the
same lots in the same order. Without a dealer, requests that depend on the peer's data are provided when the program
begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mpc.errors import ProtocolDesync
from mpc.meter import Stage
from mpc.offline.correlation import Correlation
from protocols.offline.plan import Plan
from protocols.offline.sizes import request_bytes
from protocols.offline.supply import Request, Supply

T = TypeVar("T")
Requests = Sequence[Correlation[Any]]


class Pool:
    """The lots of one supply, which this object owns from now on.

    The matrices up to number `kept` were made before, and are there for all programs.
    """

    def __init__(self, supply: Supply, kept: int = 0) -> None:
        self.supply, self.kept = supply, kept
        self.held = 0
        self._coming: deque[tuple[Lot, int]] = deque()
        self._matrices = 0

    def lot(self, requests: Requests, matrices: int) -> Lot:
        """Request the material for a program that takes `requests`, with `matrices` matrices that it numbers itself.

        They follow those that are kept. Raises NeedsDealer.
        """
        before, self._matrices = self._matrices, self._matrices + matrices
        return Lot(self, [self._renumbered(request, before) for request in requests], self.kept + before)

    def provide(self, lot: Lot, requests: Requests) -> None:
        """Request more material for a lot, after everything that was provided before."""
        if requests:
            self.supply.provide([(requests, 1)])
            self._coming.append((lot, len(requests)))

    def settle(self) -> None:
        """Wait until everything that was provided has arrived. Raises the failure that prevents it."""
        while self._coming:
            self.fetch()

    def needs_data(self, request: Correlation[Any]) -> bool:
        """Return whether a request can be made only when its program has begun: without a dealer, for its matrices."""
        return not self.supply.has_dealer and getattr(request, "number", 0) > self.kept

    def _renumbered(self, request: Correlation[Any], before: int) -> Correlation[Any]:
        """Return the request with `before` added to the number of its matrix, if it is about one of its program's."""
        number = getattr(request, "number", 0)
        if number <= self.kept:
            return request
        changed: Correlation[Any] = replace(request, number=number + before)  # type: ignore[type-var]
        return changed

    def fetch(self) -> None:
        """Move the next request of the supply into its lot."""
        lot, count = self._coming.popleft()
        lot.add(self.supply.draw())
        if count > 1:
            self._coming.appendleft((lot, count - 1))


class Lot:
    """The material of one program: implements `mpc.endpoint.Randomness`. Call `begin` before the program.

    The program's party numbers its matrices after `first` others.
    """

    def __init__(self, stock: Pool, requests: Requests, first: int) -> None:
        self.first = first
        self.has_dealer = stock.supply.has_dealer
        self.billed: Stage | None = None
        self._stock, self._supply = stock, stock.supply
        self._early: deque[Request] = deque()
        self._late: deque[Request] = deque()
        self._to_begin = [request for request in requests if stock.needs_data(request)]
        early = [request for request in requests if not stock.needs_data(request)]
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
        """Prepare for the program to run."""
        self._stock.held -= self.held
        self._stock.provide(self, self._to_begin)

    def add(self, request: Request) -> None:
        """Add a request that has arrived."""
        (self._late if self._stock.needs_data(request.correlation) else self._early).append(request)

    def provide(self, plan: Plan) -> None:
        raise AssertionError("the plan of a lot is fixed when the lot is made")

    def discard(self) -> None:
        raise AssertionError("a lot is for one program, which repeats no part of itself")

    def take(self, correlation: Correlation[T]) -> T:
        """Take the next request, which must be this one. Raises ProtocolDesync, and the failure of the supply."""
        queue = self._late if self._stock.needs_data(correlation) else self._early
        while not queue:
            self._stock.fetch()
        request = queue.popleft()
        if request.correlation != correlation:
            raise ProtocolDesync(f"the lot has {request.correlation}, but the program takes {correlation}")
        values: T = self._supply.values(request)
        return values

    def keep(self, number: int, matrix: Any) -> None:
        self._supply.keep(number, matrix)

    def forget(self, number: int) -> None:
        self._supply.forget(number)
