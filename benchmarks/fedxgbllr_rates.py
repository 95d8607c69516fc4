"""Measure and draw the learned rates of docs/fedxgbllr.md: cpu_small, five clients who are alike or differ, seed 0.

    python -m benchmarks.fedxgbllr_rates            measures; writes fedxgbllr_rates.json and .png to docs/figures
    python -m benchmarks.fedxgbllr_rates --redraw   draws the existing measurements

Both print the table. The rates are those of `FedXGBllrModel.effective_rates` on the test rows of
`benchmarks.federated_fedxgbllr`, with its default training.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TypedDict

import numpy as np

from benchmarks.federated_data import load
from benchmarks.federated_figures import markdown
from benchmarks.program import DOCS, parse
from protocols.baselines.federated.engine import LocalFederation
from protocols.baselines.federated.fedxgbllr.client import FedXGBllrClient
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.fedxgbllr.server import train
from protocols.baselines.federated.secure_sum import OpenSum
from sharewood.baselines.division import Division, divide

SET, CLIENTS, SEED = "cpu_small", 5, 0
NAMES: dict[Division, str] = {"equal": "clients are alike", "component": "clients by the first component"}
FEW = 10  # trees at either end of an ensemble


class Learned(TypedDict):
    """The mean label of each client, and the effective rate of each client's trees in order."""

    labels: list[float]
    rates: list[list[float]]


def measured(division: Division, rows: int | None, trees: int) -> Learned:
    X, y = (part[:rows] for part in load(SET))
    training, test = np.split(np.random.default_rng(SEED).permutation(len(X)), [len(X) * 3 // 4])
    parts = [training[part] for part in divide(X[training], y[training], CLIENTS, division, SEED)]
    config = FedXGBllrConfig.of(objective="reg:squarederror", seed=SEED, total_trees=trees)
    clients = {i: FedXGBllrClient(i, X[part], y[part], config, OpenSum()) for i, part in enumerate(parts)}
    model = train(LocalFederation(clients), config, OpenSum())
    rates = model.effective_rates(X[test]).round(5).tolist()
    return {"labels": [round(float(y[part].mean()), 2) for part in parts], "rates": rates}


def table(learned: dict[str, Learned]) -> str:
    """Return the table of the page: means of the rates of each client's trees, of its first and its last ones."""
    lines: list[list[object]] = []
    for division, name in NAMES.items():
        each = learned[division]
        for client, (label, rates) in enumerate(zip(each["labels"], np.array(each["rates"]), strict=True)):
            figures = (rates.mean(), rates[:FEW].mean(), rates[-FEW:].mean())
            lines.append([name, client, f"{label:.1f}", *(f"{figure:.3f}" for figure in figures)])
    header = ["", "client", "mean label", "mean rate", f"of the first {FEW} trees", f"of the last {FEW} trees"]
    return markdown(header, lines)


def draw(learned: dict[str, Learned], out: Path) -> None:
    import matplotlib.pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
    for axes, (division, name) in zip(both, NAMES.items(), strict=True):
        for client, rates in enumerate(learned[division]["rates"]):
            axes.plot(range(1, len(rates) + 1), rates, linewidth=1, label=f"client {client}")
        axes.axhline(1 / CLIENTS, color="grey", linewidth=0.8, linestyle="--")
        axes.set(xlabel="tree of the client's ensemble", title=f"{SET}, {name}")
        axes.title.set_fontsize(10)
    both[0].set_ylabel("effective rate")
    both[1].legend(fontsize=8, frameon=False)
    figure.savefig(out, dpi=120)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--redraw", action="store_true", help="draw existing measurements")
    parser.add_argument("--rows", type=int, help="use at most these first rows")
    parser.add_argument("--trees", type=int, default=FedXGBllrConfig.of().total_trees, help="of all clients together")
    parser.add_argument("--out", type=Path, default=DOCS / "figures", help="folder of the results")
    given = parse(parser, arguments, rows=200, trees=10)
    path = given.out / "fedxgbllr_rates.json"
    if not given.redraw:
        import torch

        torch.set_num_threads(1)
        learned = {division: measured(division, given.rows, given.trees) for division in NAMES}
        path.write_text(json.dumps(learned) + "\n")
    existing: dict[str, Learned] = json.loads(path.read_text())
    draw(existing, path.with_suffix(".png"))
    print(table(existing))


if __name__ == "__main__":
    main()
