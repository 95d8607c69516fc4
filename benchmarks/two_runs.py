"""Measure how far trainings of the same rows differ, because their coins do, beside XGBoost.

python -m benchmarks.two_runs           measures; writes docs/figures/two_runs.json and the table of docs/secure_tree.md
python -m benchmarks.two_runs --page    writes the table from the existing JSON
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from benchmarks.program import DOCS, parse, write_between
from mpc.party import Party
from protocols.runtime import run_local
from secure_tree import SecureXGBClassifier, SecureXGBRegressor

PAGE, NAME = DOCS / "secure_tree.md", "two runs"
BOOSTING: dict[str, Any] = {"max_depth": 4, "learning_rate": 0.3, "min_child_weight": 1.0}
BINS = 32
# XGBoost has no coins; other numbers of bins show how much as small a change of the cuts moves it.
BINS_OF_XGBOOST = (28, 30, 31, 33, 34, 36)
Rows = tuple[np.ndarray, np.ndarray]


def made_up(rows: int, seed: int) -> Rows:
    """Draw six normal features and a number that depends on four of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 6), np.float32)
    signal = X[:, 0] + X[:, 1] * X[:, 2] - np.abs(X[:, 3])
    return X, signal + 1.5 * rng.standard_normal(rows)


def measure(rows: int, held_out: int, trees: int, runs: int) -> dict[str, Any]:
    """Train `runs` times on the same rows, for classes and for numbers, and score the same held-out rows."""
    (X, y), (fresh, truth) = made_up(rows, 1), made_up(held_out, 2)
    figures: dict[str, Any] = {"rows": rows, "held_out": held_out, "trees": trees, "runs": runs}
    for kind, labels, goal in (("classes", y > 0, truth > 0), ("numbers", y, truth)):
        numbers = kind == "numbers"
        margins = secure_margins(X, labels.astype(float), fresh, trees, runs, numbers)
        pairs = list(combinations(margins, 2))
        figures[kind] = {
            "sharewood": [score(goal, m, numbers) for m in margins],
            "xgboost": [score(goal, m, numbers) for m in plain_margins(X, labels.astype(float), fresh, trees, numbers)],
            "correlation": min(float(np.corrcoef(a, b)[0, 1]) for a, b in pairs),
            "largest": max(float(np.abs(a - b).max()) for a, b in pairs),
            "deviation": float(np.std(margins)),
        }
    return figures


def score(goal: np.ndarray, margins: np.ndarray, numbers: bool) -> float:
    """Return the RMSE of numbers or the AUC of classes."""
    return float(root_mean_squared_error(goal, margins) if numbers else roc_auc_score(goal, margins))


def secure_margins(
    X: np.ndarray, labels: np.ndarray, fresh: np.ndarray, trees: int, runs: int, numbers: bool
) -> list[np.ndarray]:
    """Return margins of fresh rows after each of the trainings between two processes and a dealer."""
    half = len(X) // 2

    def job(party: Party) -> list[np.ndarray]:
        rows = slice(0, half) if party.rank == 0 else slice(half, None)
        asked = fresh if party.rank == 0 else fresh[:0]
        kind = SecureXGBRegressor if numbers else SecureXGBClassifier
        models = (kind(n_estimators=trees, max_bin=BINS, edges="joint", **BOOSTING) for _ in range(runs))
        return [m.fit(party, X[rows], labels[rows]).predict_margin(party, asked, "thresholds") for m in models]

    margins: list[np.ndarray] = run_local(job)[0]
    return margins


def plain_margins(X: np.ndarray, labels: np.ndarray, fresh: np.ndarray, trees: int, numbers: bool) -> list[np.ndarray]:
    """Return margins of fresh rows by XGBoost with other numbers of bins."""
    objective = "reg:squarederror" if numbers else "binary:logistic"
    common = {"objective": objective, "tree_method": "hist", "nthread": 1, **BOOSTING}
    boosters = (
        xgboost.train({**common, "max_bin": bins}, xgboost.DMatrix(X, label=labels), trees) for bins in BINS_OF_XGBOOST
    )
    return [booster.predict(xgboost.DMatrix(fresh), output_margin=True) for booster in boosters]


def table(figures: dict[str, Any]) -> str:
    """Return the paragraph and the table for the page."""
    lines = [
        f"The table has {figures['runs']} trainings of the same {figures['rows']:,} generated rows with joint edges, "
        f"{figures['trees']} trees of depth {BOOSTING['max_depth']}, on {figures['held_out']:,} held-out rows, and "
        f"XGBoost with {min(BINS_OF_XGBOOST)} to {max(BINS_OF_XGBOOST)} bins instead of {BINS}:",
        "",
        "| | Sharewood, mean | range | XGBoost, mean | range | least correlation of two runs' margins | largest "
        "difference of a margin, over the margins' deviation |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, name in (("classes", "AUC"), ("numbers", "RMSE")):
        of = figures[kind]
        cells = [name]
        for scores in (of["sharewood"], of["xgboost"]):
            cells += [f"{np.mean(scores):.4f}", f"{min(scores):.4f} to {max(scores):.4f}"]
        cells += [f"{of['correlation']:.3f}", f"{of['largest'] / of['deviation']:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, rows=60, trees=2, runs=2)
    measured = options.out / "figures" / "two_runs.json"
    if not options.page:
        measured.parent.mkdir(parents=True, exist_ok=True)
        figures = measure(options.rows, 2 * options.rows, options.trees, options.runs)
        measured.write_text(json.dumps(figures, indent=1) + "\n")
    write_between(PAGE, NAME, table(json.loads(measured.read_text())), options.out / PAGE.name)


if __name__ == "__main__":
    main()
