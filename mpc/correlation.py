"""Correlated randomness: one description, read by the dealer, by either party and by the planner.

A kind is a frozen dataclass of public shapes with one method, `deal(hand)`, that names in order the values
that both parties will hold. Whose hand it is decides what happens:

* the dealer's hand draws both parties' streams, computes what is derived and writes the corrections;
* a party's hand draws its own stream, and reads the corrections that the dealer sent to it;
* the planner's hand returns zeros: a program that runs on it lists its demand without a private byte.

Security   every value that a party holds is a word of its own stream, or a correction that is masked by a
           word of the other's stream: uniform, so a party alone learns nothing.
Source     Beaver, CRYPTO 1991 (precomputation); pseudorandom correlation by seed and correction as in
           Araki et al., CCS 2016.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from mpc.ring import U64, Shape

T_co = TypeVar("T_co", covariant=True)


class Hand(Protocol):
    """What `Correlation.deal` may ask for. The dealer gets values, a party its share of them."""

    def mask(self, shape: Shape, dtype: np.dtype = U64, xor: bool = False) -> np.ndarray:
        """A uniform secret array, shared by addition or by xor."""

    def mask_bits(self, shape: Shape) -> np.ndarray:
        """Uniform secret bits (uint8 0 or 1), shared by xor."""

    def private(self, owner: int, shape: Shape, dtype: np.dtype = U64) -> Any:
        """A uniform array that `owner` alone knows; the other party gets None."""

    def derived(
        self,
        value: Callable[[], np.ndarray],
        shape: Shape,
        dtype: np.dtype = U64,
        xor: bool = False,
        to: int = 1,
        bits: int | None = None,
    ) -> np.ndarray:
        """A function of dealt values, computed by the dealer only, shared; `to` receives the correction.

        Where only the low `bits` of the shares count, no more is sent.
        """

    def derived_bits(self, value: Callable[[], np.ndarray], shape: Shape, to: int = 1) -> np.ndarray:
        """Derived bits, shared by xor, packed on the wire."""

    def both(self, value: Callable[[], np.ndarray], shape: Shape, dtype: np.dtype) -> np.ndarray:
        """What the dealer sends to both parties alike: corrections of keys, pseudorandom to either."""

    def permutation_key(self) -> bytes:
        """The session's key for fixed-key AES, known to all three."""

    def computed(self, owner: int, value: Callable[[], np.ndarray], shape: Shape, dtype: np.dtype) -> Any:
        """What `owner` works out of its own words and kept matrices, offline where the request is known; else None."""

    def keep(self, number: int, mask: np.ndarray) -> None:
        """The dealer remembers the mask of a known matrix."""

    def kept(self, number: int) -> np.ndarray:
        """The dealer's mask U of a known matrix; at the party that does not own the matrix, D = M - U."""

    def drop(self, number: int) -> None:
        """Forget what `kept` would give."""


def private_to_each(hand: Hand, shape: Shape, dtype: np.dtype = U64) -> tuple[list[Any], Any]:
    """A uniform array for each party that it alone knows: both, as the dealer sees them, and the one that is seen."""
    both = [hand.private(owner, shape, dtype) for owner in (0, 1)]
    return both, both[0] if both[0] is not None else both[1]


class Correlation(Protocol[T_co]):
    """A request for correlated randomness: a frozen dataclass of public shapes."""

    def deal(self, hand: Hand) -> T_co:
        """This hand's view of the dealt values."""
