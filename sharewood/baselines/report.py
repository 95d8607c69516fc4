"""The report of `sharewood fed`: quality beside XGBoost on the pooled table, cost, and what leaks."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.objectives import losses
from protocols.baselines.federated.virtual_samples.boundaries import TWO_NODES
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from protocols.baselines.secureboost.config import SecureBoostConfig
from secure_tree.public.config import TrainConfig
from sharewood.logs import in_json
from sharewood.report.demo import megabytes
from sharewood.report.figures import MEASURES, Figures, Measures, Quality
from sharewood.report.quality import quality, quality_of_predictions

log = logging.getLogger("sharewood")
_LEAKS = {
    "secureboost": [
        "a guest that follows the protocol recovers most of the hosts' bins row by row from the sums that it "
        "decrypts: 68 to 100% of them after 50 trees on tables of 395 to 2,000 rows",
        "hosts see which rows are in a node, and can infer labels from this",
    ],
    "fedxgbllr": ["every client and the server see every client's trees"],
    "virtual-samples": [
        "the server sees sums of g and h over clusters of rows, at the first tree the rows and positives of each"
    ],
}
_NOISY = (
    "the guest sees which rows go left in every split that a host wins, and sums with noise: of these each host's bins "
    "of a row are ({:g}, 1e-6)-differentially private, given the routes"
)
_OF_NUMBERS = (
    "the server sees sums of g and h over clusters of rows, at the first tree the rows and the sum of labels of each"
)
_PAGES = {"secureboost": "secureboost.md", "fedxgbllr": "fedxgbllr.md", "virtual-samples": "virtual_samples.md"}


@dataclass(frozen=True)
class Data(Figures):
    """Sizes and names of the data; `judged_on` and `parties` in words; `bytes` of the training rows (`bytes_of`)."""

    title: str
    rows: int | list[int]
    features: int | list[int]
    judged_on: str
    parties: str
    bytes: int


@dataclass(frozen=True)
class Spent(Figures):
    """Seconds of wall clock, and bytes in both directions."""

    seconds: float
    bytes: float


@dataclass(frozen=True)
class Trained(Spent):
    """The cost of training: per tree if their number is given, and by step if there is a server."""

    trees: int | None = None
    bytes_from_server: dict[str, int] | None = None
    bytes_to_server: dict[str, int] | None = None

    def document(self) -> dict[str, Any]:
        figures = super().document()
        if trees := figures.pop("trees", None):
            figures |= {"seconds_per_tree": self.seconds / trees, "bytes_per_tree": self.bytes / trees}
        return figures


@dataclass(frozen=True)
class FedReport(Figures):
    """Quality beside XGBoost, cost, and what leaks; then fields of virtual samples; then those of FedXGBllr.

    set_aside: rows that were set aside as new rows for the update. rates: the effective rate of each client's trees.
    """

    system: str
    leaks: list[str]
    engine: str
    data: Data
    config: SecureBoostConfig | FedXGBllrConfig | VirtualSamplesConfig
    quality: Quality
    online: Trained
    files: list[str]
    align: Spent | None = None
    predict: Spent | None = None
    set_aside: int | None = None
    smallest_group: int | None = None
    joined: int | None = None
    update_trees: int | None = None
    kept: int | None = None
    factor: float | None = None
    rates: list[list[float]] | None = None


def leaks_of(
    system: str, clients: int = 0, epsilon: float | None = None, objective: str = "binary:logistic"
) -> list[str]:
    """Return what the parties of a system learn of each other's rows, the most serious first."""
    if system == "secureboost" and epsilon is not None:
        return [_NOISY.format(epsilon), *_LEAKS[system][1:]]
    first = [TWO_NODES] if system == "virtual-samples" and clients == 2 else []
    if system == "virtual-samples" and objective != "binary:logistic":
        return [*first, _OF_NUMBERS]
    return first + _LEAKS[system]


