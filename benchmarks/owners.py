"""Measure trainings on rows of further owners who are no party, beside XGBoost on the pooled rows.

python -m benchmarks.owners [--owners 3 13] [--rows 10000] [--trees 4] [--out DIR]

Each owner has `rows` rows of 20 generated features; two of them are parties. One process per role, TLS on loopback, 32
bins, depth 4, joint edges of 16 bits, a dealer. MB between the parties are those of one direction. Seconds per tree are
those of the training without its set-up, offline and online together. Writes the table of docs/owners.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import xgboost
from sklearn.metrics import roc_auc_score

from benchmarks.program import DOCS, parse, write_between
from mpc.party import Party
from protocols.runtime.local import PARTIES, run_session
from secure_tree import SecureXGBClassifier

PAGE, NAME = DOCS / "owners.md", "owners"
FEATURES, BINS, FRESH = 20, 32, 2000
BOOSTING: dict[str, Any] = {"max_depth": 4, "max_bin": BINS, "learning_rate": 0.3, "min_child_weight": 1.0}
Rows = tuple[np.ndarray, np.ndarray]


def made_up(owner: int, rows: int) -> Rows:
    """Draw an owner's rows, whose features are shifted by a little."""
    rng = np.random.default_rng(owner)
    X = rng.standard_normal((rows, FEATURES), np.float32) + np.float32(0.05 * (owner % 13))
    return X, (X[:, 0] - X[:, -1] + X[:, 1] * X[:, 2] + rng.standard_normal(rows) > 0).astype(int)


def measure(owners: int, rows: int, trees: int) -> dict[str, Any]:
    """Train on the rows of this number of owners."""
    tables = [made_up(owner, rows) for owner in range(owners)]
    fresh, truth = made_up(100, FRESH)

    def job(party: Party) -> dict[str, Any]:
        model = SecureXGBClassifier(n_estimators=trees, edges="joint", edge_bits=16, **BOOSTING)
        start = perf_counter()
        model.fit(party, *tables[party.rank], contributed=party.contributed)
        seconds = perf_counter() - start - party.stages["setup"].seconds
        setup, online = party.stages["setup"], party.stages["online"]
        return {
            "once, MB each way": setup.bytes_sent / 1e6,
            "once, rounds": setup.rounds,
            "once, s": setup.seconds,
            "per tree, MB each way": online.bytes_sent / 1e6 / trees,
            "per tree, rounds": online.rounds / trees,
            "per tree, s": seconds / trees,
            "margins": model.predict_margin(party, fresh if party.rank == 0 else fresh[:0]),
        }

    outcome = run_session(job, owners={f"owner_{k}": tables[k] for k in range(2, owners)})
    figures: dict[str, Any] = outcome[PARTIES[0]]["result"]
    booster = xgboost.train(
        {"objective": "binary:logistic", "tree_method": "hist", "nthread": 2, **BOOSTING},
        xgboost.DMatrix(np.concatenate([X for X, _ in tables]), label=np.concatenate([y for _, y in tables])),
        trees,
    )
    figures["AUC"] = roc_auc_score(truth, figures.pop("margins"))
    figures["AUC of XGBoost"] = roc_auc_score(truth, booster.predict(xgboost.DMatrix(fresh)))
    figures["largest party's peak, MB"] = max(outcome[name]["memory_peak_bytes"] for name in PARTIES) / 1e6
    uploaded = [process["result"]["bytes"] for name, process in outcome.items() if name.startswith("owner_")]
    figures["an owner's upload, MB"] = max(uploaded, default=0) / 1e6
    return figures


def table(figures: dict[int, dict[str, Any]], rows: int) -> str:
    """Return the table, with a column for each number of owners."""
    lines = [f"| owners of {rows:,} rows | {' | '.join(map(str, figures))} |", f"| --- |{' ---: |' * len(figures)}"]
    for name in next(iter(figures.values())):
        digits = 4 if name.startswith("AUC") else 2
        cells = [f"{of[name]:,.0f}" if of[name] >= 100 else f"{of[name]:.{digits}f}" for of in figures.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--owners", type=int, nargs="+", default=[2, 3, 13])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--trees", type=int, default=4)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, owners=[3], rows=40, trees=1)
    text = table({n: measure(n, options.rows, options.trees) for n in options.owners}, options.rows)
    print(text)
    write_between(PAGE, NAME, text, options.out / PAGE.name)


if __name__ == "__main__":
    main()
