"""The samples of the catalogue as test cases: a small run of every protocol on random data of the right range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.endpoint import Endpoint
from mpc.protocol.catalogue import Call, Entry
from mpc.protocol.contract import Contract
from mpc.rings import Z64, Z2k
from mpc.shares import AShare, BShare, PShare
from protocols.testing.two_parties import bit_half, ring_half


@dataclass
class RandomInputs:
    """Inputs drawn from `rng`, and the functions that share them."""

    party: Endpoint
    rng: np.random.Generator
    ring_half: Callable[..., AShare] = ring_half
    bit_half: Callable[..., BShare] = bit_half

    def words(self, low: int, high: int, *shape: int, ring: Z2k = Z64, scale: int = 0) -> AShare:
        """Return shares of integers low .. high - 1."""
        return self.ring_half(self.rng.integers(low, high, shape), self.party.rank, ring.dtype, scale)

    def bits(self, *shape: int) -> BShare:
        """Return shares of bits."""
        return self.bit_half(self.rng.integers(0, 2, shape), self.party.rank)

    def packed(self, *shape: int) -> PShare:
        """Return shares of packed bits."""
        return PShare(self.words(0, 2**62, *shape).words, self.party.rank)

    def known(self, low: int, high: int, *shape: int) -> np.ndarray:
        """Return integers low .. high - 1 in the clear."""
        return self.rng.integers(low, high, shape)


@dataclass(frozen=True)
class Case:
    """A protocol and one call of it; `name` is unique among the calls of all protocols."""

    protocol: Contract[..., Any]
    call: Call
    name: str

    @property
    def named(self) -> dict[str, Any]:
        """The keyword arguments."""
        return self.call.named

    def arguments(self, party: Endpoint, rng: np.random.Generator, size: int) -> Sequence[Any]:
        """Return the positional arguments for a size, drawn from `rng`."""
        return self.call.arguments(RandomInputs(party, rng), size)


def cases(entries: Iterable[Entry], lanes: bool = False) -> list[Case]:
    """Return every sample of these catalogue entries; `lanes`: those with a run on every index of the first axis."""
    found: list[Case] = []
    seen: dict[str, int] = {}
    for entry in entries:
        for call in entry.lanes if lanes else entry.samples:
            name = entry.protocol.name + "".join(f"-{value}" for value in call.named.values())
            found.append(Case(entry.protocol, call, f"{name}-{seen.setdefault(name, 0)}"))
            seen[name] += 1
    return found
