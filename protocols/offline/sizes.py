"""The bytes that a request takes, on the wire and at a party, counted by a view that reads its description."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from mpc.offline.correlation import Correlation, Recipe
from mpc.protocol.rehearsal import TraceView
from mpc.rings import AnyRing
from mpc.words import Shape
from protocols.offline.plan import Plan, encode_plan
from protocols.offline.views import aligned
from protocols.transport.codec import encode

# Approximate bytes that a request takes at a party besides its arrays.
_BESIDE = 512


@dataclass(frozen=True)
class RequestBytes:
    """Bytes of a request: its corrections to party 0 and to party 1, and its memory at the party that needs more."""

    corrections: tuple[int, int]
    held: int


class _CountingView(TraceView):
    """Counts the bytes of corrections to each party, and of what this rank draws or receives; allocates none."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.corrections = [0, 0]
        self.held = _BESIDE

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        return self._counted(ring, shape)

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> np.ndarray | None:
        return self._counted(ring, shape) if owner == self._rank else None

    def half(self, ring: AnyRing, shape: Shape, to: int | None) -> np.ndarray:
        for rank in (0, 1) if to is None else (to,):
            self.corrections[rank] += sum(map(aligned, ring.sizes(shape)))
        return self._counted(ring, shape)

    def computed(self, owner: int, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray | None:
        return self._counted(ring, shape) if owner == self._rank else None

    def _counted(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        array = np.broadcast_to(ring.dtype.type(0), shape)
        self.held += array.nbytes
        return array


@lru_cache(maxsize=4096)
def request_bytes(request: Correlation[object]) -> RequestBytes:
    """Return the bytes of one request."""
    views = _CountingView(0), _CountingView(1)
    for view in views:
        request.deal(view)
    first, second = views[0].corrections
    return RequestBytes((first, second), max(view.held for view in views))


def dealt_bytes(correlations: Iterable[Correlation[object]]) -> dict[str, tuple[int, int]]:
    """Return the bytes of corrections to party 0 and to party 1, by the name of the correlation."""
    totals: dict[str, tuple[int, int]] = {}
    for correlation in correlations:
        name, (first, second) = type(correlation).__name__, request_bytes(correlation).corrections
        before = totals.get(name, (0, 0))
        totals[name] = before[0] + first, before[1] + second
    return totals


@dataclass(frozen=True, eq=False)
class Portion:
    """Requests that are made together, and the bytes of each."""

    requests: list[Correlation[object]]
    sizes: list[RequestBytes]

    @cached_property
    def held(self) -> int:
        """The bytes of all requests at the party that needs more."""
        return sum(size.held for size in self.sizes)

    @cached_property
    def encoded(self) -> bytes:
        """The portion as a plan, encoded."""
        return b"".join(encode(encode_plan([(self.requests, 1)])))

    def repeated(self, times: int) -> Portion:
        """Return the same requests, repeated."""
        return Portion(self.requests * times, self.sizes * times)


Weigh = Callable[[Correlation[object]], int]


def portions(plan: Plan, size: int, most: int, weigh: Weigh) -> Iterator[Portion]:
    """Cut a plan into portions of at most `size` in weight and `most` in requests; a heavier request is alone in one.

    A list that is made many times is cut in the same way each time, into the same objects.
    """
    for requests, times in plan:
        cut = list(_cut(requests, size, most, weigh))
        together = 1
        if len(cut) == 1:
            weight = max(1, sum(map(weigh, requests)))
            together = max(1, min(times, most // len(requests), size // weight))
        several = [portion.repeated(together) for portion in cut]
        for _ in range(times // together):
            yield from several
        if rest := times % together:
            yield from (portion.repeated(rest) for portion in cut)


def _cut(requests: Sequence[Correlation[object]], size: int, most: int, weigh: Weigh) -> Iterator[Portion]:
    portion, room = Portion([], []), size
    for request in requests:
        weight = weigh(request)
        if portion.requests and (weight > room or len(portion.requests) == most):
            yield portion
            portion, room = Portion([], []), size
        portion.requests.append(request)
        portion.sizes.append(request_bytes(request))
        room -= weight
    if portion.requests:
        yield portion
