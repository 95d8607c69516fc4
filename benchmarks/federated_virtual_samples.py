"""Measure figures 4 to 7 and table 1 of docs/virtual_samples.md: a CSV line per model and phase; curves as JSON.

    python -m benchmarks.federated_virtual_samples --data rare --seeds 0 1 2 3 4 5 6 7 8 9 --update-trees 25 \
        --min-group 1 --out docs/figures/virtual_samples.csv --curves docs/figures/virtual_samples_curves.json

`--data` is rare (a generated table for each seed), default_credit, or the path of the user's own copy of the Kaggle
credit card table. Nodes and server run in this process, through `LocalFederation`. Boundaries are computed on the
pooled rows, which gives exactly the values on which the nodes agree by protocol (tests check this). "original" is one
cluster for every distinct value, at one node: clusters add up, so the number of nodes has no effect.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.federated_data import load, load_creditcard, rare_positives
from benchmarks.federated_fedxgbllr import append
from benchmarks.program import parse
from protocols.baselines.federated.engine import LocalFederation
from protocols.baselines.federated.objectives import sigmoid
from protocols.baselines.federated.secure_sum import OpenSum
from protocols.baselines.federated.virtual_samples.boundaries import every_value, pooled_boundaries
from protocols.baselines.federated.virtual_samples.clusters import assign
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from protocols.baselines.federated.virtual_samples.forest import Forest
from protocols.baselines.federated.virtual_samples.metrics import evaluate
from protocols.baselines.federated.virtual_samples.node import VirtualSamplesNode
from protocols.baselines.federated.virtual_samples.server import Server

NODES, DEFAULTS = 3, VirtualSamplesConfig.of()
PEERS = ("GBDT", "Random Forest", "XGBoost")
UPDATE_SHARE, TEST_SHARE = 59_875 / 284_807, 45_569 / 284_807


def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the row numbers of update, test and training, in the proportions of section 5."""
    order = np.random.default_rng(seed).permutation(rows)
    first, second = round(rows * UPDATE_SHARE), round(rows * (UPDATE_SHARE + TEST_SHARE))
    return order[:first], order[first:second], order[second:]


def log_loss(y: np.ndarray, probability: np.ndarray) -> float:
    """Return the mean cross-entropy in nats."""
    p = np.clip(probability, 1e-15, 1 - 1e-15)
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


