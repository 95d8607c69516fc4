"""How many answers make a copy: agreement of a model trained on answers with the model that gave them.

    python -m benchmarks.extraction [--queries 100 1000 10000 100000]

The model is XGBoost's, since Sharewood's predictions equal those of the model that it exports. A client of a service
knows the names and the ranges of the features, not their distribution: it asks for rows drawn uniformly from the
ranges, and trains XGBoost on the answers. Three kinds of answers: probabilities in full, probabilities rounded to one
decimal, and the class. The copy is compared with the model on real rows that neither was trained on. Writes the table
of docs/serve.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import xgboost
from sklearn.datasets import load_breast_cancer

from benchmarks.program import DOCS, parse, write_between

QUERIES = (100, 1_000, 10_000, 100_000)
SEEDS = 3
SOFT = {"objective": "reg:logistic", "eta": 0.1, "max_depth": 6}
ANSWERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "probability": lambda p: p,
    "rounded to 0.1": lambda p: np.round(p, 1),
    "class only": lambda p: (p > 0.5).astype(float),
}


def trained(X: np.ndarray, y: np.ndarray, parameters: dict[str, object], rounds: int) -> xgboost.Booster:
    """Train XGBoost with one thread, so that the result does not depend on the machine's cores."""
    fixed = {"tree_method": "hist", "nthread": 1, "seed": 0, "base_score": 0.5}
    return xgboost.train({**fixed, **parameters}, xgboost.DMatrix(X, y), rounds)


def copies(seed: int, queries: tuple[int, ...], trees: int) -> Iterator[tuple[str, int, float, float]]:
    """Yield for each kind and number of answers: the share of equal classes, and the mean difference of probability."""
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    own, real = X[order[: len(X) // 2]], xgboost.DMatrix(X[order[len(X) // 2 :]])
    served = {"objective": "binary:logistic", "eta": 0.3, "max_depth": 4}
    model = trained(own, y[order[: len(X) // 2]], served, trees)
    truth = model.predict(real)
    asked = rng.uniform(X.min(axis=0), X.max(axis=0), (max(queries), X.shape[1]))
    answers = model.predict(xgboost.DMatrix(asked))
    for kind, shown in ANSWERS.items():
        for count in queries:
            copy = trained(asked[:count], shown(answers[:count]), SOFT, 5 * trees).predict(real)
            yield kind, count, float(np.mean((copy > 0.5) == (truth > 0.5))), float(np.abs(copy - truth).mean())


def table(queries: tuple[int, ...], seeds: int, trees: int) -> str:
    """Return the means over seeds as a table in Markdown."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for seed in range(seeds):
        for kind, count, equal, apart in copies(seed, queries, trees):
            found.setdefault((kind, count), []).append((equal, apart))
    lines = [
        "| answers | " + " | ".join(f"{count:,} queries" for count in queries) + " |",
        "|---|" + "---|" * len(queries),
    ]
    for kind in ANSWERS:
        cells = [np.mean(found[kind, count], axis=0) for count in queries]
        lines.append(f"| {kind} | " + " | ".join(f"{equal:.1%}, {apart:.3f}" for equal, apart in cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, nargs="+", default=list(QUERIES))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--out", type=Path, default=DOCS, help="folder for serve.md; by default the documentation")
    options = parse(parser, arguments, queries=[50, 100], seeds=1, trees=3)
    text = table(tuple(options.queries), options.seeds, options.trees)
    print(text)
    write_between(DOCS / "serve.md", "extraction", text, options.out / "serve.md")


if __name__ == "__main__":
    main()
