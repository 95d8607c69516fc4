"""What a party reports of its run between hosts: which run it was, which model came of it, what it cost."""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass, field
from pathlib import Path

from mpc.errors import DataError
from mpc.files import remove, write_bytes
from mpc.party import Party
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.config import Metric, TrainConfig
from secure_tree.storage import write_json
from secure_tree.training import Curve, Curves
from sharewood.figures import IN_PLACE, Figures, Measures, Offline, Online, Phase, Prediction, Run
from sharewood.shard_costs import Peak, ShardCosts, by_shard, peaks, with_workers

log = logging.getLogger("sharewood")


@dataclass
class PartyCosts(Figures):
    """As one party measured it: stages of the meter, parts of a round of trees, peak memory, what was revealed."""

    stages: dict[str, Phase] = field(metadata=IN_PLACE)
    parts: dict[str, Phase]
    revealed: list[str]
    memory_peak_bytes: dict[str, Peak]
    shards: int = 0
    by_shard: list[ShardCosts] | None = None

    @classmethod
    def of(cls, party: Party, name: str, *, trees: int | None = None, rows: int = 0) -> PartyCosts:
        """Those of party `name` in a training of so many rounds of trees, or a prediction of so many rows."""
        workers = party.workers.costs() if party.workers else []
        together = with_workers(party.stages, workers)
        stages = {stage: Phase.of_party(spent) for stage, spent in together.items()}
        if "offline" in stages:
            stages["offline"] = Offline(**vars(stages["offline"]))
        if "online" in stages:
            stages["online"] = Online(**vars(stages["online"]), trees=trees)
        if "predict" in stages:
            stages["predict"] = Prediction(**vars(stages["predict"]), rows=rows)
        parts = {part: Phase.of_party(spent) for part, spent in party.parts.items()}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return cls(stages, parts, party.revealed, {name: peaks(peak, workers)}, len(workers), by_shard(workers) or None)


@dataclass
class PartyReport(Figures):
    """What a command cost; `written` are its files."""

    costs: PartyCosts = field(metadata=IN_PLACE)
    written: list[str] = field(default_factory=list, kw_only=True)


@dataclass(frozen=True)
class TrainingTables(Figures):
    """Rows of either party that were trained on, and held out; features of both together."""

    rows: list[int]
    held: list[int]
    features: int


@dataclass(frozen=True)
class RoundsOfTrees(Figures):
    """Rounds asked for, grown, and kept in the model, with their metric; and those that a resumed run began with.

    Early stopping keeps the rounds with the best metric, and drops those that it took to see that.
    """

    asked: int
    grown: int
    kept: int
    metric: float | None
    resumed_after: int

    @classmethod
    def of(cls, estimator: SecureXGBClassifier | SecureXGBRegressor, resumed_after: int | None) -> RoundsOfTrees:
        """Those of a fitted estimator."""
        assert estimator.model is not None, "the estimator has been fitted"
        asked, kept = estimator.config.n_estimators, estimator.model.rounds
        grown = estimator.curve[-1][0] if estimator.curve else asked
        return cls(asked, grown, kept, dict(estimator.curve).get(kept), resumed_after or 0)


@dataclass(frozen=True)
class ShardTables(Figures):
    """Rows of every shard of either party that were trained on. Of private bins that were cut in this run, by feature
    the error of a rank as a share of the rows, as of secure_tree/sketches.py; None: they were cut before, or are joint.
    """

    rows: list[list[int]]
    rank_errors: dict[str, float] | None = None

    @classmethod
    def of(cls, estimator: SecureXGBClassifier | SecureXGBRegressor) -> ShardTables | None:
        """Those of a fitted estimator; None where there were no shards."""
        if (division := estimator.division) is None:
            return None
        return cls([list(rows) for rows in division.rows], division.bins.rank_errors if division.bins else None)


@dataclass
class TrainingReport(PartyReport):
    """`curves`: of every metric of held-out rows, rounds of trees and its value; `curve` that of `metric`, the last."""

    run: Run
    data: TrainingTables
    config: TrainConfig
    rounds_of_trees: RoundsOfTrees
    metric: Metric
    curve: Curve
    curves: Curves
    division: ShardTables | None = None


@dataclass(frozen=True)
class PredictionTable(Figures):
    """Own rows, and features of the model."""

    rows: int
    features: int


@dataclass
class PredictionReport(PartyReport):
    """`config` is that of the model, `predict` that of the prediction; `quality`: measures of own rows, where their
    labels are known.
    """

    run: Run
    data: PredictionTable
    config: TrainConfig
    predict: dict[str, str | None]
    quality: Measures | None = None


def page_beside(result: Path) -> Path:
    """The path of the page about the run that wrote `result`."""
    return result.with_name(f"{result.stem}.report.html")


def write_reports(result: Path | None, page: str | None, report: PartyReport, json: Path | None) -> None:
    """Write the page beside `result`, and the figures to `json`, where there are any; `written` in them are the files.

    The result is there already, so a page that cannot be written is a warning, and that of an earlier run goes. Raises
    DataError for `json`.
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
