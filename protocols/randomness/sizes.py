"""How many bytes a request takes, on the wire and at a party: its description, read by a view that counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mpc.correlation import Correlation, Recipe
from mpc.rehearsal import TraceView
from mpc.ring import Shape
from mpc.rings import AnyRing
from protocols.randomness.plan import Plan, in_order
from protocols.randomness.views import aligned

# Bytes that a request takes at a party beside its arrays, about.
_BESIDE = 512


@dataclass(frozen=True)
class RequestBytes:
    """Of corrections to party 0 and to party 1, and what the request takes at the party where that is more."""

    corrections: tuple[int, int]
    held: int


class _CountingView(TraceView):
    """Counts the bytes of corrections to either party, and of what this rank makes or is sent."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.corrections = [0, 0]
        self.held = _BESIDE

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        return self._counted(super().mask(ring, shape))

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> np.ndarray | None:
        made = super().private(owner, ring, shape)
        return None if made is None else self._counted(made)

    def derived(self, ring: AnyRing, shape: Shape, recipe: Recipe, to: int = 1) -> np.ndarray:
        self.corrections[to] += sum(map(aligned, ring.sizes(shape)))
        return self._counted(super().derived(ring, shape, recipe, to))

    def both(self, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray:
        for to in (0, 1):
            self.corrections[to] += sum(map(aligned, ring.sizes(shape)))
        return self._counted(super().both(ring, shape, recipe))

    def computed(self, owner: int, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray | None:
        made = super().computed(owner, ring, shape, recipe)
        return None if made is None else self._counted(made)

    def _counted(self, array: np.ndarray) -> np.ndarray:
        self.held += array.nbytes
        return array


@lru_cache(maxsize=4096)
def request_bytes(request: Correlation[object]) -> RequestBytes:
    """What one request takes."""
    views = _CountingView(0), _CountingView(1)
    for view in views:
        request.deal(view)
    first, second = views[0].corrections
    return RequestBytes((first, second), max(view.held for view in views))


def dealt_bytes(correlations: Iterable[Correlation[object]]) -> dict[str, tuple[int, int]]:
    """Bytes of corrections to party 0 and to party 1, by the name of the correlation."""
    totals: dict[str, tuple[int, int]] = {}
    for correlation in correlations:
        name, (first, second) = type(correlation).__name__, request_bytes(correlation).corrections
        before = totals.get(name, (0, 0))
        totals[name] = before[0] + first, before[1] + second
    return totals


def portions(plan: Plan, size: int, most: int) -> Iterator[list[Correlation[object]]]:
    """The requests of a plan in pieces of `size` bytes at a party and `most` requests; a larger request by itself."""
    portion: list[Correlation[object]] = []
    room = size
    for request in in_order(plan):
        held = request_bytes(request).held
        if portion and (held > room or len(portion) == most):
            yield portion
            portion, room = [], size
        portion.append(request)
        room -= held
    if portion:
        yield portion
