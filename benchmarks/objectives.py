"""Compare every objective with XGBoost's own, on three tables.

python -m benchmarks.objectives [--trees 100] [--rows 5000] [--splits 3] [--objectives reg:gamma ...] [--out DIR]

Two tables are made up: effects of a few features, and effects and products of features with long tails. The third is
a public set of scikit-learn. A party has two fifths of the rows. Sharewood trains with joint edges, XGBoost with `hist`
and as many bins; XGBoost evaluates the margins of both on fresh rows. Figures are means over several draws, or splits
of the set. Then the cost of a round of trees of several classes. Writes the tables of docs/secure_tree.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import xgboost
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import train_test_split

from benchmarks.program import DOCS, costs, parse, write_between
from benchmarks.program import table as costs_table
from mpc.party import Party
from protocols.runtime import run_local
from protocols.runtime.local import PARTIES, run_session
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from sharewood.warming_up import warm_up

PAGE, NAME = DOCS / "secure_tree.md", "objectives"
BOOSTING: dict[str, Any] = {"max_depth": 3, "learning_rate": 0.1, "max_bin": 64, "min_child_weight": 1.0}
CLASSES = 4
# Rows to train on and their labels, then fresh ones.
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def _classes(rng: np.random.Generator, signal: np.ndarray) -> np.ndarray:
    scores = np.stack([np.sin((k + 1) * signal) + k * signal / 3 for k in range(CLASSES)], axis=1)
    return (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def _claims(rng: np.random.Generator, signal: np.ndarray) -> np.ndarray:
    """Sums of claims: mostly 0, and positive otherwise."""
    counts = rng.poisson(np.exp(signal / 2 - 1))
    return np.array([rng.gamma(2.0, 0.5, count).sum() for count in counts]) * np.exp(signal / 4)


# By objective: its metric in XGBoost, labels of a signal, labels of the set of numbers, and further parameters.
OBJECTIVES: dict[str, tuple[str, _Draw, Callable[[np.ndarray], np.ndarray], dict[str, Any]]] = {
    "binary:logistic": ("auc", lambda r, s: (s + r.logistic(size=s.size) > 0) * 1, lambda y: y, {}),
    "multi:softprob": ("mlogloss", _classes, lambda y: y, {}),
    "reg:squarederror": ("rmse", lambda r, s: s + r.normal(size=s.size), lambda y: y / 50, {}),
    "reg:logistic": (
        "logloss",
        lambda r, s: 1 / (1 + np.exp(-s - r.normal(size=s.size))),
        lambda y: (y - 20) / 340,
        {},
    ),
    "count:poisson": ("poisson-nloglik", lambda r, s: r.poisson(np.exp(s / 2)), lambda y: np.round(y / 25), {}),
    "reg:gamma": ("gamma-deviance", lambda r, s: r.gamma(2.0, np.exp(s / 2)) + 1e-3, lambda y: y / 50, {}),
    "reg:tweedie": ("tweedie-nloglik@1.5", _claims, lambda y: y / 50, {"tweedie_variance_power": 1.5}),
    "reg:pseudohubererror": (
        "mphe",
        lambda r, s: s + r.standard_t(2, s.size),
        lambda y: y / 50,
        {"huber_slope": 1.0, "base_score": 0.5},
    ),
}


def made_up(draw: _Draw, rows: int, skewed: bool, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * rows, 10)).astype(np.float32)
    signal = X[:, 0] - 0.7 * np.abs(X[:, 1]) + 0.5 * X[:, 2]
    if skewed:
        signal = 0.8 * X[:, 0] * X[:, 1] + X[:, 2] - 0.6 * X[:, 3] ** 2 + 0.6
        X = np.sign(X) * np.exp(2 * np.abs(X))
    y = draw(rng, np.clip(signal, -4, 4)).astype(float)
    return X[:rows], y[:rows], X[rows:], y[rows:]


def public(objective: str, labels: Callable[[np.ndarray], np.ndarray], seed: int) -> Split:
    load = {"binary:logistic": load_breast_cancer, "multi:softprob": load_digits}.get(objective, load_diabetes)
    X, y = load(return_X_y=True)
    if objective == "multi:softprob":
        X, y = X[y < CLASSES], y[y < CLASSES]
    train, fresh, of_train, of_fresh = train_test_split(
        X.astype(np.float32), labels(y), test_size=0.4, random_state=seed
    )
    return train, np.asarray(of_train, float), fresh, np.asarray(of_fresh, float)


def tables(objective: str, rows: int, splits: int) -> Iterator[tuple[str, list[Split]]]:
    """Yield each table's name and its draws or splits."""
    _, draw, labels, _ = OBJECTIVES[objective]
    yield "made up", [made_up(draw, rows, False, seed) for seed in range(splits)]
    yield "made up, long tails", [made_up(draw, rows, True, seed) for seed in range(splits)]
    name = {"binary:logistic": "breast cancer", "multi:softprob": "digits"}.get(objective, "diabetes")
    yield name, [public(objective, labels, seed) for seed in range(splits)]


