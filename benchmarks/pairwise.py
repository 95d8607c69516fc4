"""Measure a tree without a dealer: seconds, bytes, rounds and oblivious transfers, beside a tree with a dealer.

    python -m benchmarks.pairwise [--ot ferret softspoken] [--sizes 569 10000-joint ...] [--out DIR]

Two processes run over TLS on loopback, on generated rows. Seconds per tree are the wall-clock seconds of the training
without its set-up, offline and online together, divided by the number of trees; CPU seconds are those of the busier
party. MB and rounds are those of both phases, in both directions. Prints the table as Markdown, and with --out writes
it into a copy of docs/pairwise.md in DIR.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from benchmarks.complexity import table
from benchmarks.program import DOCS, parse, write_between
from benchmarks.tree_stages import made_up_rows
from mpc.party import Party
from protocols.ot.correlated import OtKind
from protocols.runtime.local import PARTIES, run_session
from protocols.runtime.settings import Maker, Offline
from secure_tree import SecureXGBClassifier
from sharewood.warming_up import warm_up


@dataclass(frozen=True)
class Size:
    """Rows of the table, features of each party (by rows, of both), depth, bins, the division, and trees."""

    rows: int
    features: tuple[int, int]
    depth: int
    bins: int
    partition: str
    edges: str = "private"
    trees: int = 3

    @property
    def name(self) -> str:
        features = f"{self.features[0]} + {self.features[1]}" if self.partition == "vertical" else self.features[0]
        how = "by columns" if self.partition == "vertical" else f"by rows, {self.edges} edges"
        return f"{self.rows:,} x {features}, depth {self.depth}, {self.bins} bins, {how}"


SIZES = {
    "smallest": Size(40, (2, 2), 1, 4, "horizontal", trees=1),
    "569": Size(569, (30, 30), 3, 32, "horizontal"),
    "569-joint": Size(569, (30, 30), 3, 32, "horizontal", "joint"),
    "569-columns": Size(569, (15, 15), 3, 32, "vertical"),
    "10000": Size(10_000, (20, 20), 4, 32, "horizontal"),
    "10000-joint": Size(10_000, (20, 20), 4, 32, "horizontal", "joint"),
    "100000-joint": Size(100_000, (20, 20), 4, 32, "horizontal", "joint", trees=2),
    "100000": Size(100_000, (20, 20), 4, 32, "horizontal", trees=2),
    "50000-columns": Size(50_000, (8, 7), 4, 8, "vertical"),
    "140000-columns": Size(140_000, (7, 16), 5, 10, "vertical", trees=2),
}
USUAL = [name for name in SIZES if name != "smallest"]
COLUMNS = (
    "work",
    "randomness",
    "s per tree",
    "CPU s per tree",
    "MB per tree",
    "rounds per tree",
    "dealt MB per tree",
    "set-up, s",
    "set-up, MB",
    "peak MB of a process",
)


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


def measure(size: Size, offline: Maker, ot: OtKind) -> Measured:
    """One training."""

    def job(party: Party) -> dict[str, Any]:
        vertical = size.partition == "vertical"
        rows = size.rows if vertical else size.rows // 2 + (size.rows % 2) * (1 - party.rank)
        X, y = made_up_rows(rows, size.features[party.rank], party.rank)
        model = SecureXGBClassifier(
            n_estimators=size.trees,
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
        f"no third party, {ot}" if offline == "pairwise" else "dealer",
        seconds / size.trees,
        cpu / size.trees,
        (sent("offline") + sent("online")) / size.trees,
        (stages[0]["offline"]["rounds"] + stages[0]["online"]["rounds"]) / size.trees,
        sum(s["offline"]["bytes_dealt"] for s in stages) / 1e6 / size.trees,
        setup,
        sent("setup"),
        max(outcome[name]["memory_peak_bytes"] for name in outcome) / 1e6,
    )


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def cells(m: Measured) -> list[str]:
    """Return the cells of a line of the table."""
    figures = list(asdict(m).values())[2:]
    return [m.size, m.generator, *(f"{v:,.0f}" if v >= 100 else f"{v:.3g}" for v in figures)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ot", nargs="+", choices=get_args(OtKind), default=["ferret"])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=USUAL)
    parser.add_argument("--out", type=Path, help="a folder for the page")
    options = parse(parser, arguments, sizes=["smallest"], ot=["softspoken"])
    generators: list[tuple[Maker, OtKind]] = [*(("pairwise", ot) for ot in options.ot), ("dealer", "ferret")]
    warm_up()
    measured = []
    for name in options.sizes:
        for offline, ot in generators:
            measured.append(measure(SIZES[name], offline, ot))
            print(measured[-1], flush=True)
    text = table(list(COLUMNS), [cells(each) for each in measured], words_first=2)
    if options.out:
        write_between(DOCS / "pairwise.md", "trees", text, options.out / "pairwise.md")
    print(text)


if __name__ == "__main__":
    main()
