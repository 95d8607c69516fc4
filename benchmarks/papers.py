"""Train in the settings of the papers of AnonGBDT and Squirrel, without a third party and with a dealer.

    python -m benchmarks.papers [--settings ...] [--networks ...] [--offline pairwise dealer] [--trees 2] [--out DIR]

Two hosts, and a dealer where there is one, run the commands through a relay, which has a line for each of them. By
columns, which are drawn at random: the costs depend on shapes only. Seconds per tree are those of the longer of the two
phases after set-up, offline and online, which overlap. With --out docs, writes docs/figures/papers.json, from which
`python -m benchmarks.bench_page --page` makes the page.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.program import parse, table
from benchmarks.relayed import Relayed, train_relayed
from protocols.runtime.settings import Link

NAME = "papers.json"


@dataclass(frozen=True)
class Setting:
    """A table by columns, those of each party, and the shape of its trees."""

    rows: int
    columns: tuple[int, int]
    bins: int
    depth: int

    def tables(self) -> list[pd.DataFrame]:
        """Return a table for each party; the first has the labels."""
        rng = np.random.default_rng(13)
        X = rng.normal(size=(self.rows, sum(self.columns))).astype(np.float32)
        frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
        first, second = frame.iloc[:, : self.columns[0]], frame.iloc[:, self.columns[0] :]
        return [first.assign(label=(X[:, 0] + X[:, 1] * X[:, -1] > 0).astype(int)), second]


SETTINGS = {
    "50,000 x (8 + 7), 8 bins, depth 4": Setting(50_000, (8, 7), 8, 4),
    "200,000 x (8 + 7), 8 bins, depth 4": Setting(200_000, (8, 7), 8, 4),
    "140,000 x (7 + 16), 10 bins, depth 5": Setting(140_000, (7, 16), 10, 5),
    "smallest": Setting(20, (2, 1), 4, 1),
}
USUAL = [name for name in SETTINGS if name != "smallest"]
# Seconds from host to host and back, bits per second.
NETWORKS = {"LAN": Link(0.2e-3, 3e9), "20 ms": Link(20e-3, 1e9), "100 Mbit/s": Link(0.2e-3, 100e6)}


def train_of(setting: Setting, trees: int) -> dict[str, Any]:
    return {"partition": "vertical", "n_estimators": trees, "max_depth": setting.depth, "max_bin": setting.bins}


def figures(run: Relayed, trees: int) -> dict[str, float]:
    """Return what set-up took, and a tree after it: seconds of the slower party, MB in all directions."""
    setup = max(report["setup"]["seconds"] for report in run.reports)
    report = run.reports[0]
    sent = report["online"]["bytes"] + report["offline"]["bytes_dealer"] + report["offline"]["bytes_parties"]
    phases = [report[phase]["seconds"] for report in run.reports for phase in ("offline", "online")]
    return {
        "set-up, s": setup,
        "set-up, MB": report["setup"]["bytes"] / 1e6,
        "s per tree": max(phases) / trees,
        "MB per tree": sent / 1e6 / trees,
        "rounds per tree": report["online"]["rounds_per_tree"],
    }


def measure(settings: list[str], networks: list[str], makers: list[str], trees: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each setting, after a small training that compiles what has not been compiled."""
    for maker in makers:
        train_relayed(SETTINGS["smallest"].tables(), train_of(SETTINGS["smallest"], 1), maker, "host", NETWORKS["LAN"])
    for name in settings:
        setting = SETTINGS[name]
        for network in networks:
            for maker in makers:
                run = train_relayed(setting.tables(), train_of(setting, trees), maker, "host", NETWORKS[network])
                yield {"setting": name, "network": network, "offline": maker, **figures(run, trees)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=USUAL)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--offline", nargs="+", choices=("pairwise", "dealer"), default=["pairwise", "dealer"])
    parser.add_argument("--trees", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a folder for figures/papers.json")
    options = parse(parser, arguments, settings=["smallest"], networks=["LAN"], offline=["dealer"], trees=1)
    found = []
    for run in measure(options.settings, options.networks, options.offline, options.trees):
        found.append(run)
        print(table("setting", {f"{run['setting']}, {run['network']}, {run['offline']}": numbers(run)}), flush=True)
    if options.out:
        (options.out / "figures").mkdir(parents=True, exist_ok=True)
        written = {"cores": os.cpu_count(), "trees": options.trees, "runs": found}
        (options.out / "figures" / NAME).write_text(json.dumps(written, indent=1) + "\n")


def numbers(run: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in run.items() if not isinstance(value, str)}


if __name__ == "__main__":
    main()
