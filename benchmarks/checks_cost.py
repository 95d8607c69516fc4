"""Measure the cost of checks: a training and a prediction without checks and with an audit, and a prediction with MACs.

    python -m benchmarks.checks_cost [--trees 3] [--sizes 569 10000] [--offline dealer]

Two processes and a dealer run over TLS on loopback, on generated data by rows with private edges; all rows are
predicted by thresholds. MB count both directions, or bytes from the dealer, or for set-up both; seconds are wall-clock
time per tree, offline and online together; CPU seconds are those of both parties and the dealer. A rehearsal then gives
the cost of a batch of a service. Prints all figures; with a dealer, it writes bytes and rounds, which are exact, into
docs/checks.md.
"""

from __future__ import annotations

import argparse
import resource
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.complexity import table as markdown
from benchmarks.program import DOCS, parse, write_between
from benchmarks.tree_stages import made_up_rows
from mpc.party import Party
from mpc.planning import Rehearsal
from protocols.offline.sizes import request_bytes
from protocols.runtime.local import PARTIES, run_session
from protocols.runtime.settings import Maker, Offline
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.model.shared_model import SharedModel
from sharewood.serving.batches import Batches, BatchShape

# Rows, features and depth.
SIZES = {"smallest": (40, 3, 2), "569": (569, 30, 3), "10000": (10_000, 20, 4)}
CHECKS = ("none", "audit", "MACs")
HEAD = ("size", "checks", "s / tree", "rounds / tree", "MB / tree", "dealt MB / tree", "set-up s", "set-up MB")


def measure(rows: int, features: int, depth: int, trees: int, offline: Maker, checks: str) -> list[float | None]:
    """Return the columns of the table from the third on; MACs concern predictions only."""
    mac = checks == "MACs"

    def job(party: Party) -> dict[str, Any]:
        X, y = made_up_rows(rows // 2 + (rows % 2) * (1 - party.rank), features, party.rank)
        model = SecureXGBClassifier(n_estimators=trees, max_depth=depth, max_bin=32).fit(party, X, y)
        model.predict_margin(party, X, "thresholds", mac=mac)
        return {name: asdict(stage) for name, stage in party.stages.items()}

    before = _cpu_seconds()
    outcome = run_session(job, offline=Offline(offline), audit=checks == "audit")
    cpu = _cpu_seconds() - before
    parties = [outcome[name]["result"] for name in PARTIES]

    def total(*stages: str, of: str = "bytes_sent") -> float:
        return sum(party[stage][of] for party in parties for stage in stages)

    first = parties[0]
    trained = [
        (first["offline"]["seconds"] + first["online"]["seconds"]) / trees,
        (first["offline"]["rounds"] + first["online"]["rounds"]) / trees,
        total("offline", "online") / 1e6 / trees,
        total("offline", of="bytes_dealt") / 1e6 / trees,
        first["setup"]["seconds"],
        (total("setup") + total("setup", of="bytes_dealt")) / 1e6,
    ]
    return [
        *([None] * len(trained) if mac else trained),
        first["predict"]["seconds"] + first["predict_offline"]["seconds"],
        first["predict"]["rounds"],
        total("predict") / 1e6,
        total("predict_offline", of="bytes_dealt") / 1e6,
        None if mac else cpu,
    ]


def exact(figures: list[float | None]) -> list[str]:
    """Return the figures that do not depend on the machine, as cells of the page."""
    _, rounds, moved, dealt, _, setup, _, *predicted, _ = figures
    trained = [] if rounds is None else [moved, rounds, dealt]
    cells = trained, [] if setup is None else [setup], [predicted[1], predicted[0], predicted[2]]
    return [", ".join(f"{f:,.0f}" if f >= 10 else f"{f:.2g}" for f in cell if f is not None) for cell in cells]


def _cpu_seconds() -> float:
    """Return the CPU seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@cache
def _half_of_a_model() -> SharedModel:
    def fit(party: Party) -> SecureXGBClassifier:
        return SecureXGBClassifier(n_estimators=20, max_depth=4, max_bin=8).fit(
            party, *made_up_rows(30, 20, party.rank)
        )

    model = run_both(fit)[0][0].model
    assert model is not None, "it was trained"
    return model


def a_batch(rows: int, mac: bool) -> tuple[int, int, int]:
    """Return rounds, bytes in both directions, dealt bytes of a service's batch: 20 trees of depth 4, 20 features."""
    model = _half_of_a_model()
    batches, shape, rehearsal = Batches(model, "thresholds", (0, 1), rows, mac), BatchShape(0, rows), Rehearsal.at(0)
    prepared, own = batches.prepare(rehearsal.party), np.zeros((rows, batches.width), np.float32)
    rehearsal.cut()
    batches.predict(rehearsal.party, shape, own, np.ones(rows, np.int64), prepared)
    spent = rehearsal.cut()
    dealt = sum(sum(request_bytes(request).corrections) for request in spent.requests)
    return spent.rounds, spent.sent + spent.received, dealt


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=["569", "10000"])
    parser.add_argument("--offline", choices=("dealer", "pairwise"), default="dealer")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 64], help="rows of a batch of a service")
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, sizes=["smallest"], trees=1, batches=[1])
    written: list[list[str]] = []
    table = Table(*HEAD, "predict s", "predict rounds", "predict MB", "predict dealt MB", "CPU s", box=MARKDOWN)
    for name in options.sizes:
        rows, features, depth = SIZES[name]
        for checks in CHECKS if options.offline == "dealer" else CHECKS[:2]:
            figures = measure(rows, features, depth, options.trees, options.offline, checks)
            size = f"{rows:,} x {features}, depth {depth}"
            table.add_row(size, checks, *("" if figure is None else f"{figure:.4g}" for figure in figures))
            written.append([size, checks, *exact(figures)])
    Console(width=240).print(table)
    batches = [
        [str(rows), "yes" if mac else "no", *(f"{figure:,}" for figure in a_batch(rows, mac))]
        for rows in options.batches
        for mac in (False, True)
    ]
    predicting = f"predicting all rows by thresholds, {options.trees} trees: MB, rounds, dealt MB"
    head = ["work", "checks", "per tree: MB, rounds, dealt MB", "set-up: MB, dealt included", predicting]
    of_batches = markdown(["rows of a batch", "MACs", "rounds", "bytes", "bytes dealt"], batches)
    print(of_batches)
    if options.offline == "dealer":
        page = options.out / "checks.md"
        write_between(DOCS / "checks.md", "trainings", markdown(head, written, words_first=5), page)
        write_between(page, "batches", of_batches)


if __name__ == "__main__":
    main()
