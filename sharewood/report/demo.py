"""The demo's report, and its form on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mpc.meter import Stage
from secure_tree.public.config import Partition, TrainConfig
from sharewood.report.figures import (
    IN_PLACE,
    MEASURES,
    Figures,
    OfflinePhase,
    OnlinePhase,
    Phase,
    Prediction,
    Quality,
    Run,
    merge_texts,
)
from sharewood.report.shards import Peak, ShardCosts

Stages = dict[str, Stage]


@dataclass(frozen=True)
class DemoTables(Figures):
    """Sizes and names of the data; `judged_on`: the validation rows in words.

    rows: of both parties, followed by those of further `owners`.
    """

    rows: list[int]
    features: int
    partition: Partition
    title: str
    judged_on: str
    owners: list[str] = field(default_factory=list)

    @property
    def divided(self) -> str:
        """How many rows everyone has, in words."""
        first, *others = zip(self.rows, ("party_a", "party_b", *self.owners), strict=True)
        return ", ".join([f"{first[0]:,} rows at {first[1]}", *(f"{rows:,} at {name}" for rows, name in others)])


@dataclass(frozen=True)
class LearningCurve(Figures):
    """The metric after each of `trees` rounds, by kind of rows ("training", "held_out"), and their numbers."""

    metric: str
    trees: list[int]
    rows: dict[str, int] = field(default_factory=dict)
    sharewood: dict[str, list[float]] = field(default_factory=dict)
    xgboost: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class DemoCosts(Figures):
    """Both parties' meters combined, with the bytes of both; `parts` are those of the online phase.

    `training_seconds` is the wall-clock time of the whole training, in which offline and online overlap. Seconds are
    those of the slower party, except online: there, they are those of the party that waited longer for the dealer,
    because the other party waited for it meanwhile, and counted this time as online.
    """

    training_seconds: float
    setup: Phase
    offline: OfflinePhase
    online: OnlinePhase
    parts: dict[str, Phase]
    predict: Prediction

    @classmethod
    def of(
        cls, seconds: float, stages: Sequence[Stages], parts: Sequence[Stages], trees: int, predicted: int
    ) -> DemoCosts:
        """Combine `stages` and `parts` of both parties, for a training of these seconds and rounds of trees."""

        def of_both(each: Sequence[Stages], name: str) -> Phase:
            spent = [stages[name] for stages in each]
            which = max if name in ("setup", "offline") else min
            seconds, rounds = which(s.seconds for s in spent), max(s.rounds for s in spent)
            return Phase(seconds, rounds, sum(s.bytes_sent for s in spent), sum(s.bytes_dealt for s in spent))

        setup, offline, online, predict = (of_both(stages, name) for name in ("setup", "offline", "online", "predict"))
        return cls(
            seconds,
            Phase(setup.seconds, setup.rounds, setup.bytes + (setup.bytes_dealt or 0)),
            OfflinePhase(offline.seconds, offline.rounds, offline.bytes, offline.bytes_dealt),
            OnlinePhase(online.seconds, online.rounds, online.bytes, trees=trees),
            {name: of_both(parts, name) for name in parts[0]},
            Prediction(predict.seconds, predict.rounds, predict.bytes, rows=predicted),
        )


@dataclass(frozen=True)
class DemoReport(Figures):
    """Everything that the process which started the demo knows; lists are by rank of the party."""

    run: Run
    data: DemoTables
    config: TrainConfig
    quality: Quality
    curve: LearningCurve
    costs: DemoCosts = field(metadata=IN_PLACE)
    revealed: list[list[str]]
    memory_peak_bytes: dict[str, Peak]
    pid: dict[str, int]
    generator: str
    contributions: dict[str, dict[str, Any]] = field(default_factory=dict)
    shards: int = 0
    by_shard: dict[str, list[ShardCosts]] | None = None


def print_report(report: DemoReport, out: Path) -> None:
    """Print quality beside XGBoost if it is installed, cost by phase, and what each party learned."""
    console = Console()
    data, config = report.data, report.config
    console.print(
        f"\n[bold]{data.title}[/bold], {data.partition}: {data.divided}, "
        f"{data.features} features in all; {config.n_estimators} trees of depth {config.max_depth}, "
        f"{config.binning(data.rows)}\n"
    )
    console.print(_quality(report))
    console.print(_costs(report.costs))
    console.print("[bold]What each party learned[/bold] besides row counts, feature names and parameters:")
    for name, revealed in zip(("party_a", "party_b"), report.revealed, strict=True):
        console.print(f"  {name}: {'; '.join(merge_texts(revealed)) or 'nothing'}")
    if report.generator == "dealer":
        console.print("  dealer: the shapes of the computation")
    console.print()
    console.print(f"Each party's half of the model, and this report as JSON and as a page, are in {out}/")


def _quality(report: DemoReport) -> Table:
    table = Table(title=f"Quality on {report.data.judged_on}", title_justify="left")
    table.add_column("measure")
    table.add_column("Sharewood, on secret shares", justify="right")
    if report.quality.xgboost:
        table.add_column("XGBoost, on pooled rows", justify="right")
    for key, value in report.quality.own.items():
        if value is not None:
            table.add_row(
                MEASURES[key], *(f"{each[key]:.4f}" for each in (report.quality.own, report.quality.xgboost) if each)
            )
    return table


def _costs(costs: DemoCosts) -> Table:
    table = Table(title="Cost (TLS on this machine; bytes in both directions)", title_justify="left")
    for column in ("phase", "seconds", "rounds", "between the parties", "from the dealer"):
        table.add_column(column, justify="left" if column == "phase" else "right")

    def add(name: str, phase: Phase, digits: int = 2) -> None:
        dealt = "" if phase.bytes_dealt is None else megabytes(phase.bytes_dealt)
        table.add_row(name, f"{phase.seconds:.{digits}f}", f"{phase.rounds:.0f}", megabytes(phase.bytes), dealt)

    add("setup, once", costs.setup)
    add("offline, independent of the data", costs.offline)
    add("online", costs.online)
    add("  per tree", costs.online.per_tree, 3)
    table.add_row("training in all, where the two overlap", f"{costs.training_seconds:.2f}", "", "", "")
    add(f"prediction of {costs.predict.rows} rows", costs.predict, 3)
    return table


def megabytes(count: float) -> str:
    """Bytes in MB."""
    return f"{count / 1e6:.2f} MB"
