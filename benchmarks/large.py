"""Measure trainings on long and wide tables: seconds, bytes and memory of three processes, and AUC beside XGBoost.

    python -m benchmarks.large [--sizes 1000000 1000000-joint 20000x500 100000x200 10000000-joint] [--out DIR]

Data is generated and has 32 bins; trees have depth 4. By rows, each party has half of the rows, by columns, half of the
features. AUC is that of 100,000 other rows, by rows; by columns, of the rows of the training. The memory of all is the
sum of the three processes' peaks of resident memory, pages of files included. Prints the table as Markdown, and with
--out writes it into a copy of docs/scaling.md in DIR.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from sklearn.metrics import roc_auc_score

from benchmarks.complexity import table
from benchmarks.program import DOCS, parse, write_between
from mpc.party import Party
from protocols.runtime.local import DEALER, PARTIES, run_session
from secure_tree import SecureXGBClassifier
from sharewood.warming_up import warm_up


@dataclass(frozen=True)
class Size:
    """Rows and features of the whole table, how it is divided, and the number of trees."""

    rows: int
    features: int
    how: str
    trees: int = 2
    depth: int = 4

    @property
    def name(self) -> str:
        return f"{self.rows:,} x {self.features}, {self.how}"

    @property
    def parameters(self) -> dict[str, Any]:
        given = {"n_estimators": self.trees, "max_depth": self.depth, "max_bin": 32, "learning_rate": 0.3}
        if self.how == "by columns":
            return given | {"partition": "vertical"}
        return given | {"edges": "joint" if "joint" in self.how else "private"}


PRIVATE, JOINT, COLUMNS = "by rows, private edges", "by rows, joint edges", "by columns"
SIZES = {
    "smallest": Size(400, 4, PRIVATE, 1, 1),
    "1000000": Size(1_000_000, 8, PRIVATE),
    "1000000-joint": Size(1_000_000, 8, JOINT),
    "10000000-joint": Size(10_000_000, 8, JOINT, 5),
    "100000x200": Size(100_000, 200, COLUMNS),
    "20000x500": Size(20_000, 500, COLUMNS),
}
USUAL = [name for name in SIZES if name not in ("smallest", "10000000-joint")]
FRESH = 100_000
COLUMNS_OF_TABLE = (
    "table",
    "set-up, s",
    "set-up, MB",
    "s per tree",
    "online MB per tree",
    "dealt MB per tree",
    "memory of a party, GB",
    "memory of all, GB",
    "AUC",
    "XGBoost's AUC",
)


def made_up(rows: int, features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X float32[rows, features], and labels 0 or 1 that depend on four columns, and on chance."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features), np.float32)
    score = X[:, 0] + np.sin(2 * X[:, 1]) - 0.7 * X[:, -1] + 0.5 * np.abs(X[:, -2])
    return X, (score + rng.standard_normal(rows, np.float32) > 0.4).astype(np.float32)


def own(size: Size, rank: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return what party `rank` trains on."""
    if size.how != COLUMNS:
        return made_up(size.rows // 2, size.features, rank)
    X, y = made_up(size.rows, size.features, 0)
    half = size.features // 2
    return (X[:, :half], y) if rank == 0 else (X[:, half:], None)


def measure(size: Size) -> list[str]:
    """Return the cells of a line of the table."""

    def job(party: Party) -> dict[str, Any]:
        X, y = own(size, party.rank)
        started = time.perf_counter()
        model = SecureXGBClassifier(**size.parameters).fit(party, X, y)
        seconds = time.perf_counter() - started
        stages = {name: (s.seconds, s.bytes_sent + s.bytes_received, s.bytes_dealt) for name, s in party.stages.items()}
        if size.how != COLUMNS:
            X, y = made_up(FRESH if party.rank == 0 else 0, size.features, 2)
        margins = model.predict_margin(party, X)
        return {"seconds": seconds, "stages": stages, "auc": roc_auc_score(y, margins) if party.rank == 0 else None}

    outcome = run_session(job)
    peaks = [outcome[name]["memory_peak_bytes"] / 1e9 for name in (*PARTIES, DEALER)]
    results = [outcome[name]["result"] for name in PARTIES]
    setup, online, offline = ([r["stages"][name] for r in results] for name in ("setup", "online", "offline"))
    setup_seconds = max(seconds for seconds, _, _ in setup)
    figures = (
        setup_seconds,
        (setup[0][1] + sum(dealt for _, _, dealt in setup)) / 1e6,
        (max(r["seconds"] for r in results) - setup_seconds) / size.trees,
        online[0][1] / 1e6 / size.trees,
        sum(dealt for _, _, dealt in offline) / 1e6 / size.trees,
        max(peaks[:2]),
        sum(peaks),
    )
    cells = [f"{x:,.0f}" if x >= 100 else f"{x:.1f}" for x in figures]
    return [size.name, *cells, *(f"{auc:.4f}" for auc in (results[0]["auc"], auc_of_xgboost(size)))]


def auc_of_xgboost(size: Size) -> float:
    """Return the AUC of a training on the whole table, in the clear."""
    parts = [own(size, rank) for rank in (0, 1)]
    by_columns = size.how == COLUMNS
    X = np.concatenate([x for x, _ in parts], axis=1 if by_columns else 0)
    y = np.concatenate([y for _, y in parts if y is not None])
    parameters = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "max_depth": size.depth,
        "max_bin": 32,
        "eta": 0.3,
    }
    booster = xgboost.train(parameters, xgboost.DMatrix(X, y), size.trees)
    fresh, truth = (X, y) if by_columns else made_up(FRESH, size.features, 2)
    return float(roc_auc_score(truth, booster.predict(xgboost.DMatrix(fresh))))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=USUAL)
    parser.add_argument("--out", type=Path, help="a folder for the page")
    options = parse(parser, arguments, sizes=["smallest"])
    warm_up()
    text = table(list(COLUMNS_OF_TABLE), [measure(SIZES[name]) for name in options.sizes], words_first=1)
    if options.out:
        write_between(DOCS / "scaling.md", "large", text, options.out / "scaling.md")
    print(text)


if __name__ == "__main__":
    main()
