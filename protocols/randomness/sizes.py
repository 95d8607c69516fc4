"""How many bytes the dealer sends for a request: its description, read by a view that counts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from mpc.correlation import Correlation, Recipe
from mpc.rehearsal import TraceView
from mpc.ring import Shape
from mpc.rings import AnyRing
from protocols.randomness.views import aligned


class _CountingView(TraceView):
    """Counts the bytes of corrections to either party."""

    def __init__(self) -> None:
        super().__init__(0)
        self.bytes = [0, 0]

    def derived(self, ring: AnyRing, shape: Shape, recipe: Recipe, to: int = 1) -> np.ndarray:
        self.bytes[to] += sum(map(aligned, ring.sizes(shape)))
        return super().derived(ring, shape, recipe, to)

    def both(self, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray:
        for to in (0, 1):
            self.bytes[to] += sum(map(aligned, ring.sizes(shape)))
        return super().both(ring, shape, recipe)


@lru_cache(maxsize=4096)
def correction_bytes(request: Correlation[object]) -> tuple[int, int]:
    """Bytes of corrections to party 0 and to party 1."""
    view = _CountingView()
    request.deal(view)
    return view.bytes[0], view.bytes[1]


def dealt_bytes(correlations: Iterable[Correlation[object]]) -> dict[str, tuple[int, int]]:
    """Bytes of corrections to party 0 and to party 1, by the name of the correlation."""
    totals: dict[str, tuple[int, int]] = {}
    for correlation in correlations:
        name, (first, second) = type(correlation).__name__, correction_bytes(correlation)
        before = totals.get(name, (0, 0))
        totals[name] = before[0] + first, before[1] + second
    return totals
