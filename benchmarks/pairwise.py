"""Measure a tree without a dealer: seconds, bytes, rounds and oblivious transfers, beside a tree with a dealer.

    python -m benchmarks.pairwise [--trees 3] [--ot ferret softspoken] [--sizes 569x30 ...] [--out FILE]

Two processes run over TLS on loopback, on generated rows. Seconds per tree are the wall-clock seconds of the training
without its set-up, offline and online together, divided by the number of trees; `cpu` are CPU seconds of the busier
party. MB and rounds are those of both phases, in both directions. Prints the table as Markdown.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.program import parse
from benchmarks.tree_stages import made_up_rows
from mpc.party import Party
from protocols.ot.correlated import OtKind
from protocols.runtime.local import PARTIES, run_session
from protocols.runtime.settings import Maker, Offline
from secure_tree import SecureXGBClassifier


@dataclass(frozen=True)
class Size:
    """Rows of the table, features of each party (by rows, of both), depth, bins, and the division."""

    rows: int
    features: tuple[int, int]
    depth: int
    bins: int
    partition: str
    edges: str = "private"

    @property
    def name(self) -> str:
        features = f"{self.features[0]} + {self.features[1]}" if self.partition == "vertical" else self.features[0]
        how = "by columns" if self.partition == "vertical" else f"by rows, {self.edges} edges"
        return f"{self.rows:,} x {features}, depth {self.depth}, {self.bins} bins, {how}"


SIZES = {
    "smallest": Size(40, (2, 2), 1, 4, "horizontal"),
    "569": Size(569, (30, 30), 3, 32, "horizontal"),
    "569-joint": Size(569, (30, 30), 3, 32, "horizontal", "joint"),
    "569-columns": Size(569, (15, 15), 3, 32, "vertical"),
    "10000": Size(10_000, (20, 20), 4, 32, "horizontal"),
    "10000-joint": Size(10_000, (20, 20), 4, 32, "horizontal", "joint"),
    "100000-joint": Size(100_000, (20, 20), 4, 32, "horizontal", "joint"),
    "100000": Size(100_000, (20, 20), 4, 32, "horizontal"),
    "50000-columns": Size(50_000, (8, 7), 4, 8, "vertical"),
    "140000-columns": Size(140_000, (7, 16), 5, 10, "vertical"),
}


@dataclass(frozen=True)
class Measured:
    """The cost of one tree, except for set-up, which is that of the training."""

    size: str
    generator: str
    seconds: float
    cpu: float
    megabytes: float
    rounds: float
    dealt_megabytes: float
    setup_seconds: float
    setup_megabytes: float
    peak_megabytes: float


def measure(size: Size, trees: int, offline: Maker, ot: OtKind) -> Measured:
    """One training."""

    def job(party: Party) -> dict[str, Any]:
        vertical = size.partition == "vertical"
        rows = size.rows if vertical else size.rows // 2 + (size.rows % 2) * (1 - party.rank)
        X, y = made_up_rows(rows, size.features[party.rank], party.rank)
        model = SecureXGBClassifier(
            n_estimators=trees,
            max_depth=size.depth,
            max_bin=size.bins,
            partition=size.partition,
            edges=size.edges,
        )
        names = [f"{'ab'[party.rank] if vertical else ''}f{i}" for i in range(size.features[party.rank])]
        X = X.set_axis(names, axis=1) if hasattr(X, "set_axis") else X
        start = time.perf_counter(), time.process_time()
        model.fit(party, X, None if vertical and party.rank else y)
        end = _now()
        return {"start": start, "end": end, "stages": {k: asdict(v) for k, v in party.stages.items()}}

    outcome = run_session(job, offline=Offline(offline, ot))
    results = [outcome[name]["result"] for name in PARTIES]
    stages = [r["stages"] for r in results]

    def sent(stage: str) -> float:
        return sum(s[stage]["bytes_sent"] for s in stages) / 1e6

    setup = max(s["setup"]["seconds"] for s in stages)
    seconds = max(r["end"][0] - r["start"][0] for r in results) - setup
    cpu = max(r["end"][1] - r["start"][1] for r in results)
    return Measured(
        size.name,
        f"pairwise, {ot}" if offline == "pairwise" else "dealer",
        seconds / trees,
        cpu / trees,
        (sent("offline") + sent("online")) / trees,
        (stages[0]["offline"]["rounds"] + stages[0]["online"]["rounds"]) / trees,
        sum(s["offline"]["bytes_dealt"] for s in stages) / 1e6 / trees,
        setup,
        sent("setup"),
        max(outcome[name]["memory_peak_bytes"] for name in outcome) / 1e6,
    )


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--ot", nargs="+", choices=("ferret", "softspoken"), default=["ferret"])
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES)[1:])
    parser.add_argument("--no-dealer", action="store_true", help="leave out the comparison")
    parser.add_argument("--out", type=Path)
    options = parse(parser, arguments, sizes=["smallest"], trees=1, ot=["softspoken"])
    measured = []
    for name in options.sizes:
        kinds: list[tuple[Maker, OtKind]] = [] if options.no_dealer else [("dealer", "ferret")]
        for offline, ot in [*kinds, *(("pairwise", ot) for ot in options.ot)]:
            measured.append(measure(SIZES[name], options.trees, offline, ot))
            print(measured[-1], flush=True)
    head = ("size", "generator", "s / tree", "CPU s / tree", "MB / tree", "rounds / tree", "dealt MB / tree")
    table = Table(*head, "set-up s", "set-up MB", "peak MB", box=MARKDOWN)
    for m in measured:
        table.add_row(m.size, m.generator, *(f"{v:.3g}" for v in list(asdict(m).values())[2:]))
    Console(width=240).print(table)
    if options.out:
        options.out.write_text(json.dumps([asdict(m) for m in measured], indent=1) + "\n")


if __name__ == "__main__":
    main()
