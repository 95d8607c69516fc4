"""What `sharewood fed` prints and writes: quality beside XGBoost on the pooled table, cost, and what leaks."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from protocols.federated.virtual_samples.boundaries import TWO_NODES
from secure_tree.config import TrainConfig
from sharewood.judging import quality
from sharewood.report import NAMES, megabytes

_LEAKS = {
    "secureboost": [
        "the guest, following the protocol, recovers most of the hosts' bins row by row from the sums that it "
        "decrypts: 68 to 100% of them after 50 trees on tables of 395 to 2,000 rows",
        "hosts see which rows are in a node, and can guess labels from that",
    ],
    "fedxgbllr": ["every client and the server see every client's trees"],
    "virtual-samples": [
        "the server sees sums of g and h over clusters of rows, at the first tree the rows and positives of each"
    ],
}
_PAGES = {"secureboost": "secureboost.md", "fedxgbllr": "fedxgbllr.md", "virtual-samples": "virtual_samples.md"}


def leaks_of(system: str, clients: int = 0) -> list[str]:
    """What the parties of a system learn of each other's rows, the gravest first."""
    first = [TWO_NODES] if system == "virtual-samples" and clients == 2 else []
    return first + _LEAKS[system]


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
    console.print(f"[bold]What leaks[/bold] (docs/{_PAGES[report['system']]}):")
    for leak in report["leaks"]:
        console.print(f"  {leak}")
    console.print(f"\n[bold]{report['system']}[/bold] on {data['title']}, {report['engine']}: {data['parties']}\n")
    table = Table(title=f"Quality on {data['judged_on']}", title_justify="left")
    table.add_column("measure")
    columns = {report["system"]: mine}
    if "mean_of_margins" in mine:
        columns["mean of the clients' margins"] = mine["mean_of_margins"]
    columns["XGBoost, on pooled data"] = mine["xgboost"]
    for name in columns:
        table.add_column(name, justify="right")
    names = NAMES | {"f1": "F1", "auprc": "AUPRC", "tp": "true positives", "fp": "false positives"}
    names |= {"fn": "false negatives", "tn": "true negatives"}
    for key, name in names.items():
        if mine.get(key) is not None:
            table.add_row(name, *(_figure(values[key]) for values in columns.values()))
    console.print(table)
    cost = report["online"]
    console.print(f"training: {cost['seconds']:.1f} s, {megabytes(cost['bytes'])} in both directions")
    if "smallest_group" in report:
        joined, least = report["joined"], report["config"]["min_group"]
        console.print(f"fewest rows behind a sum that a client sent: {report['smallest_group']} (min_group {least})")
        console.print(f"new rows that joined in the update: {joined}")
    console.print(f"what was written: {', '.join(report['files'])}")


def _figure(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"
