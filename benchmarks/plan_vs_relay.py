"""Compare `sharewood plan` with trainings between two parties, with and without a dealer, through a shaping relay.

    python -m benchmarks.plan_vs_relay [--networks LAN WAN] [--offline dealer pairwise] [--lines host pair]
                                       [--trees 20] [--jobs "10,000 x 20"]

The commands run as on real hosts: with TLS, certificates, and one process each. The relay has one line per host, or a
line per pair of hosts. Phases are those of the slower party, except online, which is that of the faster one: the other
waits for it while it waits for the dealer. "In all" is the time of the command. Exits with status 1 if the plan in all
is off by more than 15%. Writes out/bench/plan_vs_relay.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.program import parse
from benchmarks.relayed import Relayed, train_relayed
from protocols.runtime.relay import Lines
from protocols.runtime.settings import Link, Maker, Offline
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes
from sharewood.cost.calibration import calibrate
from sharewood.cost.plan import NETWORKS, Networks, plan

PHASES = ("setup", "offline", "online")
IN_ALL = "in all"
TOLERANCE = 0.15
# Rows of each party, features, and parameters.
JOBS = {
    "smallest": ((20, 20), 3, {"n_estimators": 1, "max_depth": 1, "max_bin": 4}),
    "569 x 30": ((285, 284), 30, {"max_depth": 3, "max_bin": 32}),
    "10,000 x 20": ((5000, 5000), 20, {"max_depth": 4, "max_bin": 32}),
}


def made_up(rows: tuple[int, int], features: int) -> list[pd.DataFrame]:
    """Return a table for each party."""
    rng = np.random.default_rng(11)
    tables = []
    for count in rows:
        X = rng.normal(size=(count, features)).astype(np.float32)
        table = pd.DataFrame(X, columns=[f"f{i}" for i in range(features)])
        table["label"] = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
        tables.append(table)
    return tables


def seconds(run: Relayed) -> dict[str, float]:
    """Return seconds by phase; `IN_ALL` is the training as the slower party saw it."""
    # Online, the party that waited longer for the dealer: the other waited for it, and counts this as online.
    which = {"setup": max, "offline": max, "online": min}
    return {**{p: which[p](report[p]["seconds"] for report in run.reports) for p in PHASES}, IN_ALL: run.seconds}


def compare(job: str, train: dict[str, Any], offline: Maker, lines: Lines, networks: Networks) -> list[dict[str, Any]]:
    """Return planned and measured seconds of each phase and in all, by network."""
    rows, features, _ = JOBS[job]
    config, usual = TrainConfig.of(**train), Sizes.numeric(rows, features)
    computing = calibrate(config, usual, Offline(offline))
    results = []
    for network, figures in networks.items():
        link = Link(*figures)
        sizes = replace(usual, round_price=link.round_price)
        planned = plan(config, sizes, computing, computing, networks={network: figures})
        needed = planned if offline == "dealer" else planned.pairwise
        assert needed is not None and needed.times is not None, "computing was measured"
        measured = seconds(train_relayed(made_up(rows, features), train, offline, lines, link))
        estimate = {**needed.times.seconds[network], IN_ALL: needed.times.totals[network][lines]}
        what = {"job": job, **train, "offline": offline, "lines": lines, "network": network}
        results += [
            {**what, "phase": phase, "planned": estimate[phase], "measured": measured[phase]} for phase in estimate
        ]
    return results


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=["WAN"])
    parser.add_argument("--offline", nargs="+", choices=("dealer", "pairwise"), default=["dealer", "pairwise"])
    parser.add_argument("--lines", nargs="+", choices=("host", "pair"), default=["host", "pair"])
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=["10,000 x 20"])
    parser.add_argument("--trees", type=int, default=20)
    smallest = {"networks": ["LAN"], "offline": ["dealer"], "lines": ["host"], "jobs": ["smallest"], "trees": 1}
    options = parse(parser, arguments, **smallest)
    networks = {name: NETWORKS[name] for name in options.networks}
    results: list[dict[str, Any]] = []
    table = Table("job", "offline", "lines", "network", "phase", "planned s", "measured s", "off by")
    off: list[float] = []
    for job in options.jobs:
        train = {**JOBS[job][2], "n_estimators": options.trees}
        for offline in options.offline:
            for lines in options.lines:
                for r in compare(job, train, offline, lines, networks):
                    results.append(r)
                    share = r["planned"] / r["measured"] - 1
                    figures = f"{r['planned']:.2f}", f"{r['measured']:.2f}", f"{share:+.0%}"
                    table.add_row(job, offline, lines, r["network"], r["phase"], *figures)
                    print(job, offline, lines, r["network"], r["phase"], *figures, flush=True)
                    off += [share] if r["phase"] == IN_ALL else []
                table.add_section()
    Console(width=120).print(table)
    path = Path("out/bench/plan_vs_relay.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    return int(any(abs(share) > TOLERANCE for share in off))


if __name__ == "__main__":
    sys.exit(main())
