"""Compare `sharewood plan` with trainings between two parties and a dealer, with a shaping relay on every link.

    python -m benchmarks.plan_vs_relay [--networks LAN WAN] [--comparisons bits keys] [--jobs "569 x 30"]

The commands run as on real hosts: with TLS, certificates, and one process each. The relay shapes the link between the
parties and those to the dealer, whose uplink serves both parties. Stages are those of the slower party, except online,
where they are those of the faster one: the other waits for it while it waits for the dealer. Exits with status 1 if the
estimate of a whole training is off by more than 30%. Writes out/bench/plan_vs_relay.json.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.program import parse
from protocols.runtime.relay import Address, Lines, Route, relay
from secure_tree.config import TrainConfig
from secure_tree.planning import Sizes
from sharewood.calibration import Computing, calibrate
from sharewood.planning import NETWORKS, plan

COMMAND = [sys.executable, "-c", "from sharewood.cli import main; main()"]
NAMES = ("party_a", "party_b")
PHASES = ("setup", "offline", "online")
IN_ALL = "in all"
FIGURES = ("on_the_network", "planned", "measured")
TOLERANCE = 0.3
# Rows of each party, features, and parameters.
JOBS = {
    "smallest": ((20, 20), 3, {"n_estimators": 1, "max_depth": 1, "max_bin": 4}),
    "569 x 30": ((285, 284), 30, {"n_estimators": 3, "max_depth": 3, "max_bin": 32}),
    "10,000 x 20": ((5000, 5000), 20, {"n_estimators": 3, "max_depth": 4, "max_bin": 32}),
}


def made_up(folder: Path, rows: tuple[int, int], features: int) -> None:
    """Write a CSV file for each party."""
    rng = np.random.default_rng(11)
    for name, count in zip(NAMES, rows, strict=True):
        X = rng.normal(size=(count, features)).astype(np.float32)
        table = pd.DataFrame(X, columns=[f"f{i}" for i in range(features)])
        table["label"] = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
        table.to_csv(folder / f"{name}.csv", index=False)


def configure(folder: Path, role: str, meeting: Address, dealer: Address | None, train: dict[str, Any]) -> Path:
    """Write the role's configuration, with the addresses that it uses."""
    own = f'train_data = "{role}.csv"\nmodel = "{role}.npz"\n'
    lines = ['tls = "keys"']
    lines += ["[dealer]", f'address = "{dealer[0]}:{dealer[1]}"'] if dealer else ['offline = "pairwise"']
    for name in NAMES:
        lines += [f"[parties.{name}]", f'address = "{meeting[0]}:{meeting[1]}"', own if name == role else ""]
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
    round_trip: float,
    rate: float,
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
        with relay(routes, round_trip / 2, rate, lines) as (to_first, *to_dealer):
            dealers = to_dealer if dealing else (None, None)
            configure(folder, NAMES[0], meeting, dealers[0], train)
            configure(folder, NAMES[1], to_first, dealers[1], train)
            commands = [["train", "--config", f"{p}.toml", "--party", p, "--json", f"{p}.json"] for p in NAMES]
            if dealing:
                configure(folder, "dealer", meeting, dealer, {})
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


def compare(job: str, train: dict[str, Any], network: str, computing: Computing) -> list[dict[str, Any]]:
    """Return planned and measured seconds of each phase."""
    rows, features, _ = JOBS[job]
    planned = plan(TrainConfig.of(**train), Sizes.numeric(rows, features), computing)
    assert planned.times is not None, "computing was measured"
    measured = measure(rows, features, train, "dealer", "pair", *NETWORKS[network])
    return [
        {
            "job": job,
            "comparison": train["comparison"],
            "network": network,
            "phase": phase,
            "on_the_network": planned.network_seconds[network][phase],
            "planned": planned.times.seconds[network][phase],
            "measured": measured[phase],
        }
        for phase in PHASES
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--comparisons", nargs="+", choices=("bits", "keys"), default=["bits", "keys"])
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS)[1:])
    options = parse(parser, arguments, jobs=["smallest"], networks=["LAN"], comparisons=["bits"])
    results: list[dict[str, Any]] = []
    for job in options.jobs:
        for comparison in options.comparisons:
            rows, features, parameters = JOBS[job]
            train = {**parameters, "comparison": comparison}
            computing = calibrate(TrainConfig.of(**train), Sizes.numeric(rows, features))
            for network in options.networks:
                results += compare(job, train, network, computing)
                for r in results[-len(PHASES) :]:
                    print(*r.values(), flush=True)
    table = Table("job", "comparison", "network", "phase", "on the network s", "planned s", "measured s", "off by")
    whole: list[float] = []
    for first in range(0, len(results), len(PHASES)):
        run = results[first : first + len(PHASES)]
        total = {key: sum(r[key] for r in run) for key in FIGURES}
        for r in [*run, {**run[0], **total, "phase": "in all"}]:
            share = r["planned"] / r["measured"] - 1
            figures = (f"{r[key]:.2f}" for key in FIGURES)
            table.add_row(r["job"], r["comparison"], r["network"], r["phase"], *figures, f"{share:+.0%}")
        table.add_section()
        whole.append(total["planned"] / total["measured"] - 1)
    Console(width=120).print(table)
    path = Path("out/bench/plan_vs_relay.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    return int(any(abs(share) > TOLERANCE for share in whole))


if __name__ == "__main__":
    sys.exit(main())
