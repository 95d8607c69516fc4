"""A rehearsal: protocols run on zeros, with no peer and no dealer.

Rounds and requests depend only on public shapes, so the counts of a rehearsal are those of the real run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from mpc.endpoint import Call, Endpoint, Like, Program
from mpc.host.streaming import Pieces, RowsInFile
from mpc.meter import Stage
from mpc.offline.correlation import Correlation, Recipe, View
from mpc.rings import AnyRing
from mpc.words import Shape

T = TypeVar("T")


class TraceView(View):
    """A view that returns zeros where this rank would hold a value."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        return np.zeros(shape, ring.dtype)

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> np.ndarray | None:
        return np.zeros(shape, ring.dtype) if owner == self._rank else None

    def private_rows(self, owner: int, ring: AnyRing, shape: Shape) -> np.ndarray | None:
        return np.broadcast_to(np.zeros((), ring.dtype), shape) if owner == self._rank else None

    def half(self, ring: AnyRing, shape: Shape, to: int | None) -> np.ndarray:
        return np.zeros(shape, ring.dtype)

    def permutation_key(self) -> bytes:
        return bytes(16)

    def computed(self, owner: int, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray | None:
        return np.zeros(shape, ring.dtype) if owner == self._rank else None


class Requests:
    """Randomness that records requests, and returns zeros."""

    dealt = used = 0
    waited = 0.0
    billed: Stage | None = None

    def __init__(self, rank: int, has_dealer: bool = True) -> None:
        self.has_dealer = has_dealer
        self._view = TraceView(rank)
        self.asked: list[Correlation[object]] = []
        self.plans: list[Sequence[Correlation[object]]] = []

    def take(self, request: Correlation[T]) -> T:
        self.asked.append(request)
        return request.deal(self._view)

    def discard(self) -> None:
        pass

    def keep(self, number: int, matrix: Any) -> None:
        pass

    def forget(self, number: int) -> None:
        pass

    def provide(self, plan: Sequence[tuple[Sequence[Correlation[object]], int]]) -> None:
        self.plans += [requests for requests, times in plan for _ in range(times)]


class Silence:
    """A peer that answers every round with zeros."""

    peer = "nobody"
    wire_sent = wire_received = 0

    def exchange(
        self, tag: str, arrays: Sequence[np.ndarray | Pieces], like: Sequence[Like] | None = None
    ) -> list[Any]:
        return [each if isinstance(each, RowsInFile) else np.zeros(*each) for each in like or []]

    def post(
        self, tag: str, arrays: Sequence[np.ndarray | Pieces], like: Sequence[Like] | None = None
    ) -> Callable[[], list[Any]]:
        return lambda: self.exchange(tag, arrays, like)

    def exchange_public(self, tag: str, tree: object) -> Any:
        raise AssertionError("a rehearsal has no peer to exchange facts with")


class NoWorkers:
    """Implements `Workers` in a rehearsal: records requests, and returns no answers."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[Call] = []

    def each(
        self, program: Program, given: tuple[Any, ...], own: Sequence[tuple[Any, ...]], planned: str, keep: bool
    ) -> list[Any]:
        if not planned:
            self.asked.append((program, given))
        return []

    def fetch(self, kept: Sequence[Any]) -> list[Any]:
        raise AssertionError("nothing is kept in a rehearsal")

    def provide(self, plan: Sequence[tuple[Sequence[Call], int]]) -> None:
        pass

    def costs(self) -> list[dict[str, Any]]:
        return []

    def restart(self, party: Endpoint) -> None:
        raise AssertionError("no worker is lost in a rehearsal")


def rehearsing(rank: int) -> Endpoint:
    """Return an endpoint without a peer."""
    return Endpoint(rank, Silence(), Requests(rank))
