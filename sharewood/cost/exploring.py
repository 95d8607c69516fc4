"""The part of `sharewood plan` for the section explore: rounds and bytes with a dealer, and without one."""

from __future__ import annotations

from dataclasses import dataclass

from protocols.offline.pairwise.client import MOST, PORTION, count_transfers
from protocols.offline.pairwise.cost import TransferCost, transfers_of
from protocols.offline.sizes import dealt_bytes, portions
from protocols.ot.correlated import COT_BITS, OtKind
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.cost import plan_exploration
from secure_tree.training.cost import Sizes
from sharewood.cost.plan import FRAME_BYTES
from sharewood.report.figures import Figures


@dataclass(frozen=True)
class PlannedExploration(Figures):
    """Rounds and bytes between the parties, in both directions, and bytes of the dealer; and without a dealer, with
    what the two make themselves.
    """

    rounds: int
    bytes: int
    bytes_dealer: int
    pairwise_rounds: int
    pairwise_bytes: int
    transfers: int

    @classmethod
    def of(cls, config: ExploreConfig, sizes: Sizes, ot: OtKind) -> PlannedExploration:
        """Plan an exploration of tables of these sizes, of which the second by columns has the labels."""
        features = len(sizes.names[0]), len(sizes.names[1])
        dealt, paired = (
            plan_exploration(
                config,
                sizes.rows,
                features,
                weighted=sizes.largest_weight is not None,
                dealer=with_dealer,
                owner_rows=sizes.owner_rows if config.partition == "horizontal" else (),
            )
            for with_dealer in (True, False)
        )
        made, kept = TransferCost(), set[int]()
        for portion in portions([(paired.requests, 1)], PORTION, MOST, count_transfers):
            made = made.after(transfers_of(portion.requests, kept))
        transfers = sum(made.transfers)
        extension = round(transfers * COT_BITS[ot] / 8)
        rounds = paired.rounds + 2 * made.waves
        return cls(
            dealt.rounds,
            dealt.sent + dealt.received + 2 * dealt.rounds * FRAME_BYTES,
            sum(sum(both) for both in dealt_bytes(dealt.requests).values()),
            rounds,
            paired.sent + paired.received + extension + sum(made.bits) // 8 + 2 * rounds * FRAME_BYTES,
            transfers,
        )

    def __str__(self) -> str:
        return (
            f"Exploration with a dealer: {self.rounds:,} rounds, {self.bytes:,} bytes between the parties, "
            f"{self.bytes_dealer:,} from the dealer; without: {self.pairwise_rounds:,} rounds, "
            f"{self.pairwise_bytes:,} bytes, {self.transfers:,} oblivious transfers"
        )
