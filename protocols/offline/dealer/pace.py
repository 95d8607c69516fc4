"""How fast a dealer sends: fast enough for the parties, and no faster.

On a host's only line, a stream at full speed fills the buffer before the line, and the messages between the parties
wait behind it. A party asks for a portion once its program has taken another of the same size, so the time between two
plans is the time in which the parties use a portion: the dealer spreads what it sends over a part of it. If the parties
ask for more while a portion is under way, they may be short of material, and the rest is sent at full speed. Parties
that have never asked for more than one portion at once wait for each: they get all of them at full speed. So are small
portions, which no message waits behind for long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import monotonic

import numpy as np

from protocols.transport.channel import Channel, first_to_speak

# The part of the time between two plans in which a portion is sent, and the most seconds that are taken for that time:
# after a pause, the parties may need the portion at once.
_SHARE, _MOST_SECONDS = 0.8, 2.0
# The number of plans that are remembered, and the bytes that all of them together must have to be paced.
_PLANS, _LEAST = 3, 1 << 22


class Pace:
    """The speed of a dealer's channels to both parties, set for every portion."""

    def __init__(self, parties: Sequence[Channel]) -> None:
        self._parties = parties
        # When each plan arrived, and its bytes.
        self._plans: deque[tuple[float, int]] = deque(maxlen=_PLANS)
        self._paced = self._streaming = False

    def begin(self, size: int) -> None:
        """Set the speed for a portion of `size` bytes to both parties together, whose plan has just arrived."""
        self._plans.append((monotonic(), size))
        times, sizes = zip(*self._plans, strict=True)
        if self._streaming and len(times) == _PLANS:
            # The last portions may not have left yet.
            span = _SHARE * min(_MOST_SECONDS, *np.diff(times))
            self._set(max(sizes) / span if sum(sizes) >= _LEAST else None)
        self.look()

    def look(self) -> None:
        """Send at full speed from now on if a party has sent the next plan."""
        if (self._paced or not self._streaming) and first_to_speak(self._parties, 0):
            self._streaming = True
            self._set(None)

    def _set(self, rate: float | None) -> None:
        if rate is not None or self._paced:
            for channel in self._parties:
                channel.pace(rate)
        self._paced = rate is not None
