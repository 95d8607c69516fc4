"""Measure explorations of generated columns, by columns: with a dealer and without, and screening a wide table.

python -m benchmarks.explore [--rows 100000] [--features 200] [--top 20] [--wide 1500] [--wide-top 100] [--out DIR]

All features are at the party without labels, since those of the other one cost nothing; some of them matter. One
process per role, TLS on loopback, ten bins and one for missing values. Only names are revealed. MB are those between
the parties in both directions. Seconds are those of the exploration, with its correlated randomness. `--wide` also
screens so many features, with a dealer. Writes the table of docs/explore.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.program import DOCS, parse, table, write_between
from mpc.party import Party
from protocols.runtime.local import PARTIES, run_session
from protocols.runtime.settings import FROM_DEALER, Offline
from secure_tree.explore.explore import explore

PAGE, NAME = DOCS / "explore.md", "explore"
FLOORS = {"rows": 100, "class_rows": 10, "bits": 1.0}


def made_up(rows: int, features: int, mattering: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw features of which evenly spread ones matter to the labels, and labels, about a tenth of them 1."""
    rng = np.random.default_rng(features)
    X = rng.standard_normal((rows, features), np.float32)
    places = np.linspace(0, features - 1, mattering).astype(int)
    score = X[:, places] @ np.linspace(0.3, 1, mattering).astype(np.float32) + rng.standard_normal(rows, np.float32)
    X[rng.random((rows, features), np.float32) < 0.02] = np.nan
    return X, (score > np.quantile(score, 0.9)).astype(int)


def measure(rows: int, features: int, top: int, offline: Offline) -> dict[str, float]:
    """Screen features of party 0; party 1 has the labels."""
    mattering = max(1, top * 3 // 5)
    X, y = made_up(rows, features, mattering)
    columns = X, X[:, :0]

    def job(party: Party) -> dict[str, Any]:
        start = perf_counter()
        labels = y if party.rank else None
        found = explore(party, columns[party.rank], labels, partition="vertical", top=top, floors=FLOORS)
        stage = party.stages["explore"]
        return {
            "rounds": stage.rounds,
            "MB between the parties": (stage.bytes_sent + stage.bytes_received) / 1e6,
            "MB dealt": stage.bytes_dealt / 1e6,
            "s": perf_counter() - start,
            "named": found.features,
        }

    outcome = run_session(job, offline=offline)
    results = [outcome[name]["result"] for name in PARTIES]
    figures: dict[str, float] = results[0]
    figures["MB dealt"] = sum(result["MB dealt"] for result in results)
    true = set(np.linspace(0, features - 1, mattering).astype(int).tolist())
    named = [int(name[1:]) for _, name in results[0]["named"]]
    figures["named, of those that matter, %"] = 100 * len(true & {*named}) / mattering
    del figures["named"]
    figures["largest party's peak, MB"] = max(outcome[name]["memory_peak_bytes"] for name in PARTIES) / 1e6
    return figures


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--wide", type=int, default=0, help="also screen so many features, such as 1500")
    parser.add_argument("--wide-top", type=int, default=100)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, rows=300, features=6, top=2, wide=8, wide_top=3)
    rows, d = options.rows, options.features
    name = f"{rows:,} rows, {d:,} features, names of {options.top}"
    runs = {
        f"{name}: dealer": (d, options.top, FROM_DEALER),
        f"{name}: no third party": (d, options.top, Offline("pairwise")),
    }
    if options.wide:
        wide = f"{rows:,} rows, {options.wide:,} features, names of {options.wide_top}: dealer"
        runs[wide] = (options.wide, options.wide_top, FROM_DEALER)
    text = table("by columns", {name: measure(rows, *run) for name, run in runs.items()})
    print(text)
    write_between(PAGE, NAME, text, options.out / PAGE.name)


if __name__ == "__main__":
    main()
