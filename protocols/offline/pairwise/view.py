"""A party's view of a request that two parties make without a dealer, and how its derived values are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from mpc.errors import ConfigError
from mpc.offline.correlation import Correlation, Half, Recipe, View, in_shape
from mpc.offline.recipes import Later, Pair
from mpc.offline.transfers import OfflineSteps
from mpc.rings import AnyRing, RandomStream
from mpc.rounds import parallel
from mpc.words import Shape
from protocols.offline.pairwise.operands import Operands
from protocols.offline.streams import Streams


class NeedsDealer(ConfigError):
    """A correlation that two parties cannot make without a dealer."""


@dataclass(frozen=True)
class Derived:
    """Derived values to make: their recipe, and the ring of each with the array to put it in."""

    recipe: Any
    values: Sequence[Half]


class PairView(View):
    """Draws one party's halves of one request, and collects the derived values to make and the matrices to forget."""

    def __init__(self, rank: int, stream: RandomStream, request: Correlation[Any]) -> None:
        self._rank, self._stream, self._request = rank, stream, request
        self.due: list[Derived] = []
        self.dropped: list[int] = []

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        return ring.draw(self._stream, shape)

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> np.ndarray | None:
        return self.mask(ring, shape) if owner == self._rank else None

    private_rows = private

    def half(self, ring: AnyRing, shape: Shape, to: int | None) -> np.ndarray:
        return np.empty(shape, ring.dtype)

    def made(self, recipe: Recipe, halves: Sequence[Half], to: int | None) -> Sequence[np.ndarray]:
        if not hasattr(recipe, "between"):
            self._refuse()
        self.due.append(Derived(recipe, halves))
        return super().made(recipe, halves, to)

    def permutation_key(self) -> bytes:
        self._refuse()

    def keep(self, number: int, mask: Any) -> None:
        self._refuse()

    def drop(self, number: int) -> None:
        self.dropped.append(number)

    def _refuse(self) -> NoReturn:
        raise NeedsDealer(f"{type(self._request).__name__} must come from a dealer: two parties cannot make it")


@dataclass
class LocalPair:
    """Implements `mpc.offline.recipes.Pair` for one party."""

    rank: int
    streams: Streams
    operands: Operands
    _drawn: int = 0

    def common(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        self._drawn += 1
        return ring.draw(self.streams.of(self._drawn - 1), shape)


def fulfil(pair: Pair, due: Sequence[Derived]) -> OfflineSteps[None]:
    """Make the derived values of one request, in the same rounds; then those that use them."""
    for later in (False, True):
        these = [derived for derived in due if isinstance(derived.recipe, Later) == later]
        made = yield from parallel(*(derived.recipe.between(pair) for derived in these))
        for derived, values in zip(these, made, strict=True):
            for (_, out), value in zip(derived.values, in_shape(values, derived.values), strict=True):
                out[...] = value
