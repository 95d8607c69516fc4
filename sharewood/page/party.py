"""The pages of one party between hosts, with what it knows, and nothing of the other party's."""

from __future__ import annotations

import numpy as np

from secure_tree.training.train import LearningCurve
from sharewood.page import sections
from sharewood.page.charts import ChartLine, some
from sharewood.page.document import CellTable, Headline, Page, Section
from sharewood.page.units import seconds, size
from sharewood.report.figures import Measures
from sharewood.report.quality import log_odds, without_metrics
from sharewood.report.run import PartyReport, PredictionReport, RoundsOfTrees, TrainingReport

_ROWS = 10
_PHASES = {
    "rows": "comparing the ids of the rows",
    "setup": "set-up, once",
    "offline": "offline, independent of the data",
    "online": "online",
    "predict_offline": "offline",
    "predict": "prediction",
}


def training_page(name: str, parties: tuple[str, str], report: TrainingReport) -> str:
    """Return the HTML of a training's report at party `name`."""
    data, config, trees = report.data, report.config, report.rounds_of_trees
    rows = " and ".join(f"{count:,} at {who}" for who, count in zip(parties, data.rows, strict=True))
    if config.partition == "vertical":
        rows = f"{data.rows[0]:,}, the same at both parties"
    facts = [f"row counts ({rows})", f"the names and order of {data.features} features", "every parameter below"]
    page = Page(
        title=f"Training at {name}",
        subtitle=f"Rows trained on: {rows}; {data.features} features in total. Trees of depth {config.max_depth}, "
        f"{config.binning(data.rows)}. {_rounds(trees)} "
        f"{_shards(report)}{_own(name, report)}This report has what {name} knows.",
        about=sections.about(report.run),
        headlines=[*_kept(report.metric, trees), *_spent(report, trees.resumed_after)],
        sections=[
            _learning(report),
            *_costs(name, report),
            _disclosure(name, report, facts),
            *_by_shard(name, report),
            sections.memory(report.costs.memory_peak_bytes),
            sections.configuration(config),
            sections.files(report.run),
        ],
    )
    return page.html()


def _own(name: str, report: TrainingReport) -> str:
    """Describe the weights and labels of a party's own rows, which the other party does not see."""
    positives, weighted = report.data.positives, report.data.weighted
    if weighted is None:
        return ""
    labels = "" if positives is None else f" and {positives:.2%} positive labels"
    return f"The rows of {name} have {'weights' if weighted else 'no weights'}{labels}. "


def _shards(report: TrainingReport) -> str:
    if report.division is None:
        return ""
    rows = [count for of_party in report.division.rows for count in of_party]
    said = f"Rows in {len(report.division.rows[0])} shards per party, of {min(rows):,} to {max(rows):,} rows. "
    if (errors := report.division.rank_errors) is None:
        return said
    return f"{said}Ranks of own edges are off by at most {max(errors.values()):.2%} of the rows in 99% of sketches. "


def prediction_page(
    name: str, report: PredictionReport, predictions: np.ndarray, labels: np.ndarray | None, binary: bool
) -> str:
    """Return the HTML of a prediction's report at party `name`; `labels` are those of its rows, if its file has them.

    `binary`: whether there are two classes, which predictions rank.
    """
    data, measures = report.data, report.quality or {}
    facts = ["row counts", f"the names and order of {data.features} features", "the model's parameters"]
    headlines = [
        *(Headline(sections.named(key), sections.measured(measures[key]), "own rows") for key in list(measures)[:1]),
        *_spent(report),
    ]
    page = Page(
        title=f"Prediction at {name}",
        subtitle=f"{data.rows:,} own rows; {data.features} features of the model. This report has what {name} knows.",
        about=sections.about(report.run),
        headlines=headlines,
        sections=[
            _quality(measures, predictions, labels, binary),
            *_decisions(report, predictions, labels, binary),
            *_costs(name, report),
            _disclosure(name, report, facts),
            *_by_shard(name, report),
            sections.memory(report.costs.memory_peak_bytes),
            sections.configuration(report.config),
            sections.files(report.run),
        ],
    )
    return page.html()


def _by_shard(name: str, report: PartyReport) -> list[Section]:
    workers = report.costs.by_shard
    return [sections.shards({name: workers})] if workers else []


