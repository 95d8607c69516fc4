"""The cost of the material of plans that two parties make: rounds, bits and transfers, counted without a run.

Rounds are exact, and those of client.py: of the waves of each piece of a portion, in halves if it is large, and of the
extensions whenever correlated transfers run out. Bits are exact but for padding to whole bytes, up to six bytes for
each wave and party. The set-up of the transfers is not counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mpc.offline.correlation import Correlation
from protocols.offline.pairwise.client import MOST, PORTION, count_transfers, first_uses, halves
from protocols.offline.pairwise.cost import Wave, transfers_of
from protocols.offline.sizes import portions
from protocols.ot.correlated import EXTENSIONS, OtKind


@dataclass
class MakingCost:
    """Rounds, the bits that party 0, and party 1, sends, and transfers."""

    ot: OtKind
    rounds: int = 0
    bits: list[int] = field(default_factory=lambda: [0, 0])
    transfers: int = 0
    _open: list[int] = field(default_factory=lambda: [0, 0])

    def turns(self, waves: Iterable[Wave]) -> Iterator[bool]:
        """Yield for each round of the waves, as protocols/ot/transfers.py takes them."""
        extension = EXTENSIONS[self.ot]
        for wave in waves:
            missing = [max(0, count - left) for count, left in zip(wave[:2], self._open, strict=True)]
            for chooser, count in enumerate(missing):
                self._open[chooser] -= wave[chooser] - count
                self.transfers += wave[chooser]
                self.bits[chooser] += wave[chooser] + wave[2 + chooser]
            if any(missing):
                yield from (True,) * extension.rounds
                for chooser, count in enumerate(missing):
                    if not count:
                        continue
                    batches, made = extension.made(count)
                    self._open[chooser] += made - count
                    sizes = {"sender": extension.check[0], "receiver": extension.check[1]}
                    sizes[extension.extender] += batches * extension.bits
                    self.bits[1 - chooser] += sizes["sender"]
                    self.bits[chooser] += sizes["receiver"]
            yield from (True, True)


def making_cost(plans: Iterable[Sequence[Correlation[object]]], ot: OtKind) -> MakingCost:
    """Return the cost of plans that are provided one after another. Raises NeedsDealer."""
    cost, kept, seen = MakingCost(ot), set[int](), set[int]()
    for plan in plans:
        for portion in portions([(plan, 1)], PORTION, MOST, count_transfers):
            starts = [0, *first_uses(portion.requests, seen), len(portion.requests)]
            for start, end in pairwise(starts):
                piece = portion.requests[start:end]
                each = [transfers_of(half, kept) for half in halves(piece, [count_transfers(r) for r in piece])]
                turns = deque(cost.turns(one.by_wave) for one in each)
                while turns:
                    if next(turns[0], False):
                        cost.rounds += 1
                        turns.append(turns[0])
                    turns.popleft()
    return cost
