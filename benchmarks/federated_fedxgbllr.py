"""Measure tables 2 to 5 of docs/fedxgbllr.md on the available sets, and append one CSV line per run.

    python -m benchmarks.federated_fedxgbllr --data a9a --clients 2 5 10 --seeds 0 1 2 3 4 \
        --reg-alpha 5 --min-split-loss 5 --subsample 0.8 --out docs/figures/fedxgbllr.csv

Beside the network: the mean of the clients' margins, SimFL (`benchmarks.simfl`), and XGBoost on the pooled rows.
Clients and server run in this process, through `LocalFederation`; a Flower run of the same training gives the same
weights (tests/protocols/baselines/federated/test_flower.py).
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss

from benchmarks import simfl
from benchmarks.federated_data import REGRESSION_LABELS, load
from benchmarks.program import parse
from protocols.baselines.federated.engine import LocalFederation
from protocols.baselines.federated.fedxgbllr.client import FedXGBllrClient
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.fedxgbllr.model import FedXGBllrModel
from protocols.baselines.federated.fedxgbllr.server import train
from protocols.baselines.federated.fedxgbllr.trees import fit_ensemble
from protocols.baselines.federated.objectives import sigmoid
from protocols.baselines.federated.secure_sum import OpenSum
from protocols.baselines.federated.virtual_samples.metrics import calibration_error
from sharewood.baselines.division import DIVISIONS, Division, divide

DEFAULTS = FedXGBllrConfig.of()
Line = dict[str, float | int | str | None]


def run(
    X: np.ndarray,
    y: np.ndarray,
    clients: int,
    config: FedXGBllrConfig,
    divided: Division = "equal",
    with_simfl: bool = True,
) -> Line:
    """Train on 75 % of the rows, shuffled by `config.seed`, then divided; return scores on the other 25 %."""
    order = np.random.default_rng(config.seed).permutation(len(X))
    training, test = np.split(order, [len(X) * 3 // 4])

    def score(predicted: np.ndarray) -> float:
        if config.classification:
            return 100 * float(np.mean((predicted > 0.5) == y[test]))
        return float(np.mean((predicted - y[test]) ** 2))

    def measured(predicted: np.ndarray, of: str) -> Line:
        """Return the columns `of`: accuracy or squared error, and for two classes log loss and calibration error."""
        loss = log_loss(y[test], predicted, labels=[0, 1]) if config.classification else None
        calibration = calibration_error(y[test], predicted) if config.classification else None
        return {of: score(predicted), f"logloss_{of}": loss, f"calibration_{of}": calibration}

    parts = [training[part] for part in divide(X[training], y[training], clients, divided, config.seed)]
    federation = LocalFederation(
        {i: FedXGBllrClient(i, X[part], y[part], config, OpenSum()) for i, part in enumerate(parts)}
    )
    by_round: list[float] = []

    def progress(number: int, model: FedXGBllrModel) -> None:
        by_round.append(score(model.predict(X[test])))

    begin = time.perf_counter()
    model = train(federation, config, OpenSum(), progress)
    seconds = time.perf_counter() - begin

    targets, scale = (y - model.location) / model.scale, model.scale
    pooled = fit_ensemble(X[training], targets[training], config.total_trees, config, scale)
    central = replace(model, ensembles=[pooled]).predict_by_mean(X[test])
    of_simfl: Line = dict.fromkeys(("simfl", "logloss_simfl", "calibration_simfl"))
    if with_simfl:
        margin = simfl.margins(X, targets, parts, test, config, scale)
        of_simfl = measured(sigmoid(margin) if config.classification else model.location + scale * margin, "simfl")
    return {
        "clients": clients,
        "architecture": config.architecture,
        "seed": config.seed,
        "reg_alpha": config.reg_alpha,
        "min_split_loss": config.min_split_loss,
        "subsample": config.subsample,
        "rounds": config.rounds,
        "start": config.start,
        "validation_share": config.validation_share,
        "local": f"{config.local_batches} batches" if config.local_batches else f"{config.local_epochs} epochs",
        **measured(model.predict(X[test]), "network"),
        **measured(model.predict_by_mean(X[test]), "mean"),
        **of_simfl,
        **measured(central, "centralised"),
        "kept": model.kept,
        "round_1": by_round[0],
        "last_round": by_round[-1],
        "parameters": len(model.weights),
        "tree_bytes": sum(map(len, model.ensembles)),
        "sent_bytes": sum(federation.sent.values()),
        "received_bytes": sum(federation.received.values()),
        "seconds": round(seconds, 1),
        "divided": divided,
        "label_means": " ".join(f"{y[part].mean():.3g}" for part in parts),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["abalone"])
    parser.add_argument("--clients", nargs="+", type=int, default=[2, 5, 10])
    parser.add_argument("--architectures", nargs="+", default=["interpretable"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--reg-alpha", type=float, default=DEFAULTS.reg_alpha)
    parser.add_argument("--min-split-loss", type=float, default=DEFAULTS.min_split_loss)
    parser.add_argument("--subsample", type=float, default=DEFAULTS.subsample)
    parser.add_argument("--rounds", type=int, default=DEFAULTS.rounds)
    parser.add_argument("--local-epochs", type=int, default=DEFAULTS.local_epochs)
    parser.add_argument("--local-batches", type=int, default=DEFAULTS.local_batches)
    parser.add_argument("--start", choices=["mean", "kaiming"], default=DEFAULTS.start)
    parser.add_argument("--validation-share", type=float, default=DEFAULTS.validation_share)
    parser.add_argument("--divided", choices=DIVISIONS, default="equal")
    parser.add_argument("--without-simfl", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, help="use at most these first rows of a set")
    parser.add_argument("--trees", type=int, default=DEFAULTS.total_trees, help="of all clients together")
    given = parse(parser, arguments, rows=80, clients=[2], rounds=1, local_epochs=1, trees=10)

    import torch

    torch.set_num_threads(1)
    for name in given.data:
        X, y = (part[: given.rows] for part in load(name))
        for seed in given.seeds:
            for clients in given.clients:
                for architecture in given.architectures:
                    config = FedXGBllrConfig.of(
                        objective="reg:squarederror" if name in REGRESSION_LABELS else "binary:logistic",
                        architecture=architecture,
                        seed=seed,
                        total_trees=given.trees,
                        reg_alpha=given.reg_alpha,
                        min_split_loss=given.min_split_loss,
                        subsample=given.subsample,
                        rounds=given.rounds,
                        local_epochs=given.local_epochs,
                        local_batches=given.local_batches,
                        start=given.start,
                        validation_share=given.validation_share,
                    )
                    line = run(X, y, clients, config, given.divided, not given.without_simfl)
                    append(given.out, {"data": name} | line)


def append(path: Path, line: Line) -> None:
    """Append one line to a CSV file, with a header if the file is new."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(line), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(line)


if __name__ == "__main__":
    main()
