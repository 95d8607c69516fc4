"""What `sharewood fed` prints and writes: quality beside XGBoost on the pooled table, cost, and what leaks."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from secure_tree.config import TrainConfig
from sharewood.demo import quality
from sharewood.report import NAMES, megabytes

LEAKS = {
    "fedxgbllr": "every client and the server see every client's trees (docs/fedxgbllr.md, What leaks)",
    "virtual-samples": "the server sees sums of g and h over clusters of rows, at the first tree the rows and "
    "positives of each (docs/virtual_samples.md, What leaks)",
    "secureboost": "the guest sees bucket sums of the hosts' columns, hosts see which rows are in a node "
    "(docs/secureboost.md, What leaks)",
}


def measures(labels: np.ndarray, margins: np.ndarray, objective: str) -> dict[str, Any]:
    """The demo's measures; for two classes also F1, AUPRC and the confusion matrix."""
    from protocols.federated.virtual_samples.metrics import evaluate

    classes = objective == "binary:logistic"
    measured: dict[str, Any] = quality(labels, margins, TrainConfig.of(objective=objective))
    if classes and len(set(labels)) == 2:
        measured = evaluate(labels, 1 / (1 + np.exp(-margins))) | measured
    return measured


def say(text: str) -> None:
    """A line of progress, on stderr."""
    Console(stderr=True).print(f"[dim]{text}[/dim]")


def print_report(report: dict[str, Any]) -> None:
    """The report as tables on the terminal."""
    console, data, mine = Console(), report["data"], report["quality"]
    console.print(f"\n[bold]{report['system']}[/bold] on {data['title']}, {report['engine']}: {data['parties']}\n")
    table = Table(title=f"Quality on {data['judged_on']}", title_justify="left")
    table.add_column("measure")
    table.add_column(report["system"], justify="right")
    table.add_column("XGBoost, on pooled data", justify="right")
    names = NAMES | {"f1": "F1", "auprc": "AUPRC", "tp": "true positives", "fp": "false positives"}
    names |= {"fn": "false negatives", "tn": "true negatives"}
    for key, name in names.items():
        if mine.get(key) is not None:
            table.add_row(name, *(_figure(values[key]) for values in (mine, mine["xgboost"])))
    console.print(table)
    cost = report["online"]
    console.print(f"training: {cost['seconds']:.1f} s, {megabytes(cost['bytes'])} in both directions")
    console.print(f"what leaks: {LEAKS[report['system']]}")
    console.print(f"what was written: {', '.join(report['files'])}")


def _figure(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"
