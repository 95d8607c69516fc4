"""Compare SecureBoost with the secret-shared trainer on the same columns, in one run: seconds, bytes, rounds, leakage.

    python -m benchmarks.compare_vertical [--rows 30000] [--columns 20] [--trees 3] [--depth 3]

The guest (party 0) has 5 columns and the labels, the host (party 1) `--columns`; TLS on loopback. SecureBoost is
measured from the second tree on, without key generation; a tree of the secret-shared trainer is offline plus online,
with separate bytes between the parties and from the dealer. Prints the table as Markdown, and writes it to
docs/figures/compare_vertical.csv.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.bench_secureboost import GUEST_COLUMNS, made_up_rows, measure
from benchmarks.program import DOCS, parse
from mpc.party import Party
from protocols.baselines.secureboost import SecureBoostConfig
from protocols.runtime.local import PARTIES, run_session
from secure_tree import SecureXGBClassifier
from sharewood.warming_up import warm_up

LEAKS = {
    "SecureBoost": "sums of g and h in every bucket to the guest, the rows of every node to both",
    "secret-shared": "shapes",
}


def secret_shared(X: np.ndarray, y: np.ndarray, trees: int, depth: int) -> dict[str, float]:
    """Return the figures of one tree of the secret-shared trainer."""

    def job(party: Party) -> dict[str, Any]:
        own = X[:, :GUEST_COLUMNS] if party.rank == 0 else X[:, GUEST_COLUMNS:]
        SecureXGBClassifier(partition="vertical", n_estimators=trees, max_depth=depth, min_child_weight=1.0).fit(
            party, own, y if party.rank == 0 else None
        )
        return {"stages": {name: asdict(stage) for name, stage in party.stages.items()}}

    outcome = run_session(job)
    first, second = (outcome[name]["result"] for name in PARTIES)
    # The two phases overlap, and one party waits for the other, which waits for the dealer.
    offline = max(r["stages"]["offline"]["seconds"] for r in (first, second))
    online = min(r["stages"]["online"]["seconds"] for r in (first, second))
    stages = [r["stages"] for r in (first, second)]
    return {
        "seconds": max(offline, online) / trees,
        "bytes": sum(s["online"]["bytes_sent"] for s in stages) / trees,
        "dealt": sum(s["offline"]["bytes_dealt"] for s in stages) / trees,
        "rounds": stages[0]["online"]["rounds"] / trees,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=20, help="of the host")
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, rows=60, columns=2, trees=2, depth=1)
    X, y = made_up_rows(options.rows, GUEST_COLUMNS + options.columns)
    results = {}
    for encryption in ("paillier", "ou"):
        config = SecureBoostConfig.of(
            n_estimators=options.trees, max_depth=options.depth, max_bin=32, guest_only="none", encryption=encryption
        )
        measured = measure(config, X, y)
        results[f"SecureBoost, {encryption}"] = {**measured, "seconds": np.mean(measured["seconds"])}
    warm_up()
    results["secret-shared"] = secret_shared(X, y, options.trees, options.depth)
    head = "system", "s / tree", "MB / tree, parties", "MB / tree, dealer", "rounds / tree", "what leaks"
    rows = []
    for name, m in results.items():
        dealt = f"{m['dealt'] / 1e6:.1f}" if "dealt" in m else "no dealer"
        figures = f"{m['seconds']:.2f}", f"{m['bytes'] / 1e6:.1f}", dealt, f"{m['rounds']:.0f}"
        rows.append((name, *figures, LEAKS[name.split(",")[0]]))
    table = Table(*head, box=MARKDOWN)
    for row in rows:
        table.add_row(*row)
    Console(width=240).print(table)
    table_file = options.out / "figures" / "compare_vertical.csv"
    table_file.parent.mkdir(parents=True, exist_ok=True)
    with table_file.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


if __name__ == "__main__":
    main()
