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
import re
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.program import parse
from protocols.runtime.relay import Lines, Route, relay
from protocols.runtime.settings import Link, Maker, Offline
from protocols.transport.tcp import Address
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes
from sharewood.cost.calibration import calibrate
from sharewood.cost.plan import NETWORKS, Networks, plan

COMMAND = [sys.executable, "-c", "from sharewood.cli import main; main()"]
NAMES = ("party_a", "party_b")
PHASES = ("setup", "offline", "online")
IN_ALL = "in all"
TOLERANCE = 0.15
# Rows of each party, features, and parameters.
JOBS = {
    "smallest": ((20, 20), 3, {"n_estimators": 1, "max_depth": 1, "max_bin": 4}),
    "569 x 30": ((285, 284), 30, {"max_depth": 3, "max_bin": 32}),
    "10,000 x 20": ((5000, 5000), 20, {"max_depth": 4, "max_bin": 32}),
}


def made_up(folder: Path, rows: tuple[int, int], features: int) -> None:
    """Write a CSV file for each party."""
    rng = np.random.default_rng(11)
    for name, count in zip(NAMES, rows, strict=True):
        X = rng.normal(size=(count, features)).astype(np.float32)
        table = pd.DataFrame(X, columns=[f"f{i}" for i in range(features)])
        table["label"] = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
        table.to_csv(folder / f"{name}.csv", index=False)


def configure(
    folder: Path, role: str, meeting: Address, dealer: Address | None, train: dict[str, Any], link: Link
) -> Path:
    """Write the role's configuration, with the addresses that it uses, and the link."""
    own = f'train_data = "{role}.csv"\nmodel = "{role}.npz"\n'
    lines = ['tls = "keys"']
    lines += ["[dealer]", f'address = "{dealer[0]}:{dealer[1]}"'] if dealer else ['offline = "pairwise"']
    for name in NAMES:
        lines += [f"[parties.{name}]", f'address = "{meeting[0]}:{meeting[1]}"', own if name == role else ""]
    lines += ["[link]", f"round_trip = {1e3 * link.round_trip}", f"rate = {link.rate / 1e6}"]
    lines += ["[train]", *(f"{key} = {json.dumps(value)}" for key, value in train.items())]
    path = folder / f"{role}.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def free_address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()


def measure(
    rows: tuple[int, int],
    features: int,
    train: dict[str, Any],
    offline: str,
    lines: Lines,
    link: Link,
) -> dict[str, float]:
    """Train through the relay, and return seconds by phase; `IN_ALL` is the training as the slower party saw it."""
    dealing = offline == "dealer"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [*COMMAND, "keygen", "--out", "keys", "--names", "dealer", *NAMES],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        made_up(folder, rows, features)
        meeting, dealer = free_address(), free_address()
        routes = [Route("party_b", "party_a", meeting)]
        routes += [Route(party, "dealer", dealer) for party in NAMES if dealing]
        with relay(routes, link.round_trip / 2, link.rate, lines) as (to_first, *to_dealer):
            dealers = to_dealer if dealing else (None, None)
            configure(folder, NAMES[0], meeting, dealers[0], train, link)
            configure(folder, NAMES[1], to_first, dealers[1], train, link)
            commands = [["train", "--config", f"{p}.toml", "--party", p, "--json", f"{p}.json"] for p in NAMES]
            if dealing:
                configure(folder, "dealer", meeting, dealer, {}, link)
                commands.insert(0, ["dealer", "--config", "dealer.toml", "--sessions", "1"])
            processes = [
                subprocess.Popen(
                    [*COMMAND, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
                for command in commands
            ]
            said = [process.communicate() for process in processes]
        for process, (_, error) in zip(processes, said, strict=True):
            if process.returncode:
                raise SystemExit(error)
        reports = [json.loads((folder / f"{party}.json").read_text()) for party in NAMES]
    # Online, the party that waited longer for the dealer: the other waited for it, and counts this as online.
    which = {"setup": max, "offline": max, "online": min}
    seconds = {phase: which[phase](report[phase]["seconds"] for report in reports) for phase in PHASES}
    whole = [float(found[1]) for out, _ in said if (found := re.search(r"trained in ([\d.]+) s", out))]
    return {**seconds, IN_ALL: max(whole)}


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
        measured = measure(rows, features, train, offline, lines, link)
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
