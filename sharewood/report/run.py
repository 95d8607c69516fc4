"""A party's reports of its runs between hosts: the run, the resulting model, its cost."""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from mpc.errors import DataError
from mpc.host.files import remove, write_bytes
from mpc.party import Party
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.model.storage import write_json
from secure_tree.public.config import TrainConfig
from secure_tree.public.objectives import Metric
from secure_tree.training.train import LearningCurve, LearningCurves
from sharewood.logs import say
from sharewood.report.figures import (
    IN_PLACE,
    Figures,
    Measures,
    OfflinePhase,
    OnlinePhase,
    Phase,
    Prediction,
    Run,
    merge_texts,
)
from sharewood.report.shards import Peak, ShardCosts, by_shard, peaks, with_workers

log = logging.getLogger("sharewood")


@dataclass
class PartyCosts(Figures):
    """Costs as one party measured them: stages, parts of a round of trees, peak memory, revealed values."""

    stages: dict[str, Phase] = field(metadata=IN_PLACE)
    parts: dict[str, Phase]
    revealed: list[str]
    memory_peak_bytes: dict[str, Peak]
    shards: int = 0
    by_shard: list[ShardCosts] | None = None

    @classmethod
    def of(cls, party: Party, name: str, *, trees: int | None = None, rows: int = 0) -> PartyCosts:
        """Return the costs of party `name` in a training of `trees` rounds, or a prediction of `rows` rows."""
        workers = party.workers.costs() if party.workers else []
        together = with_workers(party.stages, workers)
        stages = {stage: Phase.of_party(spent) for stage, spent in together.items()}
        if "offline" in stages:
            stages["offline"] = OfflinePhase(**vars(stages["offline"]))
        if "online" in stages:
            stages["online"] = OnlinePhase(**vars(stages["online"]), trees=trees)
        if "predict" in stages:
            stages["predict"] = Prediction(**vars(stages["predict"]), rows=rows)
        parts = {part: Phase.of_party(spent) for part, spent in party.parts.items()}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return cls(stages, parts, party.revealed, {name: peaks(peak, workers)}, len(workers), by_shard(workers) or None)


@dataclass
class PartyReport(Figures):
    """The cost of a command; `written` are its files, and `record` is the line of the ledger that both have signed."""

    costs: PartyCosts = field(metadata=IN_PLACE)
    written: list[str] = field(default_factory=list, kw_only=True)
    record: dict[str, Any] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class TrainingTables(Figures):
    """Rows of each party that were trained on, and held out; features of both parties together.

    `weighted`, `positives`: whether this party's rows have weights, and the share of its labels that are 1; None if
    only its workers know. owners: the rows of owners who are no party, by name, if any.
    """

    rows: list[int]
    held: list[int]
    features: int
    weighted: bool | None = None
    positives: float | None = None
    owners: dict[str, int] | None = None


@dataclass(frozen=True)
class RoundsOfTrees(Figures):
    """Rounds requested, grown, and kept in the model, with their metric, and those that a resumed run began with.

    Early stopping keeps the rounds up to the best metric, and drops the later ones.
    """

    asked: int
    grown: int
    kept: int
    metric: float | None
    resumed_after: int

    @classmethod
    def of(cls, estimator: SecureXGBClassifier | SecureXGBRegressor, resumed_after: int | None) -> RoundsOfTrees:
        """Return those of a fitted estimator."""
        assert estimator.model is not None, "the estimator has been fitted"
        asked, kept = estimator.model.config.n_estimators, estimator.model.rounds
        grown = estimator.curve[-1][0] if estimator.curve else asked
        return cls(asked, grown, kept, dict(estimator.curve).get(kept), resumed_after or 0)


@dataclass(frozen=True)
class ShardTables(Figures):
    """Rows of every shard of each party that were trained on, and the rank errors of private bins by feature.

    Errors are fractions of the rows, as in secure_tree/data/sketches.py; None if bins are joint, or were cut earlier.
    """

    rows: list[list[int]]
    rank_errors: dict[str, float] | None = None

    @classmethod
    def of(cls, estimator: SecureXGBClassifier | SecureXGBRegressor) -> ShardTables | None:
        """Return those of a fitted estimator; None if there were no shards."""
        if (division := estimator.division) is None:
            return None
        return cls([list(rows) for rows in division.rows], division.bins.rank_errors if division.bins else None)


@dataclass
class TrainingReport(PartyReport):
    """A training; `curves` are (rounds, value) of every metric of held-out rows, and `curve` is that of `metric`."""

    run: Run
    data: TrainingTables
    config: TrainConfig
    rounds_of_trees: RoundsOfTrees
    metric: Metric
    curve: LearningCurve
    curves: LearningCurves
    division: ShardTables | None = None


@dataclass(frozen=True)
class PredictionTable(Figures):
    """Numbers of own rows, and of features of the model."""

    rows: int
    features: int


@dataclass
class PredictionReport(PartyReport):
    """A prediction; `config` is that of the model, `predict` that of the prediction.

    `quality` has metrics of own rows, if their labels are known.
    """

    run: Run
    data: PredictionTable
    config: TrainConfig
    predict: dict[str, Any]
    quality: Measures | None = None


def page_beside(result: Path) -> Path:
    """Return the path of the page about the run that wrote `result`."""
    return result.with_name(f"{result.stem}.report.html")


def write_reports(result: Path | None, page: str | None, report: PartyReport, json: Path | None) -> None:
    """Write the page beside `result`, and the figures to `json`, if there are any; their `written` lists the files.

    The result already exists, so a failure to write the page is only a warning, and the page of an earlier run is
    removed. Raises DataError for `json`.
    """
    written = f"; {result} is written" if result else ""
    report.written = [str(result)] if result else []
    if result and page:
        try:
            remove(page_beside(result))
            write_bytes(page_beside(result), page.encode())
            report.written.append(str(page_beside(result)))
        except DataError as error:
            log.warning("%s%s", error, written)
    if json:
        try:
            write_json(json, report.document())
        except DataError as error:
            raise DataError(f"{error}{written}") from None


def print_costs(what: str, report: PartyReport, started: float) -> None:
    """Print the seconds since `started` and of each stage, traffic, what this party learned, and the written files."""
    stages = report.costs.stages
    rounds, sent = sum(stage.rounds for stage in stages.values()), sum(stage.bytes for stage in stages.values())
    parts = ", ".join(f"{name.replace('_', ' ')} {stage.seconds:.1f} s" for name, stage in stages.items())
    say(f"{what} in {monotonic() - started:.1f} s, including start-up and waiting ({parts})")
    say(f"{rounds:.0f} rounds, {sent / 1e6:.2f} MB exchanged with the other party")
    print_learned(report)


def print_learned(report: PartyReport) -> None:
    """Print what this party learned, and the written files."""
    learned = "; ".join(merge_texts(report.costs.revealed)) or "nothing"
    say(f"this party learned, besides row counts, feature names and parameters: {learned}")
    if report.record and "number" in report.record:
        say(f"number {report.record['number']} of the ledger is a record of this run, signed by both parties")
    if report.written:
        say(f"wrote {' and '.join(report.written)}")
