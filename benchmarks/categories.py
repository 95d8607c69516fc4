"""Compare splits on sets of categories with those of XGBoost, and with splits on one category.

python -m benchmarks.categories [--rows 2000 20000] [--seeds 6] [--out DIR]

A column of categories, each with an effect of its own, and a number. AUC on as many fresh rows, of Sharewood (joint
edges) and of XGBoost with its defaults and with one category per split. Writes the table of docs/secure_tree.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xgboost
from sklearn.metrics import roc_auc_score

from benchmarks.program import DOCS, parse, write_between
from mpc.party import Party
from protocols.runtime import run_local
from secure_tree import SecureXGBClassifier

PAGE, NAME = DOCS / "secure_tree.md", "categories"
BOOSTING: dict[str, Any] = {"max_depth": 3, "learning_rate": 0.3, "max_bin": 32, "min_child_weight": 1.0}
Rows = tuple[pd.DataFrame, np.ndarray]


def made_up(rows: int, categories: int, seed: int) -> tuple[Rows, Rows]:
    """Draw rows to train on and fresh rows."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(size=categories)

    def draw() -> Rows:
        codes, x = rng.integers(0, categories, rows), rng.normal(size=rows)
        names = pd.Categorical.from_codes(codes, [f"c{k:03}" for k in range(categories)])
        y = effects[codes] + 0.5 * x + rng.logistic(size=rows) > 0
        return pd.DataFrame({"category": names, "x": x}), y.astype(int)

    return draw(), draw()


def secure(train: Rows, fresh: Rows, counts: list[int]) -> list[float]:
    """Return the AUC after each number of trees."""
    (X, y), half = train, len(train[1]) // 2

    def job(party: Party) -> list[np.ndarray]:
        rows = slice(0, half) if party.rank == 0 else slice(half, None)
        asked = fresh[0] if party.rank == 0 else fresh[0][:0]
        models = (SecureXGBClassifier(n_estimators=trees, edges="joint", edge_bits=16, **BOOSTING) for trees in counts)
        return [m.fit(party, X[rows], y[rows]).predict_margin(party, asked) for m in models]

    return [float(roc_auc_score(fresh[1], margins)) for margins in run_local(job)[0]]


def plain(train: Rows, fresh: Rows, trees: int, **more: Any) -> float:
    """Return XGBoost's AUC."""
    model = xgboost.XGBClassifier(n_estimators=trees, tree_method="hist", enable_categorical=True, **BOOSTING, **more)
    margins = model.fit(*train).predict(fresh[0], output_margin=True)
    return float(roc_auc_score(fresh[1], margins))


def table(rows: list[int], seeds: int, categories: list[int], counts: list[int]) -> str:
    """Measure, and return the table."""
    lines = [
        "| rows | categories | trees | XGBoost, one category per split | XGBoost | Sharewood | difference |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for n in rows:
        for k in categories:
            data = [made_up(n, k, seed) for seed in range(seeds)]
            ours = np.mean([secure(train, fresh, counts) for train, fresh in data], axis=0)
            for trees, auc in zip(counts, ours, strict=True):
                sets = np.mean([plain(*each, trees) for each in data])
                single = np.mean([plain(*each, trees, max_cat_to_onehot=1 + k) for each in data])
                lines.append(f"| {n:,} | {k} | {trees} | {single:.3f} | {sets:.3f} | {auc:.3f} | {auc - sets:+.4f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--categories", type=int, nargs="+", default=[12, 50, 200])
    parser.add_argument("--trees", type=int, nargs="+", default=[20])
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, rows=[60], seeds=1, categories=[6], trees=[1])
    text = table(options.rows, options.seeds, options.categories, options.trees)
    print(text)
    write_between(PAGE, NAME, text, options.out / PAGE.name)


if __name__ == "__main__":
    main()
