"""SecureBoost against its own textbook version: one host, Paillier and Okamoto-Uchiyama with 2048-bit keys.

    python -m benchmarks.bench_secureboost [--rows 30000] [--columns 20 | --data default_credit]
                                           [--trees 2] [--encryption paillier ou]

The textbook version encrypts g and h separately, accumulates every node, and decrypts every sum separately. All
versions run over TLS on loopback and blind the sums. Generated rows are standard normal from a fixed seed, with 5
columns at the guest; a shared vertical data set has its own columns. Figures are means over the trees from the second
on, without keys and binning: wall-clock seconds, and CPU seconds of guest and host together, which depend less on other
load. Writes out/bench/secureboost.json.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.program import parse
from protocols.baselines.secureboost import Guest, Host, SecureBoostConfig
from protocols.runtime.processes import run_processes
from protocols.transport.channel import Channel
from tests.protocols.baselines.secureboost.parties import hetero

GUEST_COLUMNS = 5
VERSIONS: dict[str, dict[str, Any]] = {
    "textbook": {"packing": False, "sibling_subtraction": "off"},
    "only packing": {"sibling_subtraction": "off"},
    "siblings by the host": {"sibling_subtraction": "host"},
    "siblings by the guest (default)": {},
}


def made_up_rows(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X float32[rows, columns], and labels 0 or 1 that depend on all columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns), np.float32)
    return X, (X.sum(axis=1) / np.sqrt(columns) + rng.standard_normal(rows) > 0).astype(float)


def cpu_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system


def _watch(channel: Channel, method: str, note: Callable[[Any], None]) -> None:
    """A channel that calls note(result) after every call of its method."""
    act = getattr(channel, method)

    def watched(*arguments: Any) -> Any:
        result = act(*arguments)
        note(result)
        return result

    setattr(channel, method, watched)


def measure(
    config: SecureBoostConfig, X: np.ndarray, y: np.ndarray, guest_columns: int = GUEST_COLUMNS
) -> dict[str, Any]:
    """Measure seconds and CPU seconds of each tree from the second on, of at least two trees; bytes and rounds per
    tree.

    A round is a message of the guest and the host's answer. Every tree must send requests to the host.
    """

    def guest(channels: dict[str, Channel]) -> dict[str, Any]:
        clock: list[tuple[float, float]] = []
        questions: list[Any] = []
        for channel in channels.values():
            _watch(channel, "send", questions.append)
        Guest(channels).train(
            config, X[:, :guest_columns], y, lambda *_: clock.append((time.perf_counter(), cpu_seconds()))
        )
        moved = sum(channel.wire_sent + channel.wire_received for channel in channels.values())
        trees = config.n_estimators
        return {"spent": np.diff(clock, axis=0), "bytes": moved // trees, "rounds": len(questions) / trees}

    def host(channels: dict[str, Channel]) -> np.ndarray:
        clock: list[float] = []

        def note(question: Any) -> None:
            if isinstance(question, dict) and question.get("sealed"):  # the first request of a tree
                clock.append(cpu_seconds())

        _watch(channels["guest"], "receive", note)
        Host(channels["guest"]).train(X[:, guest_columns:])
        return np.diff([*clock, cpu_seconds()])[1:]

    results = run_processes({"guest": guest, "host": host})
    tree = results["guest"]
    seconds, guest_cpu = tree.pop("spent").T
    return {**tree, "seconds": seconds.tolist(), "cpu_seconds": (guest_cpu + results["host"]).tolist()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=20, help="of the host")
    parser.add_argument("--data", choices=["breast", "default_credit"], help="instead of generated rows")
    parser.add_argument("--trees", type=int, default=2)
    parser.add_argument("--encryption", nargs="+", default=["paillier", "ou"], choices=["paillier", "ou"])
    parser.add_argument("--versions", nargs="+", choices=VERSIONS, default=list(VERSIONS))
    options = parse(parser, arguments, rows=60, columns=2, encryption=["ou"], versions=["textbook"])
    if options.data:
        guest, host, y = hetero(options.data)
        X, guest_columns = np.hstack([guest, host]), guest.shape[1]
    else:
        X, y = made_up_rows(options.rows, GUEST_COLUMNS + options.columns)
        guest_columns = GUEST_COLUMNS
    shared: dict[str, Any] = {"n_estimators": options.trees, "max_depth": 3, "max_bin": 32, "guest_only": "none"}
    table = Table("encryption", "version", "CPU s / tree", "times less", "s / tree", "MB / tree", box=MARKDOWN)
    results = []
    textbook = 0.0
    for encryption, version in product(options.encryption, options.versions):
        m = measure(SecureBoostConfig.of(**shared, encryption=encryption, **VERSIONS[version]), X, y, guest_columns)
        results.append({"encryption": encryption, "version": version, **m})
        cpu = np.mean(m["cpu_seconds"])
        textbook = cpu if version == "textbook" else textbook
        figures = f"{cpu:.2f}", f"{textbook / cpu:.2f}", f"{np.mean(m['seconds']):.2f}", f"{m['bytes'] / 1e6:.1f}"
        table.add_row(encryption, version, *figures)
    Console(width=120).print(table)
    path = Path("out/bench/secureboost.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"options": vars(options), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