def measures(labels: np.ndarray, margins: np.ndarray, objective: str) -> Measures:
    """Return the demo's metrics; for two classes also F1, AUPRC, calibration and the confusion matrix.

    For counts also the mean loss by which models are trained, Poisson's with log y!, as in XGBoost's metric.
    """
    from protocols.baselines.federated.virtual_samples.metrics import evaluate

    if objective == "multi:softprob":
        config = TrainConfig.of(objective=objective, num_class=margins.shape[1])
        return quality_of_predictions(labels, margins, "margin", config)
    classes = objective == "binary:logistic"
    measured = quality(labels, margins, TrainConfig.of(objective=objective))
    if classes and len(set(labels)) == 2:
        measured = {**evaluate(labels, 1 / (1 + np.exp(-margins))), **measured}
    if objective == "count:poisson":
        constant = np.vectorize(math.lgamma)(labels + 1)
        measured["poisson_nloglik"] = float(np.mean(losses(objective, margins, labels) + constant))
    return measured


def bytes_of(rows: int, features: int) -> int:
    """Return the size of a table with a label, at 4 bytes per value."""
    return 4 * rows * (features + 1)


def say(text: str) -> None:
    """Print a line of progress to stderr."""
    if in_json():
        log.info("%s", text)
    else:
        Console(stderr=True).print(f"[dim]{text}[/dim]")


def print_report(report: FedReport) -> None:
    """Print the report as tables on the terminal."""
    console, data, quality = Console(), report.data, report.quality
    console.print(f"[bold]What leaks[/bold] (docs/{_PAGES[report.system]}):")
    for leak in report.leaks:
        console.print(f"  {leak}")
    console.print(f"\n[bold]{report.system}[/bold] on {data.title}, {report.engine}: {data.parties}\n")
    table = Table(title=f"Quality on {data.judged_on}", title_justify="left")
    table.add_column("measure")
    columns = {report.system: quality.own}
    if quality.mean_of_margins:
        columns["mean of the clients' margins"] = quality.mean_of_margins
    columns["XGBoost, on pooled data"] = quality.xgboost
    for name in columns:
        table.add_column(name, justify="right")
    for key, name in MEASURES.items():
        if quality.own.get(key) is not None:
            table.add_row(name, *(_figure(values[key]) for values in columns.values()))
    console.print(table)
    console.print(
        f"training: {report.online.seconds:.1f} s, {megabytes(report.online.bytes)} in both directions; the training "
        f"rows have {megabytes(data.bytes)}"
    )
    if isinstance(report.config, VirtualSamplesConfig):
        least = report.config.min_group
        console.print(f"fewest rows behind a sum of a client: {report.smallest_group} (min_group {least})")
        if grown := report.config.update_estimators:
            console.print(f"rows set aside for the update, which the base model lacks: {report.set_aside}")
            console.print(f"new rows that joined in the update: {report.joined}")
            console.print(f"trees of the update that were kept: {report.update_trees} of {grown}")
        else:
            console.print("no update: the base model is trained on all rows")
    if report.kept is not None:
        kept = f"the network of round {report.kept}" if report.kept else "the mean of the clients' margins"
        times = f", times {report.factor:g} by the held-out rows" if report.factor not in (None, 1) else ""
        console.print(f"the model is {kept}{times}")
    if report.rates is not None:
        console.print(_rates(report.rates))
    console.print(f"wrote {', '.join(report.files)}")


def _rates(rates: list[list[float]]) -> Table:
    """Return a table of what the network made of the trees' learning rates."""
    table = Table(title="Learned rates of the trees, by client", title_justify="left")
    for name in ("client", "mean", "first tree", "last tree", "smallest", "largest"):
        table.add_column(name, justify="right")
    for client, each in enumerate(rates):
        figures = (sum(each) / len(each), each[0], each[-1], min(each), max(each))
        table.add_row(str(client), *map(_figure, figures))
    table.caption = f"in the mean of the clients' margins, every rate is {1 / len(rates):.4f}"
    table.caption_justify = "left"
    return table


def _figure(value: float | None) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"
