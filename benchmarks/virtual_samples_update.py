"""Measure the gain and cost of the sparse federated update by the way its rows are chosen: one CSV line per run.

    python -m benchmarks.virtual_samples_update --seeds 0 1 2 3 4 --out docs/figures/virtual_samples_update.csv
    python -m benchmarks.virtual_samples_update --table docs/figures/virtual_samples_update.csv

Sets: rare (0.2 % positives, generated), default_credit (22 %), and balanced, which is default_credit with as many
negatives as positives. All variants of a seed continue from one base model. The first one adds trees of the base rows
only.
"""

from __future__ import annotations

import argparse
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.federated_data import load, rare_positives
from benchmarks.federated_fedxgbllr import append
from benchmarks.federated_figures import markdown, mean_and_interval
from benchmarks.federated_virtual_samples import NODES, log_loss, split
from benchmarks.program import parse
from protocols.baselines.federated.engine import LocalFederation
from protocols.baselines.federated.objectives import sigmoid
from protocols.baselines.federated.secure_sum import OpenSum
from protocols.baselines.federated.virtual_samples.boundaries import pooled_boundaries
from protocols.baselines.federated.virtual_samples.clusters import assign
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from protocols.baselines.federated.virtual_samples.metrics import evaluate
from protocols.baselines.federated.virtual_samples.node import VirtualSamplesNode
from protocols.baselines.federated.virtual_samples.server import Server

CLUSTERS = 100
# The variants of an update: whether it uses new rows, and its options.
VARIANTS: dict[str, tuple[bool, dict[str, object]]] = {
    "no new rows": (False, {"update_check": 0}),
    "chosen once": (True, {"update_check": 0, "rechoose": False}),
    "chosen for each tree": (True, {"update_check": 0}),
    "each tree, clusters of their own": (True, {"update_check": 0, "update_boundaries": "new"}),
    "each tree, checked": (True, {"update_check": 0.2}),
}
MEASURES = {"auc": "AUC", "f1": "F1", "auprc": "AUPRC", "logloss": "log loss", "calibration": "calibration error"}


def table(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the features and labels of a set."""
    if name == "rare":
        return rare_positives(seed=seed)
    X, y = load("default_credit")
    if name == "balanced":
        negative = np.random.default_rng(seed).choice(np.flatnonzero(y == 0), int(y.sum()), replace=False)
        chosen = np.sort(np.r_[np.flatnonzero(y == 1), negative])
        X, y = X[chosen], y[chosen]
    return X, y


def runs(
    name: str, seed: int, rows: int | None, trees: int, update_trees: int
) -> list[dict[str, float | int | str | None]]:
    """Yield a line for the base model and one per variant."""
    X, y = (part[:rows] for part in table(name, seed))
    update, test, training = split(len(X), seed)
    edges, own = pooled_boundaries(X[training], CLUSTERS), pooled_boundaries(X[update], CLUSTERS)
    in_test = assign(edges, X[test])

    def server_of(new: bool, options: dict[str, object]) -> tuple[Server, VirtualSamplesConfig]:
        config = VirtualSamplesConfig.of(
            clusters=CLUSTERS, min_group=1, n_estimators=trees, update_estimators=update_trees, **options
        )
        nodes = {}
        for i, (rows, more) in enumerate(
            zip(np.array_split(training, NODES), np.array_split(update, NODES), strict=True)
        ):
            extra = (X[more], y[more]) if new else None
            nodes[i] = VirtualSamplesNode(i, X[rows], y[rows], config, OpenSum(), bytes(32), extra)
            nodes[i].memory["boundaries"] = edges
            if config.update_boundaries == "new":
                nodes[i].memory["new_boundaries"] = own
        return Server(LocalFederation(nodes), X.shape[1], config, OpenSum()), config

    def line(variant: str, server: Server, joined: int) -> dict[str, float | int | str | None]:
        probability = sigmoid(server.base_margin + server.forest.margin(in_test))
        measured = evaluate(y[test], probability) | {"logloss": log_loss(y[test], probability)}
        more = len(server.forest) - trees
        return {"data": name, "variant": variant, "seed": seed, "trees": more, "joined": joined, **measured}

    base, _ = server_of(False, {})
    base.fit()
    lines = [line("base model", base, 0)]
    for variant, (new, options) in VARIANTS.items():
        server, _ = server_of(new, options)
        server.forest, server.base_margin = deepcopy(base.forest), base.base_margin
        lines.append(line(variant, server, server.update()))
    return lines


def page(runs: pd.DataFrame) -> str:
    """Return the table of docs/virtual_samples.md: means and 95 % intervals of each update minus the base model."""
    lines: list[list[object]] = []
    for name in runs["data"].unique():
        of_set = runs[runs["data"] == name].set_index("seed")
        base = of_set[of_set["variant"] == "base model"]
        figures = [mean_and_interval(base[measure], 4) for measure in MEASURES]
        lines.append([name, "base model", len(base), "", *figures])
        for variant in VARIANTS:
            rows = of_set[of_set["variant"] == variant]
            gains = [_signed(mean_and_interval(rows[measure] - base[measure], 4)) for measure in MEASURES]
            lines.append([name, variant, len(rows), f"{rows['trees'].mean():.1f}", *gains])
    return markdown(["set", "update", "seeds", "trees kept", *MEASURES.values()], lines)


def _signed(figure: str) -> str:
    return figure if figure.startswith("-") else f"+{figure}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["rare", "default_credit", "balanced"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--rows", type=int, help="use at most these first rows of a set")
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--update-trees", type=int, default=25)
    given = parse(parser, arguments, data=["default_credit"], rows=600, trees=2, update_trees=1)
    if given.table:
        print(page(pd.read_csv(given.table)))
        return
    for seed in given.seeds:
        for name in given.data:
            for line in runs(name, seed, given.rows, given.trees, given.update_trees):
                append(given.out, line)


if __name__ == "__main__":
    main()
