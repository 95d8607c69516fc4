"""How many bytes the dealer sends for a request: its description, read by a hand that counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from mpc.correlation import Correlation
from mpc.rehearsal import TraceHand
from mpc.ring import U64, Shape, packed_sizes
from protocols.randomness.hands import aligned


class _CountingHand(TraceHand):
    """Counts the bytes of corrections to either party."""

    def __init__(self) -> None:
        super().__init__(0)
        self.bytes = [0, 0]

    def _count(self, to: int, shape: Shape, bits: int) -> None:
        self.bytes[to] += sum(map(aligned, packed_sizes(math.prod(shape), bits)))

    def derived(
        self,
        value: Callable[[], np.ndarray],
        shape: Shape,
        dtype: np.dtype = U64,
        xor: bool = False,
        to: int = 1,
        bits: int | None = None,
    ) -> np.ndarray:
        self._count(to, shape, bits or 8 * dtype.itemsize)
        return super().derived(value, shape, dtype, xor, to, bits)

    def both(self, value: Callable[[], np.ndarray], shape: Shape, dtype: np.dtype) -> np.ndarray:
        for to in (0, 1):
            self._count(to, shape, 8 * dtype.itemsize)
        return super().both(value, shape, dtype)

    def derived_bits(self, value: Callable[[], np.ndarray], shape: Shape, to: int = 1) -> np.ndarray:
        self._count(to, shape, 1)
        return super().derived_bits(value, shape, to)


def dealt_bytes(kinds: Iterable[Correlation]) -> dict[str, tuple[int, int]]:
    """Bytes of corrections to party 0 and to party 1, by the name of the kind."""
    totals: dict[str, tuple[int, int]] = {}
    for kind in kinds:
        hand = _CountingHand()
        kind.deal(hand)
        name = type(kind).__name__
        before = totals.get(name, (0, 0))
        totals[name] = before[0] + hand.bytes[0], before[1] + hand.bytes[1]
    return totals
