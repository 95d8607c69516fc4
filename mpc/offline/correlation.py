"""Correlated randomness: one description, used by the dealer, by either party and by the planner.

A correlation is a frozen dataclass of public shapes with one method, `deal(view)`, which requests in order the values
that both parties will hold. The view determines what happens:

* the dealer's view draws both parties' streams, computes the derived values and writes the corrections;
* a party's view draws its own stream, and reads the corrections that the dealer sent to it;
* the planner's view returns zeros: a program that runs on it lists its demand without any private data.

`@correlation` makes the dataclass and registers it, so that a plan on the wire can name it.

Security   every value that a party holds is a word of its own stream, or a correction that is masked by a
           word of the other's stream: it is uniform, so neither party learns anything from its own values.
Source     Beaver, CRYPTO 1991 (precomputation); pseudorandom correlation by seed and correction as in
           Araki et al., CCS 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, TypeVar, dataclass_transform

import numpy as np

from mpc.rings import AnyRing
from mpc.words import Shape

T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C")
# How derived values are computed: an object as in mpc/offline/recipes.py, or any function where only a dealer can make
# them. It returns an array, or a tuple of several.
Recipe = Callable[..., Any]
# The ring and shape of a derived value.
Result = tuple[AnyRing, Shape]


class Mask(NamedTuple):
    """Among derived values: a uniform secret array, which is drawn in this place."""

    ring: AnyRing
    shape: Shape


class Half(NamedTuple):
    """A view's part of a derived value, and its ring."""

    ring: AnyRing
    out: np.ndarray


class View(Protocol):
    """The values that `Correlation.deal` may request. The dealer gets the values, a party its share of them."""

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        """Return a uniform secret array, shared."""

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> Any:
        """Return a uniform array that only `owner` knows; the other party gets None."""

    def private_rows(self, owner: int, ring: AnyRing, shape: Shape) -> Any:
        """As `private`, but drawn as slices of rows are read: x[a:b] is an array."""

    def derived(self, ring: AnyRing, shape: Shape, recipe: Recipe, to: int = 1) -> np.ndarray:
        """Return a share of a function of dealt values, computed only by the dealer; `to` gets the correction."""
        (value,) = self.derived_many([(ring, shape)], recipe, to)
        return value

    def derived_many(self, results: Sequence[Result], recipe: Recipe, to: int | None = 1) -> list[np.ndarray]:
        """Return shares of several values that one recipe computes, in the order in which they are drawn.

        If there are masks among them, `recipe` is a function of the masks that returns the recipe. If `to` is None, the
        dealer sends the values to both parties: corrections of keys, pseudorandom to each.
        """
        drawn = [self.mask(*one) if isinstance(one, Mask) else self.half(*one, to) for one in results]
        both = list(zip(results, drawn, strict=True))
        if masks := [array for one, array in both if isinstance(one, Mask)]:
            recipe = recipe(*masks)
        values = iter(self.made(recipe, [Half(one[0], array) for one, array in both if not isinstance(one, Mask)], to))
        return [array if isinstance(one, Mask) else next(values) for one, array in both]

    def half(self, ring: AnyRing, shape: Shape, to: int | None) -> np.ndarray:
        """Draw or read this view's part of a derived value, before its recipe is run."""

    def made(self, recipe: Recipe, halves: Sequence[Half], to: int | None) -> Sequence[np.ndarray]:
        """Return the values of a recipe, given this view's part of each, which is what a party holds."""
        return [half for _, half in halves]

    def permutation_key(self) -> bytes:
        """Return the session's key for fixed-key AES, known to the dealer and both parties."""
        raise AssertionError("this view has no session")

    def computed(self, owner: int, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray | None:
        """Return what `owner` computes from its words and kept matrices, offline if the request is known; else None."""
        return None

    def keep(self, number: int, mask: Any) -> None:
        """Keep the mask of a known matrix, or where to draw it, at the dealer."""
        return None

    def kept(self, number: int) -> Any:
        """Return the dealer's mask U of a known matrix; at the party that does not own the matrix, D = M - U."""
        raise AssertionError("this view computes with no masks")

    def drop(self, number: int) -> None:
        """Delete what `kept` returns."""
        return None


def in_shape(values: Any, halves: Sequence[Half]) -> list[np.ndarray]:
    """Return the values of a recipe in the rings and shapes of `halves`."""
    pairs = zip(values if isinstance(values, tuple) else (values,), halves, strict=True)
    return [np.asarray(value, ring.dtype).reshape(half.shape) for value, (ring, half) in pairs]


def private_to_each(view: View, ring: AnyRing, shape: Shape) -> tuple[list[Any], Any]:
    """Draw a uniform array for each party that only it knows; return both, as the view sees them, and its own."""
    both = [view.private(owner, ring, shape) for owner in (0, 1)]
    return both, both[0] if both[0] is not None else both[1]


class Correlation(Protocol[T_co]):
    """A request for correlated randomness: a frozen dataclass of public shapes."""

    def deal(self, view: View) -> T_co:
        """Return this view of the dealt values."""

    def __hash__(self) -> int: ...


CORRELATIONS: dict[str, type] = {}


@dataclass_transform(frozen_default=True)
def correlation(described: type[C]) -> type[C]:
    """Turn a class of public shapes with `deal` into a frozen dataclass that plans can name.

    Its module must have `from __future__ import annotations`: plans read types of fields as text. Raises TypeError.
    """
    made = dataclass(frozen=True)(described)
    for each in fields(made):  # type: ignore[arg-type]  # it is a dataclass
        if not isinstance(each.type, str):
            raise TypeError(
                f"{made.__name__}.{each.name} must have its type as text, got {each.type!r}: begin the module with "
                "`from __future__ import annotations`"
            )
    CORRELATIONS[made.__name__] = made
    return made
