"""A party's view of a request that two parties make without a dealer, and how its derived values are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NoReturn

import numpy as np

from mpc.errors import ConfigError
from mpc.offline.correlation import Correlation, Recipe
from mpc.offline.recipes import Applied, Pair
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
    """A derived value to make: its recipe, its ring, and the array to put it in."""

    recipe: Any
    ring: AnyRing
    out: np.ndarray


class PairView:
    """Draws one party's halves of one request, and collects the derived values to make and the matrices to forget."""

    def __init__(self, rank: int, stream: RandomStream, request: Correlation[Any]) -> None:
        self._rank, self._stream, self._request = rank, stream, request
        self.made: list[Derived] = []
        self.dropped: list[int] = []

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        return ring.draw(self._stream, shape)

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> np.ndarray | None:
        return self.mask(ring, shape) if owner == self._rank else None

    def private_rows(self, owner: int, ring: AnyRing, shape: Shape) -> NoReturn:
        self._refuse()

    def derived(self, ring: AnyRing, shape: Shape, recipe: Recipe, to: int = 1) -> np.ndarray:
        if not hasattr(recipe, "between"):
            self._refuse()
        out = np.empty(shape, ring.dtype)
        self.made.append(Derived(recipe, ring, out))
        return out

    def both(self, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray:
        self._refuse()

    def permutation_key(self) -> bytes:
        self._refuse()

    def computed(self, owner: int, ring: AnyRing, shape: Shape, recipe: Recipe) -> None:
        return None

    def keep(self, number: int, mask: Any) -> None:
        self._refuse()

    def kept(self, number: int) -> np.ndarray:
        raise AssertionError("only a dealer computes with kept matrices")

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

    def applied(self, recipe: Applied) -> OfflineSteps[np.ndarray]:
        return self.operands.applied(recipe)


def fulfil(pair: Pair, made: Sequence[Derived]) -> OfflineSteps[None]:
    """Make the derived values of one request; those that do not depend on each other are made in the same rounds."""
    left, done = list(made), set[int]()
    due = {id(derived.out) for derived in made}
    while left:
        ready = [derived for derived in left if _inputs(derived.recipe) & due <= done]
        values = yield from parallel(*(derived.recipe.between(pair) for derived in ready))
        for derived, value in zip(ready, values, strict=True):
            derived.out[...] = np.asarray(value, derived.ring.dtype).reshape(derived.out.shape)
            done.add(id(derived.out))
        left = [derived for derived in left if id(derived.out) not in done]


def _inputs(recipe: Any) -> set[int]:
    """Return the arrays that a recipe uses."""
    arrays = (getattr(recipe, f.name) for f in fields(recipe))
    return {id(a) for array in arrays if isinstance(array, np.ndarray) for a in (array, array.base)}
