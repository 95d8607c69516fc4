"""Attack SecureBoost: recover a host's bins, row by row, from the sums that the guest decrypts; evaluate defences.

    python -m benchmarks.attack_secureboost [breast student default_credit] [--trees 5 20 50] [--rows 2000]
    python -m benchmarks.attack_secureboost --defences [--trees 20] ...

The guest follows the protocol. It knows g and h of every row in every tree, and a host's bins stay the same: each
decrypted sum is a linear equation in the unknown "row r is in bucket b". The equations of all trees are solved by least
squares under "each row is in one bucket of each column", each direction weighted by how far it stands out of the noise.
A second attack uses only the mean number of a bucket from each sum, and therefore does not need fixed bins. Defaults
are those of the command (depth 3, 32 bins, learning rate 0.1), with keys of 1024 bits, since the attack does not
concern the encryption. Prints tables as Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from benchmarks.program import parse
from protocols.baselines.secureboost import Guest, Host, SecureBoostConfig, remote
from protocols.baselines.secureboost.columns import BinnedColumns, bin_columns
from protocols.baselines.secureboost.encoding import FRACTION_BITS
from protocols.baselines.secureboost.remote import RemoteColumns, Sums
from protocols.runtime.processes import run_processes
from protocols.transport.channel import Channel
from secure_tree.data.bins import bin_rows

OBJECTIVES = {"breast": "binary:logistic", "student": "reg:squarederror", "default_credit": "binary:logistic"}
FRESH = "bins drawn afresh for each tree"
DEFENCES: dict[str, dict[str, Any]] = {
    "none": {},
    "a third of the columns per tree": {"colsample_bytree": 0.34},
    FRESH: {},
    "epsilon 300": {"epsilon": 300},
    "epsilon 30": {"epsilon": 30},
    "epsilon 10": {"epsilon": 10},
    "epsilon 3": {"epsilon": 3},
}
ALONE = "only the guest's columns"
FINER = 4

share: Callable[[float], str] = "{:.0%}".format


@dataclass
class Notes:
    """The equations of a training: coefficients [n] each, and the sums [columns, buckets] that they give.

    NaN where a column was not requested; all in units of the tree's largest g and h.
    """

    coefficients: list[np.ndarray] = field(default_factory=list)
    sums: list[np.ndarray] = field(default_factory=list)
    deviation: float = 0.0

    def watch(self, columns: type[RemoteColumns]) -> None:
        """Record the requests to every host of this process, and the guest's decryptions of the answers."""
        ask, histograms = columns.ask, columns.histograms

        def noted_ask(owner: RemoteColumns, assignment: np.ndarray, nodes: np.ndarray) -> None:
            self.deviation = owner.deviation
            for node in nodes:
                self.coefficients += list(np.where(assignment == node, owner._values.T, 0) * 2.0**-FRACTION_BITS)
            ask(owner, assignment, nodes)

        def noted_histograms(owner: RemoteColumns) -> Any:
            opened = histograms(owner)
            for node in opened:
                for part in np.moveaxis(node, -1, 0):
                    sums = np.full((owner.features, part.shape[1]), np.nan)
                    sums[owner._columns] = part * 2.0**-FRACTION_BITS
                    self.sums.append(sums)
            return opened

        columns.ask, columns.histograms = noted_ask, noted_histograms  # type: ignore[method-assign, assignment]


@dataclass(frozen=True)
class System:
    """Equations by singular values: `strength` of the directions `known` [k, n], and their left vectors `left`."""

    left: np.ndarray
    strength: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, coefficients: np.ndarray) -> System:
        left, strength, known = np.linalg.svd(coefficients, full_matrices=False)
        clear = strength > 1e-9 * strength[0]
        return cls(left[:, clear], strength[clear], known[clear])


