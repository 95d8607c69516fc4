"""The pages of one party between hosts: what it knows, and nothing of the other's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sharewood.page import sections
from sharewood.page.charts import Line, some
from sharewood.page.document import Headline, Page, Section, Table
from sharewood.page.units import seconds, size

_ROWS = 10
_PHASES = {
    "rows": "comparing the ids of the rows",
    "setup": "set-up, once",
    "offline": "offline, before the data is used",
    "online": "online",
    "predict_offline": "offline",
    "predict": "prediction",
}


def training_page(name: str, parties: tuple[str, str], report: Mapping[str, Any]) -> str:
    """HTML of a training's report at party `name`."""
    data, config = report["data"], report["config"]
    rows = " and ".join(f"{count:,} at {who}" for who, count in zip(parties, data["rows"], strict=True))
    if config["partition"] == "vertical":
        rows = f"{data['rows'][0]:,}, the same at both parties"
    facts = [f"row counts ({rows})", f"the names and order of {data['features']} features", "every parameter below"]
    trees = report["rounds_of_trees"]
    page = Page(
        title=f"Training at {name}",
        subtitle=f"Rows trained on: {rows}; {data['features']} features in all. Trees of depth {config['max_depth']}, "
        f"{config['max_bin'] or 'by size'} bins. {_rounds(trees)} This report has what {name} knows.",
        about=sections.about(report["run"]),
        headlines=[*_kept(report["metric"], trees), *_spent(report, trees["resumed_after"])],
        sections=[_learning(report), *_costs(name, report), _disclosure(name, report, facts), *_process(report)],
    )
    return page.html()


def prediction_page(
    name: str, report: Mapping[str, Any], margins: np.ndarray, labels: np.ndarray | None, binary: bool
) -> str:
    """HTML of a prediction's report at party `name`; `labels` of its rows, where its file has them.

    `binary`: of two classes, which margins rank.
    """
    data = report["data"]
    facts = ["row counts", f"the names and order of {data['features']} features", "the model's parameters"]
    measures = report.get("quality") or {}
    headlines = [
        *(Headline(sections.named(key), sections.measured(measures[key]), "own rows") for key in list(measures)[:1]),
        *_spent(report),
    ]
    page = Page(
        title=f"Prediction at {name}",
        subtitle=f"{data['rows']:,} own rows; {data['features']} features of the model. "
        f"This report has what {name} knows.",
        about=sections.about(report["run"]),
        headlines=headlines,
        sections=[
            _quality(measures, margins, labels, binary),
            *_costs(name, report),
            _disclosure(name, report, facts),
            *_process(report),
        ],
    )
    return page.html()


def _rounds(trees: Mapping[str, Any]) -> str:
    """What became of the rounds of trees."""
    text = f"The model has {trees['kept']:,} rounds of trees."
    if trees["kept"] < trees["asked"]:
        text = (
            f"The model has {trees['kept']:,} rounds of trees, those with the best metric: training stopped after "
            f"{trees['grown']:,} of at most {trees['asked']:,}."
        )
    if trees["resumed_after"]:
        text += f" Resumed after round {trees['resumed_after']:,}: times and traffic are those of this run only."
    return text


def _kept(metric: str, trees: Mapping[str, Any]) -> list[Headline]:
    """The metric of the model that was kept, where rows were held out."""
    if trees["metric"] is None:
        return []
    note = f"held-out rows, after {trees['kept']:,} rounds of trees"
    return [Headline(sections.named(metric), sections.measured(trees["metric"]), note)]


def _spent(report: Mapping[str, Any], resumed_after: int = 0) -> list[Headline]:
    stages = [report[stage] for stage in _PHASES if stage in report]
    total = {key: sum(s[key] for s in stages) for key in ("seconds", "rounds", "bytes", "bytes_dealt")}
    return [
        Headline("This run" if resumed_after else "In all", seconds(total["seconds"]), "wall clock of this party"),
        Headline("Rounds", f"{total['rounds']:,}", "message exchanges"),
        Headline("Traffic", size(total["bytes"]), "with the other party, both directions"),
        Headline("From the dealer", size(total["bytes_dealt"]), "to this party"),
    ]


def _costs(name: str, report: Mapping[str, Any]) -> list[Section]:
    phases = [
        sections.phase(title, report[stage], report[stage]["bytes_dealt"])
        for stage, title in _PHASES.items()
        if stage in report
    ]
    note = (
        f"As {name} measured it: bytes on the wire with the other party in both directions, and from the dealer to it."
    )
    parts = [sections.tree_parts(report["parts"], None)] if report["parts"] else []
    return [sections.cost(phases, note), *parts]


def _learning(report: Mapping[str, Any]) -> Section:
    curve = report["curve"]
    unknown = "ROC and precision-recall are not here: a training shows nobody a prediction of a row."
    if not curve:
        nothing = "No rows were held out, so nothing about quality was revealed; test_size holds rows out."
        return Section("Quality", [nothing, unknown])
    rounds, values = (list(column) for column in zip(*curve, strict=True))
    counts = report["data"]["held"]
    by_columns = report["config"]["partition"] == "vertical"
    held = f"{counts[0]:,} held-out rows" if by_columns else f"{sum(counts):,} held-out rows of both parties"
    name = sections.named(report["metric"])
    judged = f"The {name} is computed on shares; both parties learn these numbers, and nothing else of the rows."
    return Section(
        "Quality",
        [judged, unknown],
        [sections.learning(report["metric"], held, [Line("held-out rows", rounds, values)])],
        Table(
            ["rounds of trees", name],
            [[str(rounds[i]), sections.measured(values[i])] for i in some(len(curve), _ROWS)],
        ),
    )


def _quality(
    measures: Mapping[str, float | None], margins: np.ndarray, labels: np.ndarray | None, binary: bool
) -> Section:
    if labels is None:
        absent = "The rows have no labels that this party knows: no quality, ROC or precision-recall."
        return Section("Quality", [absent])
    rows = [[sections.named(key), sections.measured(value)] for key, value in measures.items()]
    table = Table(["measure", "own rows"], rows)
    if not binary:
        return Section("Quality", ["This party's predictions against the labels in its file."], table=table)
    if len(set(labels.tolist())) < 2:
        return Section("Quality", ["ROC and precision-recall need two classes among the labels."], table=table)
    charts = sections.ranking_charts(labels, {"Sharewood": margins})
    return Section("Quality", ["This party's predictions against the labels in its file."], charts, table)


def _disclosure(name: str, report: Mapping[str, Any], facts: list[str]) -> Section:
    return sections.disclosure({name: report["revealed"]}, facts, "rows, labels, bin edges")


def _process(report: Mapping[str, Any]) -> list[Section]:
    found = [sections.memory(report["memory_peak_bytes"])]
    return [*found, sections.configuration(report["config"])] if "config" in report else found
