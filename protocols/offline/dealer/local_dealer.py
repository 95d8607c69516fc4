"""A dealer inside the test process, which deals every request when a party takes it.

For tests and notebooks only: both parties' seeds are in one process. Real parties use the dealer process.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from mpc.meter import Stage
from mpc.offline.correlation import Correlation
from protocols.offline.plan import Plan
from protocols.offline.streams import Rows, Streams
from protocols.offline.views import DealerView, PartyView

T = TypeVar("T")


class LocalDealer:
    """One party's end of a dealer that both parties compute from the same two seeds."""

    def __init__(self, rank: int, seeds: tuple[bytes, bytes], nonce: bytes = bytes(16)) -> None:
        self._rank, self._index = rank, 0
        self._streams = Streams(seeds[0], nonce), Streams(seeds[1], nonce)
        self._dealer_matrices: dict[int, np.ndarray | Rows] = {}
        self._matrices: dict[int, np.ndarray] = {}

    has_dealer = True
    dealt = used = 0
    waited = 0.0
    billed: Stage | None = None

    @property
    def matrices_kept(self) -> tuple[int, int]:
        """Return how many known matrices are still kept: by the dealer, by this party."""
        return len(self._dealer_matrices), len(self._matrices)

    def provide(self, plan: Plan) -> None:
        """Do nothing: requests are dealt when they are taken."""

    def discard(self) -> None:
        """Do nothing: no request is dealt ahead."""

    def take(self, correlation: Correlation[T]) -> T:
        index, self._index = self._index, self._index + 1
        dealer = DealerView((self._streams[0].of(index), self._streams[1].of(index)), self._dealer_matrices)
        correlation.deal(dealer)
        mine = dealer.corrections[self._rank]
        corrections = np.concatenate(mine) if mine else np.zeros(0, np.uint8)
        return correlation.deal(PartyView(self._rank, self._streams[self._rank].of(index), corrections, self._matrices))

    def keep(self, number: int, matrix: Any) -> None:
        self._matrices[number] = matrix

    def forget(self, number: int) -> None:
        self._matrices.pop(number, None)