def federated(
    X: np.ndarray, y: np.ndarray, clusters: int | None, seed: int, options: dict[str, object]
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Train before and after the update, and yield (phase, CSV line, curves). `options` are VirtualSamplesConfig's."""
    update, test, training = split(len(X), seed)
    boundaries = every_value(X[training]) if clusters is None else pooled_boundaries(X[training], clusters)
    config = VirtualSamplesConfig.of(clusters=boundaries.shape[1] + 1, **options)
    count = 1 if clusters is None else NODES
    nodes = {}
    for i, (rows, new) in enumerate(zip(np.array_split(training, count), np.array_split(update, count), strict=True)):
        nodes[i] = VirtualSamplesNode(i, X[rows], y[rows], config, OpenSum(), bytes(32), (X[new], y[new]))
        nodes[i].memory["boundaries"] = boundaries
    in_training, in_test = assign(boundaries, X[training]), assign(boundaries, X[test])
    losses: list[float] = []
    running = np.zeros(len(training))

    def progress(number: int, forest: Forest) -> None:
        nonlocal running
        running = running + forest[number - 1 :].margin(in_training)
        losses.append(log_loss(y[training], sigmoid(server.base_margin + running)))

    federation = LocalFederation(nodes)
    server = Server(federation, X.shape[1], config, OpenSum(), progress)
    joined = 0
    for phase, step in (("before", server.fit), ("after", server.update)):
        begin = time.perf_counter()
        joined = step() or 0
        seconds = time.perf_counter() - begin
        if len(server.forest) < len(losses):
            running = server.forest.margin(in_training)
            losses = losses[: len(server.forest)]
        on_training = sigmoid(server.base_margin + running)
        on_test = sigmoid(server.base_margin + server.forest.margin(in_test))
        line = {
            "method": "federated",
            "clusters": "original" if clusters is None else clusters,
            "phase": phase,
            "seed": seed,
            **evaluate(y[test], on_test),
            "auprc_train": evaluate(y[training], on_training)["auprc"],
            "loss_train": losses[-1],
            "min_group": config.min_group,
            "smallest_group": min(node.smallest_sent for node in nodes.values()),
            "joined": joined,
            "received_bytes": sum(federation.received.values()),
            "seconds": round(seconds, 1),
        }
        curves = {
            "loss": list(losses),
            "train": precision_recall(y[training], on_training),
            "test": precision_recall(y[test], on_test),
        }
        yield phase, line, curves


def centralised(
    X: np.ndarray, y: np.ndarray, seed: int, trees: int, peers: Sequence[str] = PEERS
) -> Iterator[tuple[str, dict[str, Any], list[float]]]:
    """Train `peers` on the pooled training rows, and yield (name, CSV line, losses)."""
    import xgboost as xgb
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

    _, test, training = split(len(X), seed)
    shared = {"learning_rate": 0.1, "max_depth": 4, "n_estimators": trees}
    models = {
        "GBDT": GradientBoostingClassifier(**shared, random_state=seed),
        "Random Forest": RandomForestClassifier(random_state=seed),
        "XGBoost": xgb.XGBClassifier(**shared, tree_method="exact", n_jobs=1),
    }
    for name in peers:
        model = models[name]
        begin = time.perf_counter()
        model.fit(X[training], y[training])
        losses = []
        if name == "GBDT":
            losses = [log_loss(y[training], p[:, 1]) for p in model.staged_predict_proba(X[training])]
        elif name == "XGBoost":
            stages = (model.predict_proba(X[training], iteration_range=(0, t + 1))[:, 1] for t in range(trees))
            losses = [log_loss(y[training], p) for p in stages]
        on_training = model.predict_proba(X[training])[:, 1]
        line = {
            "method": name,
            "clusters": "",
            "phase": "",
            "seed": seed,
            **evaluate(y[test], model.predict_proba(X[test])[:, 1]),
            "auprc_train": evaluate(y[training], on_training)["auprc"],
            "loss_train": log_loss(y[training], on_training),
            "min_group": "",
            "smallest_group": "",
            "joined": "",
            "received_bytes": "",
            "seconds": round(time.perf_counter() - begin, 1),
        }
        yield name, line, losses


def precision_recall(y: np.ndarray, probability: np.ndarray, points: int = 200) -> dict[str, list[float]]:
    """Return at most `points` of the curve, evenly spread over its thresholds."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, _ = precision_recall_curve(y, probability)
    at = np.unique(np.linspace(0, len(precision) - 1, points).astype(int))
    kept = np.union1d(at, np.flatnonzero(np.diff(recall, prepend=2) != 0)[-points:])
    return {"precision": precision[kept].round(5).tolist(), "recall": recall[kept].round(5).tolist()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="rare")
    parser.add_argument("--clusters", nargs="*", default=["10", "20", "50", "100", "200", "405", "1000", "original"])
    parser.add_argument("--min-group", type=int, default=DEFAULTS.min_group)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--trees", type=int, default=DEFAULTS.n_estimators)
    parser.add_argument("--update-trees", type=int, default=DEFAULTS.update_estimators)
    parser.add_argument("--choose-once", action="store_true")
    parser.add_argument("--update-check", type=float, default=DEFAULTS.update_check)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--curves", type=Path)
    parser.add_argument("--rows", type=int, help="use at most these first rows of a set")
    given = parse(
        parser, arguments, data="default_credit", rows=600, clusters=["4", "original"], trees=2, update_trees=1
    )

    options = {"n_estimators": given.trees, "update_estimators": given.update_trees, "min_group": given.min_group}
    options |= {"rechoose": not given.choose_once, "update_check": given.update_check}
    curves: dict[str, object] = {}
    for seed in given.seeds:
        if given.data == "rare":
            X, y = rare_positives(seed=seed)
        else:
            X, y = load("default_credit") if given.data == "default_credit" else load_creditcard(Path(given.data))
        X, y = X[: given.rows], y[: given.rows]
        name = Path(given.data).name
        for clusters in given.clusters:
            number = None if clusters == "original" else int(clusters)
            for phase, line, curve in federated(X, y, number, seed, options):
                append(given.out, {"data": name} | line)
                if seed == given.seeds[0]:
                    curves[f"{clusters} {phase}"] = curve
        for peer, line, losses in centralised(X, y, seed, given.trees, given.peers):
            append(given.out, {"data": name} | line)
            if seed == given.seeds[0]:
                curves[peer] = {"loss": losses}
        if given.curves:
            given.curves.write_text(json.dumps(curves))


if __name__ == "__main__":
    main()
