"""The samples of the catalogue as test cases: one small run of every protocol on random data of the right range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpc.catalogue import Call, entries
from mpc.contract import Contract
from mpc.rings import Z64
from mpc.shares import PShare
from tests.mpc.twoparty import bit_half, ring_half


@dataclass(frozen=True)
class RandomInputs:
    """Inputs drawn from `rng`, and how they are shared."""

    party: Any
    rng: Any
    ring_half: Callable = ring_half
    bit_half: Callable = bit_half

    def words(self, low, high, *shape, ring=Z64, scale=0):
        return self.ring_half(self.rng.integers(low, high, shape), self.party.rank, ring.dtype, scale)

    def bits(self, *shape):
        return self.bit_half(self.rng.integers(0, 2, shape), self.party.rank)

    def packed(self, *shape):
        return PShare(self.words(0, 2**62, *shape).words, self.party.rank)

    def known(self, low, high, *shape):
        return self.rng.integers(low, high, shape)


@dataclass(frozen=True)
class Case:
    """A protocol, and one call of it."""

    protocol: Contract
    call: Call

    @property
    def name(self) -> str:
        return self.protocol.name + "".join(f"-{v}" for v in self.call.named.values())

    @property
    def named(self) -> dict:
        return self.call.named

    def arguments(self, party, rng, size):
        return self.call.arguments(RandomInputs(party, rng), size)


CASES = [Case(entry.protocol, call) for entry in entries() for call in entry.samples]
_NAMES = [case.name for case in CASES]
IDS = [f"{name}-{_NAMES[:i].count(name)}" for i, name in enumerate(_NAMES)]
