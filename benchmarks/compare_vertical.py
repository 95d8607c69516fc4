"""Compare SecureBoost with the secret-shared trainer on the same columns, in one run: seconds, bytes, rounds, leakage.

    python -m benchmarks.compare_vertical [--rows 30000] [--columns 20] [--trees 3] [--depth 3]

The guest (party 0) has 5 columns and the labels, the host (party 1) `--columns`; TLS on loopback. SecureBoost is
measured from the second tree on, without key generation; a tree of the secret-shared trainer is offline plus online,
with separate bytes between the parties and from the dealer. Writes the table of docs/secureboost.md.
"""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_secureboost import GUEST_COLUMNS, made_up_rows, measure
from benchmarks.complexity import table
from benchmarks.program import DOCS, parse, write_between
from mpc.party import Party
from protocols.baselines.secureboost import SecureBoostConfig
from protocols.runtime.local import PARTIES, run_session
from secure_tree import SecureXGBClassifier
from sharewood.warming_up import warm_up

PAGE, NAME = DOCS / "secureboost.md", "beside the secret-shared trainer"
LEAKS = "sums of g and h in every bucket to the guest, the rows of every node to both"
ENCRYPTIONS = {"paillier": "Paillier", "ou": "Okamoto-Uchiyama"}
ROUND_TRIP = 0.04


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


def cells(tree: dict[str, Any]) -> list[str]:
    """Return the figures of one tree as the page has them."""
    dealt = f"{tree['dealt'] / 1e6:.1f}" if "dealt" in tree else "no dealer"
    return [f"{tree['seconds']:.2f}", f"{tree['bytes'] / 1e6:.1f}", dealt, f"{tree['rounds']:.0f}"]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=20, help="of the host")
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, rows=60, columns=2, trees=2, depth=1)
    X, y = made_up_rows(options.rows, GUEST_COLUMNS + options.columns)
    rows = []
    for encryption, name in ENCRYPTIONS.items():
        config = SecureBoostConfig.of(
            n_estimators=options.trees, max_depth=options.depth, max_bin=32, guest_only="none", encryption=encryption
        )
        tree = measure(config, X, y)
        rows.append([f"SecureBoost, {name}", LEAKS, *cells({**tree, "seconds": np.mean(tree["seconds"])})])
    warm_up()
    tree = secret_shared(X, y, options.trees, options.depth)
    rows.append(["secret-shared", "shapes", *cells(tree)])
    head = ["system", "what leaks", "s / tree", "MB / tree, parties", "MB / tree, dealer", "rounds / tree"]
    # The parties send at the same time, so that a round takes half of a round trip.
    text = (
        "The secret-shared trainer needs a dealer that colludes with nobody. SecureBoost needs none, and only a few "
        f"rounds, which matters if the round trip is long: at {1e3 * ROUND_TRIP:g} ms, the rounds of the secret-shared "
        f"trainer take {tree['rounds'] * ROUND_TRIP / 2:.1f} seconds per tree."
    )
    text = f"{table(head, rows, words_first=2)}\n\n{textwrap.fill(text, 120)}"
    print(text)
    write_between(PAGE, NAME, text, options.out / PAGE.name)


if __name__ == "__main__":
    main()
