"""The catalogue: each protocol's samples, prices and evidence, declared next to the protocol.

    describe(
        square,
        samples=calls(lambda i, n: [i.words(-9, 9, n)]),
        priced=calls(lambda i, n: [i.words(0, 1, n)], element="square"),
        evidence=[Enumerated("Z_4", (word(2),), lambda x: x * x)],
    )

Used by wire pins, contract checks and leakage tests (samples), docs/complexity.md and the benchmarks (priced), proofs
(evidence), and plans (correlations).
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import mpc
from mpc.endpoint import Endpoint
from mpc.offline.correlation import CORRELATIONS
from mpc.protocol.contract import Contract
from mpc.protocol.evidence import Evidence
from mpc.rings import Z64, Z2k
from mpc.shares import AShare, BShare, PShare


class Inputs(Protocol):
    """Makes the arguments of a call at one party, from random numbers, fixed numbers or zeros."""

    @property
    def party(self) -> Endpoint: ...

    def words(self, low: int, high: int, *shape: int, ring: Z2k = Z64, scale: int = 0) -> AShare:
        """Return shares of integers low .. high - 1."""

    def bits(self, *shape: int) -> BShare:
        """Return shares of bits."""

    def packed(self, *shape: int) -> PShare:
        """Return shares of words of bits."""

    def known(self, low: int, high: int, *shape: int) -> np.ndarray:
        """Return integers low .. high - 1 in the clear."""


@dataclass(frozen=True)
class Call:
    """One call: positional arguments for a size n, named arguments, and, for the complexity page, what n counts."""

    arguments: Callable[[Inputs, int], Sequence[Any]]
    named: dict[str, Any]
    element: str = ""


def calls(
    arguments: Callable[[Inputs, int], Sequence[Any]], *named: dict[str, Any], element: str = ""
) -> tuple[Call, ...]:
    """Return one call per set of named arguments, all with the same positional arguments."""
    return tuple(Call(arguments, variant, element) for variant in named or ({},))


@dataclass(frozen=True)
class Entry:
    """A protocol with its calls and evidence; in `lanes`, each index of the first axis is a separate run."""

    protocol: Contract[..., Any]
    samples: Sequence[Call]
    priced: Sequence[Call]
    evidence: Sequence[Evidence]
    lanes: Sequence[Call]


_ENTRIES: dict[str, Entry] = {}


def describe(
    protocol: Contract[..., Any],
    *,
    samples: Sequence[Call],
    priced: Sequence[Call],
    evidence: Sequence[Evidence],
    lanes: Sequence[Call] | None = None,
) -> None:
    """Add a protocol to the catalogue."""
    _ENTRIES[protocol.name] = Entry(protocol, samples, priced, evidence, samples if lanes is None else lanes)


@functools.cache
def _load() -> None:
    for module in pkgutil.walk_packages(mpc.__path__, "mpc."):
        importlib.import_module(module.name)


def entries() -> list[Entry]:
    """Return every protocol of this package, sorted by module."""
    _load()
    return sorted(_ENTRIES.values(), key=lambda entry: entry.protocol.name.split(".")[0])


def correlations() -> dict[str, type]:
    """Return every correlation by the name of its class."""
    _load()
    return CORRELATIONS


@dataclass(frozen=True)
class Zeros:
    """Inputs that are all zero, for calls in which only the shapes matter."""

    party: Endpoint

    def words(self, low: int, high: int, *shape: int, ring: Z2k = Z64, scale: int = 0) -> AShare:
        return AShare(np.zeros(shape, ring.dtype), self.party.rank, scale)

    def bits(self, *shape: int) -> BShare:
        return BShare(np.zeros(shape, np.uint8), self.party.rank)

    def packed(self, *shape: int) -> PShare:
        return PShare(np.zeros(shape, np.uint64), self.party.rank)

    def known(self, low: int, high: int, *shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)
