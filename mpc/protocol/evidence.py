"""Evidence for a protocol's privacy: enumerated, composed of others, or argued with a bound.

Declared here, checked elsewhere: `protocols/testing/exhaustive.py` enumerates, `tests/notebooks` compares compositions
with their parts, and `tests/leakage` assesses the transcripts of all protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from mpc.protocol.contract import Contract
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, PShare, Share
from mpc.words import U8, U64, Shape


@dataclass(frozen=True)
class Bits:
    """The `bits` bits of a word from bit `low` up, which are enumerated and compared."""

    bits: int
    low: int = 0

    def look(self, words: np.ndarray) -> np.ndarray:
        """Return these bits of the words, as small integers."""
        return (words.astype(U64) >> np.uint64(self.low) & np.uint64((1 << self.bits) - 1)).astype(np.uint16)


@dataclass(frozen=True)
class EveryValue:
    """An argument that takes every value: shared, or known to the parties in `known_to`."""

    window: Bits
    dtype: np.dtype
    shape: Shape
    known_to: tuple[int, ...] | None = None
    kind: type[Share] = AShare
    scale: int = 0


def word(k: int, *shape: int, dtype: np.dtype = U64, low: int = 0, scale: int = 0) -> EveryValue:
    """Shared words of Z_2^k, as `Bits(k, low)`; the cases are an axis before `shape`."""
    return EveryValue(Bits(k, low), dtype, shape, scale=scale)


def bit(*shape: int) -> EveryValue:
    """Shared bits."""
    return EveryValue(Bits(1), U8, shape, kind=BShare)


def packed(k: int, *shape: int) -> EveryValue:
    """Shared bytes in which k bits vary."""
    return EveryValue(Bits(k), U8, shape, kind=PShare)


def private(owner: int, k: int, *shape: int, dtype: np.dtype = U64) -> EveryValue:
    """Words of k bits that `owner` passes in the clear; the other party passes None."""
    return EveryValue(Bits(k), dtype, shape, known_to=(owner,))


def public(k: int, *shape: int, dtype: np.dtype = U64) -> EveryValue:
    """Words of k bits that both parties pass."""
    return EveryValue(Bits(k), dtype, shape, known_to=(0, 1))


@dataclass(frozen=True)
class Enumerated:
    """Checked on every case by `protocols.testing.exhaustive.check`; `name` states the domain.

    `steps` replaces the protocol where it is not run by itself. `padded` is False for protocols that reveal. `fresh` is
    False where a party's output share is a function of its own input share. `long`: takes minutes rather than seconds.
    """

    name: str
    arguments: tuple[Any, ...]
    ideal: Callable[..., Any]
    steps: Callable[..., Steps[Any]] | None = None
    ring: Bits | None = None
    draws: Sequence[Bits | None] = ()
    output: Bits | None = None
    promise: Callable[..., Any] | None = None
    halves: bool = False
    batched: bool = True
    padded: bool = True
    fresh: bool = True
    long: bool = False


@dataclass(frozen=True)
class Composed:
    """Sends only the messages of its parts, on their correlations, and is private because they are."""

    parts: tuple[Contract[..., Any], ...]


@dataclass(frozen=True)
class Argued:
    """Not enumerable: the reason, and the bound of the simulation."""

    why: str
    bound: str


Evidence: TypeAlias = Enumerated | Composed | Argued


def composed(*parts: Contract[..., Any]) -> tuple[Composed]:
    """Return the evidence of a protocol that is composed of these parts."""
    return (Composed(parts),)


def signed(value: np.ndarray, k: int) -> np.ndarray:
    """Read numbers below 2^k as two's complement."""
    return (value ^ 1 << k - 1) - (1 << k - 1)


def in_half_range(k: int) -> Callable[[np.ndarray], np.ndarray]:
    """Select inputs of k bits whose sum with the offset of a truncation or widening stays below the top bit."""
    return lambda x: np.abs(signed(x, k) + 0.5) < 1 << k - 2
