"""Correlated randomness: one description, read by the dealer, by either party and by the planner.

A correlation is a frozen dataclass of public shapes with one method, `deal(view)`, that names in order the values that
both parties will hold. Whose view it is decides what happens:

* the dealer's view draws both parties' streams, computes what is derived and writes the corrections;
* a party's view draws its own stream, and reads the corrections that the dealer sent to it;
* the planner's view returns zeros: a program that runs on it lists its demand without a private byte.

`@correlation` makes the dataclass and registers it, so that a plan on the wire can name it.

Security   every value that a party holds is a word of its own stream, or a correction that is masked by a
           word of the other's stream: uniform, so one party by itself learns nothing.
Source     Beaver, CRYPTO 1991 (precomputation); pseudorandom correlation by seed and correction as in
           Araki et al., CCS 2016.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar, dataclass_transform

import numpy as np

from mpc.ring import Shape
from mpc.rings import AnyRing

T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C")
# What a derived value is: an object of mpc/recipes.py, or any function where only a dealer can make it.
Recipe = Callable[[], np.ndarray]


class View(Protocol):
    """What `Correlation.deal` may ask for. The dealer gets values, a party its share of them."""

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        """A uniform secret array, shared."""

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> Any:
        """A uniform array that only `owner` knows; the other party gets None."""

    def private_rows(self, owner: int, ring: AnyRing, shape: Shape) -> Any:
        """As `private`, drawn as slices of rows are read: x[a:b] is an array."""

    def derived(self, ring: AnyRing, shape: Shape, recipe: Recipe, to: int = 1) -> np.ndarray:
        """A function of dealt values, computed by the dealer only, shared; `to` receives the correction."""

    def both(self, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray:
        """What the dealer sends to both parties alike: corrections of keys, pseudorandom to either."""

    def permutation_key(self) -> bytes:
        """The session's key for fixed-key AES, known to all three."""

    def computed(self, owner: int, ring: AnyRing, shape: Shape, recipe: Recipe) -> np.ndarray | None:
        """What `owner` works out of its own words and kept matrices, offline where the request is known; else None."""

    def keep(self, number: int, mask: Any) -> None:
        """The dealer remembers the mask of a known matrix, or where to draw it."""

    def kept(self, number: int) -> Any:
        """The dealer's mask U of a known matrix; at the party that does not own the matrix, D = M - U."""

    def drop(self, number: int) -> None:
        """Forget what `kept` would give."""


def private_to_each(view: View, ring: AnyRing, shape: Shape) -> tuple[list[Any], Any]:
    """A uniform array for each party that only it knows: both, as the dealer sees them, and the one that is seen."""
    both = [view.private(owner, ring, shape) for owner in (0, 1)]
    return both, both[0] if both[0] is not None else both[1]


class Correlation(Protocol[T_co]):
    """A request for correlated randomness: a frozen dataclass of public shapes."""

    def deal(self, view: View) -> T_co:
        """This view of the dealt values."""

    def __hash__(self) -> int: ...


CORRELATIONS: dict[str, type] = {}


@dataclass_transform(frozen_default=True)
def correlation(described: type[C]) -> type[C]:
    """A class of public shapes with `deal`, as a frozen dataclass that plans can name.

    Its module has `from __future__ import annotations`: a plan reads the types of the fields as text. Raises TypeError.
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
