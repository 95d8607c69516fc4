"""The demo's page: both parties' figures, beside XGBoost on the pooled rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sharewood.page import sections
from sharewood.page.charts import ChartLine, Whose
from sharewood.page.document import CellTable, Headline, Page, Section
from sharewood.page.units import seconds, size
from sharewood.report.demo import DemoCosts, DemoReport
from sharewood.report.figures import MEASURES

PARTIES = ("party_a", "party_b")


def demo_page(report: DemoReport, labels: np.ndarray, margins: Mapping[str, np.ndarray]) -> str:
    """Return the HTML of a demo's report; labels and both systems' margins are those of the validation rows."""
    data, config, costs = report.data, report.config, report.costs
    divided = "columns" if data.partition == "vertical" else "rows"
    page = Page(
        title=f"Two parties, one model: {data.title}",
        subtitle=f"Divided by {divided}: {data.divided}, "
        f"{data.features} features in total. {config.n_estimators} trees of depth {config.max_depth}, "
        f"{config.binning(data.rows)}, trained on secret shares by two processes {_with(report)} on one machine.",
        about=sections.about(report.run),
        headlines=_headlines(report),
        sections=[
            _quality(report, labels, margins),
            *_decisions(report, labels, margins),
            _cost(costs),
            sections.tree_parts(costs.parts, config.n_estimators),
            _disclosure(report),
            *([sections.shards(report.by_shard)] if report.by_shard else []),
            sections.memory(report.memory_peak_bytes),
            sections.configuration(config),
        ],
    )
    return page.html()


def _headlines(report: DemoReport) -> list[Headline]:
    quality, costs = report.quality, report.costs
    key = next(key for key in ("auc", "accuracy", "rmse") if quality.own.get(key) is not None)
    each = costs.online.per_tree
    return [
        Headline(
            sections.named(key),
            sections.measured(quality.own[key]),
            f"on {report.data.judged_on}"
            + (f"; XGBoost on pooled rows {sections.measured(quality.xgboost[key])}" if quality.xgboost else ""),
        ),
        Headline("Training in all", seconds(costs.training_seconds), "set-up, then offline beside online"),
        Headline("Per tree, online", seconds(each.seconds), f"{each.rounds:,.0f} rounds"),
        Headline("Traffic per tree", size(each.bytes), "between the parties, both directions"),
        _ahead(report),
    ]


def _with(report: DemoReport) -> str:
    return "and a dealer" if report.generator == "dealer" else "and nobody else"


def _ahead(report: DemoReport) -> Headline:
    """Return the cost of the offline phase."""
    offline, trees = report.costs.offline, report.config.n_estimators
    if report.generator == "dealer":
        dealt = size((offline.bytes_dealt or 0) / trees)
        return Headline("From the dealer, per tree", dealt, "to both parties, ahead of the data")
    return Headline("Offline traffic, per tree", size(offline.bytes / trees), "between the parties, ahead of the data")


def _quality(report: DemoReport, labels: np.ndarray, margins: Mapping[str, np.ndarray]) -> Section:
    quality, curve = report.quality, report.curve
    rows = [
        [MEASURES[key], *(sections.measured(each[key]) for each in (quality.own, quality.xgboost) if each)]
        for key in quality.own
    ]
    named = {"training": "training rows", "held_out": "held-out rows"}
    systems: list[tuple[str, dict[str, list[float]], Whose]] = [
        ("XGBoost", curve.xgboost, "theirs"),
        ("Sharewood", curve.sharewood, "ours"),
    ]
    drawn = [
        ChartLine(f"{system}, {named[kind]}", curve.trees, values, whose, kind == "training" and len(curve.rows) > 1)
        for system, learned, whose in systems
        for kind, values in learned.items()
    ]
    evaluated = " and ".join(f"{count:,} {named[kind]}" for kind, count in curve.rows.items())
    charts = [sections.learning(curve.metric, evaluated, drawn)]
    compared = "has the same parameters and the rows of both parties pooled" if quality.xgboost else "is not installed"
    sentences = [f"XGBoost {compared}. Measured on {report.data.judged_on}."]
    if report.config.objective != "binary:logistic":
        sentences.append("ROC and precision-recall curves need classes, but the labels are numbers.")
    elif len(set(labels.tolist())) == 2:
        charts += sections.ranking_charts(labels, margins)
    else:
        sentences.append("ROC and precision-recall curves need two classes among these rows, so they are not drawn.")
    sentences.append(
        "The process that started the demo has both parties' rows, and draws the curves from the predictions that each "
        "party received; the training itself reveals none of this."
    )
    columns = ["measure", "Sharewood, on secret shares", "XGBoost, on pooled rows"]
    return Section("Quality", sentences, charts, CellTable(columns[: 3 if quality.xgboost else 2], rows))


def _decisions(report: DemoReport, labels: np.ndarray, margins: Mapping[str, np.ndarray]) -> list[Section]:
    two = report.config.objective == "binary:logistic" and len(set(labels.tolist())) == 2
    return [sections.decisions(labels, margins)] if two else []


def _cost(costs: DemoCosts) -> Section:
    phases = [
        sections.phase("set-up, once", costs.setup),
        sections.phase("offline, independent of the data", costs.offline),
        sections.phase("online", costs.online),
        sections.phase("online, per tree", costs.online.per_tree),
        sections.phase(f"prediction of {costs.predict.rows:,} rows", costs.predict),
    ]
    note = "Processes on one machine with TLS. Seconds are wall-clock time; bytes on the wire count both directions."
    return sections.cost(phases, note)


def _disclosure(report: DemoReport) -> Section:
    data = report.data
    facts = [
        f"row counts ({data.divided})",
        f"the names and order of {data.features} features",
        "every parameter below",
        "the number of trees",
    ]
    revealed = dict(zip(PARTIES, report.revealed, strict=True))
    return sections.disclosure(revealed, facts, report.generator == "dealer")
