"""Planning: run a program on zeros, with no peer and no dealer, and list the correlated randomness that it asks for.

Rounds and requests depend on public shapes alone, so the list found on zeros is the demand of the real run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpc.correlation import Correlation
from mpc.party import Like, Party
from mpc.ring import U64, Shape
from mpc.shares import AShare, BShare


class TraceHand:
    """Zeros wherever this rank would hold a value."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def mask(self, shape: Shape, dtype: np.dtype = U64, xor: bool = False) -> np.ndarray:
        return np.zeros(shape, dtype)

    def mask_bits(self, shape: Shape) -> np.ndarray:
        return np.zeros(shape, np.uint8)

    def private(self, owner: int, shape: Shape, dtype: np.dtype = U64) -> np.ndarray | None:
        return np.zeros(shape, dtype) if owner == self._rank else None

    def derived(
        self,
        value: Callable[[], np.ndarray],
        shape: Shape,
        dtype: np.dtype = U64,
        xor: bool = False,
        to: int = 1,
        bits: int | None = None,
    ) -> np.ndarray:
        return np.zeros(shape, dtype)

    def derived_bits(self, value: Callable[[], np.ndarray], shape: Shape, to: int = 1) -> np.ndarray:
        return np.zeros(shape, np.uint8)

    def both(self, value: Callable[[], np.ndarray], shape: Shape, dtype: np.dtype) -> np.ndarray:
        return np.zeros(shape, dtype)

    def permutation_key(self) -> bytes:
        return bytes(16)

    def computed(self, owner: int, value: Callable[[], np.ndarray], shape: Shape, dtype: np.dtype) -> np.ndarray | None:
        return np.zeros(shape, dtype) if owner == self._rank else None

    def keep(self, number: int, mask: np.ndarray | None) -> None:
        pass

    def kept(self, number: int) -> np.ndarray:
        raise AssertionError("a trace computes no masks")

    def drop(self, number: int) -> None:
        pass


class _Tracer:
    """Randomness that records what is asked for."""

    received = used = 0

    def __init__(self, rank: int) -> None:
        self._hand = TraceHand(rank)
        self.kinds: list[Correlation] = []

    def take(self, kind: Correlation) -> Any:
        self.kinds.append(kind)
        return kind.deal(self._hand)

    def keep(self, number: int, masked: np.ndarray) -> None:
        pass

    def provide(self, plan: Sequence[tuple[Sequence[Correlation], int]]) -> None:
        pass


class _Silence:
    """A link that answers every round with zeros."""

    wire_sent = wire_received = 0

    def exchange(self, tag: str, arrays: Sequence[np.ndarray], like: Sequence[Like] | None = None) -> list[np.ndarray]:
        return [np.zeros(shape, dtype) for shape, dtype in like or []]

    def swap(self, tag: str, tree: Any) -> Any:
        raise AssertionError("a trace tells no facts")


class _Rehearsing(Party):
    """A party that learns nothing: with no peer, what it opens is half a result, and means nothing."""

    def reveal(self, x: AShare | BShare, *, to: int | None = None, what: str) -> np.ndarray | None:
        opened = super().reveal(x, to=to, what=what)
        return None if opened is None else np.zeros_like(opened)


class Trace:
    """A rehearsal of what `party` is about to do: run programs on `trace.party`, then `cut()` the demand so far."""

    def __init__(self, party: Party) -> None:
        self._tracer = _Tracer(party.rank)
        self.party = _Rehearsing(
            party.rank, _Silence(), self._tracer, comparison=party.comparison, matrices=party.matrices
        )

    @classmethod
    def at(cls, rank: int) -> Trace:
        """A rehearsal of party `rank` from its first step, where there is no party yet."""
        return cls(Party(rank, _Silence(), _Tracer(rank)))

    def cut(self) -> list[Correlation]:
        """The requests since the last cut."""
        kinds, self._tracer.kinds = self._tracer.kinds, []
        return kinds
