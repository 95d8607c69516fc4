"""What a SecureBoost guest recovers of a host's bins, row by row, from the sums that it decrypts anyway.

    python -m benchmarks.attack_secureboost [breast student default_credit] [--trees 5 20 50] [--rows 2000]

The guest follows the protocol. It knows g and h of every row in every tree, and a host's bins stay the same: each
decrypted sum is a linear equation in the unknown "row r is in bucket b". The equations of all trees are solved by least
squares under "each row is in one bucket of each column". The command's defaults: depth 3, 32 bins, learning rate 0.1;
keys of 1024 bits, since the attack does not touch the encryption. Prints a table as Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from protocols.runtime.launch import run_processes
from protocols.secureboost import Guest, Host, SecureBoostConfig
from protocols.secureboost.columns import bin_columns
from protocols.secureboost.remote import RemoteColumns

OBJECTIVES = {"breast": "binary:logistic", "student": "reg:squarederror", "default_credit": "binary:logistic"}


@dataclass
class Notes:
    """The equations of a training: coefficients [n] each, and the sums [columns, buckets] that they give."""

    coefficients: list[np.ndarray] = field(default_factory=list)
    sums: list[np.ndarray] = field(default_factory=list)

    def watch(self, columns: type[RemoteColumns]) -> None:
        """Write down what every host of this process is asked, and what the guest decrypts of its answers."""
        ask, histograms = columns.ask, columns.histograms

        def noted_ask(remote, assignment, nodes):
            for node in nodes:
                self.coefficients += list(np.where(assignment == node, remote._values.T, 0).astype(float))
            ask(remote, assignment, nodes)

        def noted_histograms(remote):
            opened = histograms(remote)
            self.sums += [part for node in opened for part in np.moveaxis(node, -1, 0).astype(float)]
            return opened

        columns.ask, columns.histograms = noted_ask, noted_histograms  # type: ignore[method-assign]


def recover(notes: Notes, rounds: int = 150) -> np.ndarray:
    """The likeliest bucket of each row in each column, int64[n, columns]."""
    _, columns, buckets = np.shape(notes.sums)
    coefficients, sums = np.stack(notes.coefficients), np.stack(notes.sums).reshape(len(notes.sums), -1)
    left, strength, known = np.linalg.svd(coefficients, full_matrices=False)
    clear = strength > 1e-9 * strength[0]
    left, strength, known = left[:, clear], strength[clear], known[clear]
    wanted = (left.T @ sums) / strength[:, None]
    # Between the equations, whose directions are orthonormal now, and one bucket per row: accelerated projections.
    guess = np.full((coefficients.shape[1], columns, buckets), 1 / buckets)
    ahead, pace = guess, 1.0
    for _ in range(rounds):
        flat = ahead.reshape(len(guess), -1)
        after = on_simplex((flat + known.T @ (wanted - known @ flat)).reshape(guess.shape))
        faster = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        ahead, guess, pace = after + (pace - 1) / faster * (after - guess), after, faster
    return guess.argmax(axis=2)


def on_simplex(values: np.ndarray) -> np.ndarray:
    """The nearest numbers that are not negative and add up to 1 along the last axis."""
    falling = -np.sort(-values, axis=-1)
    over = falling.cumsum(axis=-1) - 1
    place = np.arange(1, values.shape[-1] + 1)
    last = (falling * place > over).sum(axis=-1, keepdims=True) - 1
    return np.maximum(values - np.take_along_axis(over / place, last, axis=-1), 0)


def attack(
    config: SecureBoostConfig, guest_X: np.ndarray, host_X: np.ndarray, y: np.ndarray, after: list[int]
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """One training. By the number of trees in `after`: the share of rows whose bin is recovered, and the share in the
    fullest bin, which is what guessing gives; both float64[columns] of the host.
    """
    truth = bin_columns(np.asarray(host_X, np.float32), config.bins).numbers

    def guest(channels):
        notes, shares = Notes(), {}
        notes.watch(RemoteColumns)

        def progress(number: int, margins: np.ndarray) -> None:
            if number + 1 in after:
                shares[str(number + 1)] = (recover(notes) == truth).mean(axis=0)

        Guest(channels).train(config, guest_X, y, progress)
        return shares

    def host(channels) -> None:
        Host(channels["guest"]).train(host_X)

    shares = run_processes({"guest": guest, "host": host})["guest"]
    fullest = np.array([np.bincount(column).max() / len(column) for column in truth.T])
    return {int(trees): (share, fullest) for trees, share in shares.items()}


def main() -> None:
    from tests.protocols.secureboost.parties import hetero

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(OBJECTIVES))
    parser.add_argument("--trees", nargs="+", type=int, default=[5, 20, 50])
    parser.add_argument("--rows", type=int, default=2000, help="the first rows of a set, at most")
    parser.add_argument("--guest-only", default="none")
    given = parser.parse_args()
    share: Callable[[float], str] = "{:.0%}".format
    print("| set | rows | host's columns | guessing | " + " | ".join(f"{trees} trees" for trees in given.trees) + " |")
    print("|---" * (4 + len(given.trees)) + "|")
    for name in given.sets:
        guest_X, host_X, y = (np.asarray(part)[: given.rows] for part in hetero(name))
        config = SecureBoostConfig.of(
            objective=OBJECTIVES[name],
            n_estimators=max(given.trees),
            guest_only=given.guest_only,
            encryption="ou",
            key_bits=1024,
        )
        found = attack(config, guest_X, host_X, y, given.trees)
        figures = [f"{share(s.mean())} ({share(s.min())} to {share(s.max())})" for s, _ in found.values()]
        guessing = next(iter(found.values()))[1].mean()
        print(
            f"| {name} | {len(y)} | {host_X.shape[1]} | {share(guessing)} | " + " | ".join(figures) + " |", flush=True
        )


if __name__ == "__main__":
    main()
