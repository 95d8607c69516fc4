"""The demo's page: both parties' figures, beside XGBoost on the pooled rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sharewood.page import sections
from sharewood.page.charts import Line, Whose
from sharewood.page.document import Headline, Page, Section, Table
from sharewood.page.units import seconds, size

PARTIES = ("party_a", "party_b")


def demo_page(report: Mapping[str, Any], labels: np.ndarray, margins: Mapping[str, np.ndarray]) -> str:
    """HTML of a demo's report; labels and both systems' margins are those of the validation rows."""
    data, config = report["data"], report["config"]
    divided = "columns" if data["partition"] == "vertical" else "rows"
    page = Page(
        title=f"Two parties, one model: {data['title']}",
        subtitle=f"Divided by {divided}: {data['rows'][0]:,} rows at party_a, {data['rows'][1]:,} at party_b, "
        f"{data['features']} features in all. {config['n_estimators']} trees of depth {config['max_depth']}, "
        f"{config['max_bin']} bins, trained on secret shares by two processes and a dealer on one machine.",
        about=sections.about(report["run"]),
        headlines=_headlines(report),
        sections=[
            _quality(report, labels, margins),
            _cost(report),
            sections.tree_parts(report["parts"], config["n_estimators"]),
            _disclosure(report),
            sections.memory(report["memory_peak_bytes"]),
            sections.configuration(config),
        ],
    )
    return page.html()


def _headlines(report: Mapping[str, Any]) -> list[Headline]:
    mine, online = report["quality"], report["online"]
    key = next(key for key in ("auc", "accuracy", "rmse") if mine.get(key) is not None)
    total = sum(report[phase]["seconds"] for phase in ("setup", "offline", "online"))
    return [
        Headline(
            sections.named(key),
            sections.measured(mine[key]),
            f"on {report['data']['judged_on']}; XGBoost on pooled rows {sections.measured(mine['xgboost'][key])}",
        ),
        Headline("Training in all", seconds(total), "set-up, offline and online"),
        Headline("Per tree, online", seconds(online["seconds_per_tree"]), f"{online['rounds_per_tree']:,.0f} rounds"),
        Headline("Traffic per tree", size(online["bytes_per_tree"]), "between the parties, both directions"),
        Headline(
            "From the dealer, per tree",
            size(report["offline"]["bytes_dealer"] / report["config"]["n_estimators"]),
            "to both parties, ahead of the data",
        ),
    ]


def _quality(report: Mapping[str, Any], labels: np.ndarray, margins: Mapping[str, np.ndarray]) -> Section:
    mine, curve = report["quality"], report["curve"]
    rows = [
        [name, sections.measured(mine[key]), sections.measured(mine["xgboost"][key])]
        for key, name in sections.MEASURES.items()
        if key in mine
    ]
    named = {"training": "training rows", "held_out": "held-out rows"}
    systems: list[tuple[str, str, Whose]] = [("XGBoost", "xgboost", "theirs"), ("Sharewood", "sharewood", "ours")]
    drawn = [
        Line(f"{system}, {named[kind]}", curve["trees"], values, whose, kind == "training" and len(curve["rows"]) > 1)
        for system, key, whose in systems
        for kind, values in curve[key].items()
    ]
    judged_on = " and ".join(f"{count:,} {named[kind]}" for kind, count in curve["rows"].items())
    charts = [sections.learning(curve["metric"], judged_on, drawn)]
    sentences = [
        "XGBoost has the same parameters and the rows of both parties pooled. "
        f"Measured on {report['data']['judged_on']}."
    ]
    if report["config"]["objective"] != "binary:logistic":
        sentences.append("ROC and precision-recall are of classes, and the labels are numbers.")
    elif len(set(labels.tolist())) == 2:
        charts += sections.ranking_charts(labels, margins)
    else:
        sentences.append("ROC and precision-recall need two classes among these rows, so they are not drawn.")
    sentences.append(
        "The process that started the demo owns both parties' rows and draws the curves from the predictions that each "
        "party received; the training itself reveals none of this."
    )
    return Section(
        "Quality", sentences, charts, Table(["measure", "Sharewood, on secret shares", "XGBoost, on pooled rows"], rows)
    )


def _cost(report: Mapping[str, Any]) -> Section:
    online, offline, predict = report["online"], report["offline"], report["predict"]
    each = {key: online[f"{key}_per_tree"] for key in ("seconds", "rounds", "bytes")}
    phases = [
        sections.phase("set-up, once", report["setup"], None),
        sections.phase("offline, before the data is used", offline, offline["bytes_dealer"]),
        sections.phase("online", online, None),
        sections.phase("online, per tree", {**each, "rounds": round(each["rounds"])}, None),
        sections.phase(f"prediction of {predict['rows']:,} rows", predict, None),
    ]
    note = (
        "TLS between processes of one machine. Seconds are wall clock, bytes as counted on the wire in both directions."
    )
    return sections.cost(phases, note)


def _disclosure(report: Mapping[str, Any]) -> Section:
    data = report["data"]
    facts = [
        f"row counts ({data['rows'][0]:,} and {data['rows'][1]:,})",
        f"the names and order of {data['features']} features",
        "every parameter below",
        "the number of trees",
    ]
    revealed = dict(zip(PARTIES, report["revealed"], strict=True))
    return sections.disclosure(revealed, facts, "rows, labels, bin edges")