def recover(notes: Notes, rounds: int = 150) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the likeliest bucket of each row and column, int64[n, columns], and each attack's estimate of its place.

    Places are float64[n, columns], of any scale.
    """
    coefficients, sums = np.stack(notes.coefficients), np.stack(notes.sums)
    (_, columns, buckets), n = sums.shape, coefficients.shape[1]
    likeliest, by_bins, by_means = np.zeros((n, columns), np.int64), np.zeros((n, columns)), np.zeros((n, columns))
    asked = ~np.isnan(sums[:, :, 0])
    for pattern in np.unique(asked, axis=1).T:
        some = np.flatnonzero((asked == pattern[:, None]).all(axis=0))
        system = System.of(coefficients[pattern])
        found = memberships(system, sums[pattern][:, some], notes.deviation, rounds)
        likeliest[:, some], by_bins[:, some] = found.argmax(axis=2), found @ np.arange(buckets)
        by_means[:, some] = mean_numbers(system, coefficients[pattern], sums[pattern][:, some], notes.deviation)
    return likeliest, [by_bins, by_means]


def memberships(system: System, sums: np.ndarray, deviation: float, rounds: int) -> np.ndarray:
    """Return how likely each row is in each bucket, float64[n, columns, buckets], from sums [m, columns, buckets]."""
    _, columns, buckets = sums.shape
    wanted = (system.left.T @ sums.reshape(len(sums), -1)) / system.strength[:, None]
    trust = _trust(system.strength, deviation, (1 - 1 / buckets) / buckets)
    # Between the equations, whose directions are orthonormal now, and one bucket per row: accelerated projections.
    guess = np.full((system.known.shape[1], columns, buckets), 1 / buckets)
    ahead, pace = guess, 1.0
    for _ in range(rounds):
        flat = ahead.reshape(len(guess), -1)
        after = on_simplex((flat + system.known.T @ (trust * (wanted - system.known @ flat))).reshape(guess.shape))
        faster = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        ahead, guess, pace = after + (pace - 1) / faster * (after - guess), after, faster
    return guess


def mean_numbers(system: System, coefficients: np.ndarray, sums: np.ndarray, deviation: float) -> np.ndarray:
    """Return the bucket numbers of rows minus their mean, float64[n, columns], from one equation per node and column.

    A bucket's number states where a row is in a column even if edges differ in every tree, with an error of about a
    bucket per row.
    """
    buckets = sums.shape[2]
    rough = np.median(np.linalg.norm(coefficients, axis=1)) + deviation * buckets
    wanted = sums @ np.arange(buckets) - (coefficients.sum(axis=1) * (buckets - 1) / 2)[:, None]
    trust = _trust(system.strength, rough, buckets**2 / 12)
    return system.known.T @ (trust * (system.left.T @ wanted) / system.strength[:, None])


def _trust(strength: np.ndarray, deviation: float, variance: float) -> np.ndarray:
    """Return the fraction along each direction that is not noise, float64[k, 1]."""
    return (strength**2 / (strength**2 + deviation**2 / variance))[:, None]


def on_simplex(values: np.ndarray) -> np.ndarray:
    """Return the nearest non-negative numbers that add up to 1 along the last axis."""
    falling = -np.sort(-values, axis=-1)
    over = falling.cumsum(axis=-1) - 1
    place = np.arange(1, values.shape[-1] + 1)
    last = (falling * place > over).sum(axis=-1, keepdims=True) - 1
    return np.maximum(values - np.take_along_axis(over / place, last, axis=-1), 0)


class FreshBins(Sums):
    """A host that draws its bins for each tree from FINER times as many."""

    def histograms(self, sealed: Any, columns: Any, assignment: Any, nodes: Any) -> Any:
        if sealed is not None:
            features, (_, size) = self._binned.features, self._binned.edges.shape
            edges = np.stack([_some(each, size) for each in bin_columns(features, min(126, FINER * size)).edges])
            numbers = np.where(np.isnan(features), size, bin_rows(features, edges).astype(int) - 1)
            self._binned = BinnedColumns(features, edges, numbers.astype(np.int8))
        return super().histograms(sealed, columns, assignment, nodes)


def _some(edges: np.ndarray, size: int) -> np.ndarray:
    """Return the smallest of a column's edges and others drawn at random, padded to `size`."""
    least, *others = np.unique(edges)
    drawn = np.random.default_rng().permutation(others)[: size - 1]
    return np.pad(np.sort(np.append(least, drawn)), (0, size - 1 - len(drawn)), mode="edge").astype(np.float32)


def _host_with(fresh_bins: bool, channel: Channel) -> Host:
    if fresh_bins:
        remote.Sums = FreshBins  # type: ignore[misc]
    return Host(channel)


@dataclass(frozen=True)
class Found:
    """Results per column of the host, float64[columns] each.

    `recovered` is the fraction of rows whose bin is found, `guessing` the fraction in the fullest bin, and `order` the
    rank correlation of a row's bin with the better attack's estimate.
    """

    recovered: np.ndarray
    guessing: np.ndarray
    order: np.ndarray


