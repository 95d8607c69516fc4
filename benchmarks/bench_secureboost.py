"""SecureBoost against its own textbook version: one host, Paillier and Okamoto-Uchiyama with 2048-bit keys.

    python -m benchmarks.bench_secureboost [--rows 30000] [--columns 20] [--trees 2] [--encryption paillier ou]

Textbook: g and h encrypted apart, every node accumulated, every sum decrypted on its own. Both versions run over TLS
loopback and blind the sums. Rows are standard normal from a fixed seed; the guest has 5 columns, the host `--columns`.
Seconds of a tree, without the key's generation: on the wall; and of CPU, guest and host together, which another load on
the machine disturbs less. Writes out/bench/secureboost.json.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from protocols.runtime.launch import run_processes
from protocols.secureboost import Guest, Host, SecureBoostConfig

GUEST_COLUMNS = 5
VERSIONS = {"accelerated": {}, "textbook": {"packing": False, "sibling_subtraction": False}}


def made_up_rows(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """X float32[rows, columns] and labels 0 or 1 that depend on all of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns), np.float32)
    return X, (X.sum(axis=1) / np.sqrt(columns) + rng.standard_normal(rows) > 0).astype(float)


def cpu_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system


class _Counted:
    """A channel that notes every message it sends."""

    def __init__(self, channel, sent: list) -> None:
        self._channel, self._sent = channel, sent

    def send(self, tag, tree) -> None:
        self._sent.append(tag)
        self._channel.send(tag, tree)

    def __getattr__(self, name):
        return getattr(self._channel, name)


def measure(config: SecureBoostConfig, X: np.ndarray, y: np.ndarray, guest_columns: int = GUEST_COLUMNS) -> dict:
    """Seconds, bytes and rounds of one tree, from the second on; at least two trees.

    The host's CPU includes its binning. A round is a message of the guest and the host's answer.
    """

    def guest(channels):
        clock = []
        questions = []
        for name, channel in channels.items():
            channels[name] = _Counted(channel, questions)
        Guest(channels).train(
            config, X[:, :guest_columns], y, lambda *_: clock.append((time.perf_counter(), cpu_seconds()))
        )
        wall, cpu = (np.array(clock[-1]) - clock[0]) / (config.n_estimators - 1)
        moved = sum(channel.wire_sent + channel.wire_received for channel in channels.values())
        tree = {"seconds": float(wall), "cpu_seconds": float(cpu), "bytes": moved // config.n_estimators}
        return {**tree, "rounds": len(questions) / config.n_estimators}

    def host(channels):
        started = cpu_seconds()
        Host(channels["guest"]).train(X[:, guest_columns:])
        return (cpu_seconds() - started) / config.n_estimators

    results = run_processes({"guest": guest, "host": host})
    tree = results["guest"]
    return {**tree, "cpu_seconds": tree["cpu_seconds"] + results["host"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=20, help="of the host")
    parser.add_argument("--trees", type=int, default=2)
    parser.add_argument("--encryption", nargs="+", default=["paillier", "ou"], choices=["paillier", "ou"])
    options = parser.parse_args()
    X, y = made_up_rows(options.rows, GUEST_COLUMNS + options.columns)
    table = Table("encryption", "version", "s / tree", "CPU s / tree", "MB / tree", "CPU saved")
    results = []
    for encryption in options.encryption:
        measured = {}
        for version, switches in VERSIONS.items():
            config = SecureBoostConfig.of(
                n_estimators=options.trees,
                max_depth=3,
                max_bin=32,
                guest_only="none",
                encryption=encryption,
                **switches,
            )
            measured[version] = measure(config, X, y)
            results.append({"encryption": encryption, "version": version, **measured[version]})
        saved = measured["textbook"]["cpu_seconds"] / measured["accelerated"]["cpu_seconds"]
        for version, m in measured.items():
            figures = f"{m['seconds']:.2f}", f"{m['cpu_seconds']:.2f}", f"{m['bytes'] / 1e6:.2f}"
            table.add_row(encryption, version, *figures, f"{saved:.2f}x" if version == "accelerated" else "")
    Console().print(table)
    path = Path("out/bench/secureboost.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"options": vars(options), "results": results}, indent=2))


if __name__ == "__main__":
    main()