def _rounds(trees: RoundsOfTrees) -> str:
    """Describe the rounds of trees that were grown and kept."""
    text = f"The model has {trees.kept:,} rounds of trees."
    if trees.kept < trees.asked:
        text = (
            f"The model has {trees.kept:,} rounds of trees, those with the best metric: training stopped after "
            f"{trees.grown:,} of at most {trees.asked:,}."
        )
    if trees.resumed_after:
        text += f" Resumed after round {trees.resumed_after:,}: times and traffic are those of this run only."
    return text


def _kept(metric: str, trees: RoundsOfTrees) -> list[Headline]:
    """Return the metric of the model that was kept, if rows were held out."""
    if trees.metric is None:
        return []
    note = f"held-out rows, after {trees.kept:,} rounds of trees"
    return [Headline(sections.named(metric), sections.measured(trees.metric), note)]


def _spent(report: PartyReport, resumed_after: int = 0) -> list[Headline]:
    stages = [phase for stage, phase in report.costs.stages.items() if stage in _PHASES]
    return [
        Headline(
            "This run" if resumed_after else "In all",
            seconds(sum(phase.seconds for phase in stages)),
            "wall clock of this party",
        ),
        Headline("Rounds", f"{sum(phase.rounds for phase in stages):,.0f}", "message exchanges"),
        Headline("Traffic", size(sum(phase.bytes for phase in stages)), "with the other party, both directions"),
        Headline("From the dealer", size(sum(phase.bytes_dealt or 0 for phase in stages)), "to this party"),
    ]


def _costs(name: str, report: PartyReport) -> list[Section]:
    stages = report.costs.stages
    phases = [sections.phase(title, stages[stage]) for stage, title in _PHASES.items() if stage in stages]
    note = f"As {name} measured it: bytes on the wire with the other party in both directions, and from the dealer."
    parts = [sections.tree_parts(report.costs.parts, None)] if report.costs.parts else []
    return [sections.cost(phases, note), *parts]


def _learning(report: TrainingReport) -> Section:
    curve = report.curve
    unknown = "There are no ROC and precision-recall curves, because a training reveals no prediction of a row."
    if not curve:
        nothing = "No rows were held out, so nothing about quality was revealed. To hold out rows, set test_size."
        return Section("Quality", [nothing, unknown])
    rounds = [str(rounds) for rounds, _ in curve]
    counts = report.data.held
    by_columns = report.config.partition == "vertical"
    held = f"{counts[0]:,} held-out rows" if by_columns else f"{sum(counts):,} held-out rows of both parties"
    names = [sections.named(metric) for metric in report.curves]
    computed = f"On shares: {', '.join(names)}. Both parties learn these numbers, and nothing else of the rows."
    values = [[sections.measured(value) for _, value in one] for one in report.curves.values()]
    return Section(
        "Quality",
        [computed, unknown],
        [
            sections.learning(metric, held, [ChartLine("held-out rows", *_points(one))])
            for metric, one in report.curves.items()
        ],
        CellTable(
            ["rounds of trees", *names], [[rounds[i], *(each[i] for each in values)] for i in some(len(curve), _ROWS)]
        ),
    )


def _points(curve: LearningCurve) -> tuple[list[int], list[float]]:
    return [rounds for rounds, _ in curve], [value for _, value in curve]


def _quality(measures: Measures, predictions: np.ndarray, labels: np.ndarray | None, binary: bool) -> Section:
    if labels is None:
        absent = "This party knows no labels of the rows, so there are no metrics and no curves."
        return Section("Quality", [absent])
    if lacking := without_metrics():
        return Section("Quality", [f"This party knows labels, but {lacking}."])
    rows = [[sections.named(key), sections.measured(value)] for key, value in measures.items()]
    table = CellTable(["measure", "own rows"], rows)
    if not binary:
        return Section("Quality", ["This party's predictions against the labels in its file."], table=table)
    if len(set(labels.tolist())) < 2:
        return Section("Quality", ["ROC and precision-recall curves need two classes among the labels."], table=table)
    charts = sections.ranking_charts(labels, {"Sharewood": predictions})
    return Section("Quality", ["This party's predictions against the labels in its file."], charts, table)


def _decisions(
    report: PredictionReport, predictions: np.ndarray, labels: np.ndarray | None, binary: bool
) -> list[Section]:
    if labels is None or not binary or len(set(labels.tolist())) != 2 or without_metrics():
        return []
    margins = log_odds(predictions) if report.predict["output"] == "probability" else predictions
    return [sections.decisions(labels, {"Sharewood": margins})]


def _disclosure(name: str, report: PartyReport, facts: list[str]) -> Section:
    return sections.disclosure({name: report.costs.revealed}, facts)