def attack(
    config: SecureBoostConfig,
    guest_X: np.ndarray,
    host_X: np.ndarray,
    y: np.ndarray,
    after: list[int],
    fresh_bins: bool = False,
) -> dict[int, Found]:
    """Run one training, and return the results by the numbers of trees in `after`."""
    truth = bin_columns(np.asarray(host_X, np.float32), config.max_bin).numbers

    def guest(channels: dict[str, Channel]) -> dict[str, Any]:
        notes, found = Notes(), dict[str, Any]()
        notes.watch(RemoteColumns)

        def progress(number: int, margins: np.ndarray) -> None:
            if number + 1 in after:
                likeliest, places = recover(notes)
                order = max((rank_correlations(each, truth) for each in places), key=np.mean)
                found[str(number + 1)] = ((likeliest == truth).mean(axis=0), order)

        Guest(channels).train(config, guest_X, y, progress)
        return found

    def host(channels: dict[str, Channel]) -> None:
        _host_with(fresh_bins, channels["guest"]).train(host_X)

    found = run_processes({"guest": guest, "host": host})["guest"]
    fullest = np.array([np.bincount(column).max() / len(column) for column in truth.T])
    return {int(trees): Found(shares, fullest, order) for trees, (shares, order) in found.items()}


def rank_correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation by column; 0 if a column is constant."""
    return pd.DataFrame(a).corrwith(pd.DataFrame(b), method="spearman").fillna(0).to_numpy()


def held_out_quality(
    config: SecureBoostConfig, guest_X: np.ndarray, host_X: np.ndarray, y: np.ndarray, fresh_bins: bool = False
) -> float:
    """Return the AUC, or the RMSE in regression, on a held-out fifth of the rows."""
    order = np.random.default_rng(0).permutation(len(y))
    held, kept = order[: len(y) // 5], order[len(y) // 5 :]

    def guest(channels: dict[str, Channel]) -> np.ndarray:
        party = Guest(channels)
        return party.predict(party.train(config, guest_X[kept], y[kept]), guest_X[held])

    def host(channels: dict[str, Channel]) -> None:
        party = _host_with(fresh_bins, channels["guest"])
        party.predict(party.train(host_X[kept]), host_X[held])

    predicted = run_processes({"guest": guest, "host": host})["guest"]
    return (roc_auc_score if config.classifies else root_mean_squared_error)(y[held], predicted)


def _config(name: str, trees: int, **options: Any) -> SecureBoostConfig:
    return SecureBoostConfig.of(
        objective=OBJECTIVES[name], n_estimators=trees, encryption="ou", key_bits=1024, **options
    )


def by_trees(names: list[str], trees: list[int], rows: int, guest_only: str) -> None:
    from tests.protocols.baselines.secureboost.parties import hetero

    print("| set | rows | host's columns | guessing | " + " | ".join(f"{each} trees" for each in trees) + " |")
    print("|---" * (4 + len(trees)) + "|")
    for name in names:
        guest_X, host_X, y = (np.asarray(part)[:rows] for part in hetero(name))
        found = attack(_config(name, max(trees), guest_only=guest_only), guest_X, host_X, y, trees)
        shares = [each.recovered for each in found.values()]
        figures = " | ".join(f"{share(s.mean())} ({share(s.min())} to {share(s.max())})" for s in shares)
        guessing = share(next(iter(found.values())).guessing.mean())
        print(f"| {name} | {len(y)} | {host_X.shape[1]} | {guessing} | {figures} |", flush=True)


def by_defences(names: list[str], trees: int, rows: int, defences: list[str]) -> None:
    from tests.protocols.baselines.secureboost.parties import hetero

    print("| set | trees | defence | rows attacked | recovered (guessing) | order | held-out AUC or RMSE |")
    print("|---" * 7 + "|")
    for name in names:
        guest_X, host_X, y = (np.asarray(part) for part in hetero(name))
        few = guest_X[:rows], host_X[:rows], y[:rows]
        for defence in defences:
            config, fresh = _config(name, trees, **DEFENCES[defence]), defence == FRESH
            found = attack(config, *few, after=[trees], fresh_bins=fresh)[trees]
            attacked = f"{share(found.recovered.mean())} ({share(found.guessing.mean())}) | {found.order.mean():.2f}"
            quality = held_out_quality(config, guest_X, host_X, y, fresh)
            print(f"| {name} | {trees} | {defence} | {len(few[-1])} | {attacked} | {quality:.4f} |", flush=True)
        alone = held_out_quality(_config(name, trees), guest_X, np.zeros((len(y), 1)), y)
        print(f"| {name} | {trees} | {ALONE} | | | | {alone:.4f} |", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(OBJECTIVES))
    parser.add_argument("--trees", nargs="+", type=int, default=[5, 20, 50])
    parser.add_argument("--rows", type=int, default=2000, help="attack at most these first rows of a set")
    parser.add_argument("--guest-only", default="none")
    parser.add_argument("--defences", nargs="*", choices=list(DEFENCES), help="defences to compare; without names, all")
    given = parse(parser, arguments, sets=["breast"], trees=[1], rows=60)
    if given.defences is None:
        by_trees(given.sets, given.trees, given.rows, given.guest_only)
    else:
        by_defences(given.sets, max(given.trees), given.rows, given.defences or list(DEFENCES))


if __name__ == "__main__":
    main()