def secure(objective: str, split: Split, trees: int, more: dict[str, Any]) -> np.ndarray:
    """Return the margins of fresh rows."""
    X, y, fresh, _ = split
    cut = 2 * len(X) // 5
    kind = SecureXGBClassifier if objective.startswith(("binary", "multi")) else SecureXGBRegressor

    def job(party: Party) -> np.ndarray:
        rows = slice(0, cut) if party.rank == 0 else slice(cut, None)
        model = kind(n_estimators=trees, objective=objective, edges="joint", **BOOSTING, **more)
        asked = fresh if party.rank == 0 else fresh[:0]
        return model.fit(party, X[rows], y[rows]).predict_margin(party, asked)

    return run_local(job)[0]


def evaluated(margins: np.ndarray, split: Split, options: dict[str, Any], metric: str) -> float:
    """Return XGBoost's metric of margins."""
    rows = xgboost.DMatrix(split[2], split[3], base_margin=margins.astype(np.float32))
    unmoved = xgboost.train({**options, "eval_metric": metric, "eta": 1e-12}, xgboost.DMatrix(split[0], split[1]), 1)
    return float(unmoved.eval(rows).rsplit(":", 1)[1])


def compared(objective: str, split: Split, trees: int) -> tuple[float, float]:
    """Return the metric of Sharewood's model and of XGBoost's."""
    metric, _, _, more = OBJECTIVES[objective]
    if objective == "multi:softprob":
        more = {**more, "num_class": int(max(split[1].max(), split[3].max())) + 1}
    options = {**BOOSTING, **more, "objective": objective, "tree_method": "hist"}
    model = xgboost.train(options, xgboost.DMatrix(split[0], split[1]), trees)
    theirs = model.predict(xgboost.DMatrix(split[2]), output_margin=True)
    margins = secure(objective, split, trees, more), theirs
    ours, theirs_ = (evaluated(of, split, options, metric) for of in margins)
    return ours, theirs_


def table(objectives: list[str], rows: int, trees: int, splits: int) -> str:
    """Measure, and return the table."""
    lines = [
        "| objective | table | metric | XGBoost | Sharewood | difference |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for objective in objectives:
        metric = OBJECTIVES[objective][0]
        for name, several in tables(objective, rows, splits):
            ours, theirs = np.mean([compared(objective, split, trees) for split in several], axis=0)
            apart = f"{ours - theirs:+.4f}" if metric == "auc" else f"{(ours - theirs) / abs(theirs):+.2%}"
            lines.append(f"| `{objective}` | {name} | `{metric}` | {theirs:.4f} | {ours:.4f} | {apart} |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


def of_classes(rows: int, features: int, classes: int, rounds: int) -> str:
    """Return the table of what a round of trees of depth 4 costs by objective, with its part of the set-up."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    y = (X[:, :classes] + rng.gumbel(size=X[:, :classes].shape)).argmax(axis=1)

    def cost(objective: str) -> dict[str, float]:
        def job(party: Party) -> dict[str, Any]:
            own = slice(party.rank, None, 2)
            shape: dict[str, Any] = {"n_estimators": rounds, "max_depth": 4, "max_bin": 32, "num_class": classes}
            start = perf_counter()
            SecureXGBClassifier(objective=objective, **shape).fit(party, X[own], y[own].astype(float))
            elapsed = perf_counter() - start
            return {"elapsed": elapsed, "stages": {name: asdict(stage) for name, stage in party.stages.items()}}

        outcome = run_session(job)
        both = [outcome[name]["result"] for name in PARTIES]
        of_stages = costs(("setup", "offline", "online"), *(one["stages"] for one in both))
        figures = {**of_stages, "s": max(one["elapsed"] for one in both)}
        return {name: value / rounds for name, value in figures.items()}

    warm_up()

    runs = [{objective: cost(objective) for objective in ("multi:ova", "multi:softprob")} for _ in range(3)]
    return costs_table(
        f"{rows:,} rows, {features} features, {classes} classes",
        {
            f"`{objective}`": {name: float(np.median([run[objective][name] for run in runs])) for name in of}
            for objective, of in runs[0].items()
        },
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--objectives", nargs="+", default=list(OBJECTIVES), choices=list(OBJECTIVES))
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, trees=1, rows=60, splits=1, objectives=["reg:gamma"])
    text = table(options.objectives, options.rows, options.trees, options.splits)
    classes = of_classes(40, 4, 3, 1) if options.smallest else of_classes(10_000, 20, 10, 3)
    print(classes)
    write_between(PAGE, NAME, text, options.out / PAGE.name)
    write_between(options.out / PAGE.name, "classes", classes)


if __name__ == "__main__":
    main()
