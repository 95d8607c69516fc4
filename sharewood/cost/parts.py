"""The parts of `sharewood plan` besides a training: rounds and bytes with a dealer, and without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from mpc.planning import Demand
from protocols.offline.pairwise.making_cost import making_cost
from protocols.offline.sizes import dealt_bytes
from protocols.ot.correlated import OtKind
from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.cost import plan_exploration
from secure_tree.monitor.config import MonitorConfig
from secure_tree.monitor.cost import plan_monitoring
from secure_tree.prediction.reasons.cost import plan_reasons
from secure_tree.public.config import Method, TrainConfig
from secure_tree.training.cost import Sizes
from sharewood.cost.plan import FRAME_BYTES
from sharewood.report.figures import Figures

# Rows whose reasons are planned.
ROWS = 100


@dataclass(frozen=True)
class PlannedPart(Figures):
    """Rounds and bytes between the parties, in both directions, and bytes of the dealer; and without a dealer, with
    what the two make themselves.
    """

    what: str
    rounds: int
    bytes: int
    bytes_dealer: int
    pairwise_rounds: int
    pairwise_bytes: int
    transfers: int

    @classmethod
    def of(cls, what: str, dealt: Demand, paired: Demand, ot: OtKind) -> Self:
        """Return the costs of a demand with a dealer, and of the one without."""
        made = making_cost(paired.plans or [paired.requests], ot)
        rounds = paired.rounds + made.rounds
        return cls(
            what,
            dealt.rounds,
            dealt.sent + dealt.received + 2 * dealt.rounds * FRAME_BYTES,
            sum(sum(both) for both in dealt_bytes(dealt.requests).values()),
            rounds,
            paired.sent + paired.received + sum(made.bits) // 8 + 2 * rounds * FRAME_BYTES,
            made.transfers,
        )

    def __str__(self) -> str:
        return (
            f"{self.what} with a dealer: {self.rounds:,} rounds, {self.bytes:,} bytes between the parties, "
            f"{self.bytes_dealer:,} from the dealer; without: {self.pairwise_rounds:,} rounds, "
            f"{self.pairwise_bytes:,} bytes, {self.transfers:,} oblivious transfers"
        )


def planned_exploration(config: ExploreConfig, sizes: Sizes, ot: OtKind) -> PlannedPart:
    """Plan an exploration of tables of these sizes, of which the second by columns has the labels."""
    features, weighted = (len(sizes.names[0]), len(sizes.names[1])), sizes.largest_weight is not None
    owners = sizes.owner_rows if config.partition == "horizontal" else ()
    dealt, paired = (
        plan_exploration(
            config,
            sizes.rows,
            features,
            weighted=weighted,
            dealer=with_dealer,
            owner_rows=owners,
            round_price=sizes.round_price,
        )
        for with_dealer in (True, False)
    )
    return PlannedPart.of("Exploration", dealt, paired, ot)


def planned_monitoring(config: MonitorConfig, train: TrainConfig, sizes: Sizes, ot: OtKind) -> PlannedPart:
    """Plan a monitoring of as many scored rows as are trained on, with two groups that the party without labels has."""
    context, features = sizes.context(train), (len(sizes.names[0]), len(sizes.names[1]))
    dealt, paired = (
        plan_monitoring(
            config,
            train.partition,
            sizes.rows,
            features,
            bits=context.numerics.margin_bound + 2,
            dealer=with_dealer,
            round_price=sizes.round_price,
        )
        for with_dealer in (True, False)
    )
    return PlannedPart.of("Monitoring", dealt, paired, ot)


def planned_reasons(config: TrainConfig, sizes: Sizes, top: int, method: Method, ot: OtKind) -> Sequence[PlannedPart]:
    """Plan the table of a model that is trained on tables of these sizes, and reasons of some rows, without groups."""
    context = sizes.context(config)
    dealt, paired = (
        plan_reasons(context, ROWS, top=top, method=method, dealer=with_dealer, round_price=sizes.round_price)
        for with_dealer in (True, False)
    )
    names = "Table of reasons", f"Reasons of {ROWS} rows"
    return [PlannedPart.of(what, *both, ot) for what, both in zip(names, zip(dealt, paired, strict=True), strict=True)]
