"""Study rows that are divided unevenly between the parties: the quality of both kinds of edges, beside XGBoost.

python -m benchmarks.heterogeneity           measures; writes docs/figures/heterogeneity.json, figure and page
python -m benchmarks.heterogeneity --many    measures only numbers of local bins for many rows, and writes all again
python -m benchmarks.heterogeneity --page    writes figure and page from the existing JSON
python -m benchmarks.heterogeneity --quick --out DIR      a few small trainings, written to DIR

Trainings are those of the twin (secure_tree/twin), which finds exactly the same splits as the secure ones from the
same gradients; a few also run between processes. Held-out rows are predicted by thresholds, like new rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xgboost
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from sklearn.model_selection import KFold

from benchmarks.heterogeneity_page import draw, page
from benchmarks.program import DOCS, between, parse
from mpc.party import Party
from protocols.runtime import run_local
from secure_tree import SecureXGBClassifier
from secure_tree.public.config import TrainConfig
from secure_tree.twin.boost import train

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data" / "hetero"
MODES = ("joint", "private")
SEEDS, FOLDS = 5, 5
QUICK_ROWS = 100
# Numbers of local bins to compare, and the rows to train on.
LOCAL_BINS, MANY_ROWS = (64, 128), 100_000
BOOSTING = {"n_estimators": 20, "max_depth": 4, "learning_rate": 0.3, "max_bin": 32, "min_child_weight": 1.0}
Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Source:
    """A table; `splits(seed)` returns training and held-out rows, and parties may differ in the feature `column`."""

    name: str
    splits: Callable[[int], Iterator[tuple[Rows, Rows]]]
    column: int = 0
    numbers: bool = False

    @property
    def objective(self) -> str:
        return "reg:squarederror" if self.numbers else "binary:logistic"


def made_up(rows: int, numbers: bool, folds: int = FOLDS) -> Source:
    """Make eight normal features, five of them informative; every seed draws `folds` pairs of tables."""

    def draw_rows(rng: np.random.Generator, n: int) -> Rows:
        X = rng.standard_normal((n, 8), np.float32)
        signal = X[:, 0] + 0.8 * X[:, 1] * X[:, 2] + 0.7 * np.sin(2 * X[:, 3]) - 0.5 * np.abs(X[:, 4])
        y = signal + rng.standard_normal(n)
        return X, y if numbers else (y > 0).astype(float)

    def splits(seed: int) -> Iterator[tuple[Rows, Rows]]:
        rng = np.random.default_rng(seed)
        for _ in range(folds):
            yield draw_rows(rng, rows), draw_rows(rng, 3 * rows)

    return Source(f"made up, {'numbers' if numbers else 'classes'}", splits, numbers=numbers)


def from_files(name: str, column: int, trained_on: int | None = None, numbers: bool = False) -> Source:
    """A public set with a number of rows to train on and the rest held out, or with folds."""
    guest, host = (pd.read_csv(SHARED / f"{name}_hetero_{role}.csv").set_index("id") for role in ("guest", "host"))
    table = guest.join(host, how="inner", rsuffix=" of the host")
    X, y = table.drop(columns="y").to_numpy(np.float32), table["y"].to_numpy(float)

    def splits(seed: int) -> Iterator[tuple[Rows, Rows]]:
        order = np.random.default_rng(seed).permutation(len(y))
        if trained_on:
            parts = [(order[:trained_on], order[trained_on:])]
        else:
            parts = [(order[a], order[b]) for a, b in KFold(FOLDS).split(order)]
        for a, b in parts:
            yield (X[a], y[a]), (X[b], y[b])

    return Source(name, splits, column, numbers)


def _alike(X: np.ndarray, y: np.ndarray, c: int, rng: np.random.Generator) -> list[np.ndarray]:
    return np.array_split(rng.permutation(len(y)), 2)


def _one_class_each(X: np.ndarray, y: np.ndarray, c: int, rng: np.random.Generator) -> list[np.ndarray]:
    first = y <= np.median(y) if np.unique(y).size > 2 else y == 0
    return [np.flatnonzero(first), np.flatnonzero(~first)]


def _two_and_fifteen(X: np.ndarray, y: np.ndarray, c: int, rng: np.random.Generator) -> list[np.ndarray]:
    negatives, positives = (rng.permutation(np.flatnonzero(y == k)) for k in (0, 1))
    halves = np.array_split(negatives, 2)
    few, many = (max(1, round(len(h) * share / (1 - share))) for h, share in zip(halves, (0.02, 0.15), strict=True))
    return [np.concatenate([halves[0], positives[:few]]), np.concatenate([halves[1], positives[few : few + many]])]


def _shifted(X: np.ndarray, y: np.ndarray, c: int, rng: np.random.Generator) -> list[np.ndarray]:
    place = X[:, c].argsort(kind="stable").argsort() / len(y)
    first = rng.random(len(y)) < 1 / (1 + np.exp(6 - 12 * place))
    return [np.flatnonzero(first), np.flatnonzero(~first)]


def _one_to_ninety_nine(X: np.ndarray, y: np.ndarray, c: int, rng: np.random.Generator) -> list[np.ndarray]:
    return np.split(rng.permutation(len(y)), [max(1, len(y) // 100)])


def _duplicated(X: np.ndarray, y: np.ndarray, c: int, rng: np.random.Generator) -> list[np.ndarray]:
    first, second = _alike(X, y, c, rng)
    return [np.tile(first, 5), second]


def _disjoint(X: np.ndarray, y: np.ndarray, c: int, rng: np.random.Generator) -> list[np.ndarray]:
    first = X[:, c] <= np.median(X[:, c])
    return [np.flatnonzero(first), np.flatnonzero(~first)]


# The rows of each party, and whether numbers can be divided in this way.
DIVISIONS: dict[str, tuple[Callable[..., list[np.ndarray]], bool]] = {
    "alike": (_alike, True),
    "one class each": (_one_class_each, True),
    "2% and 15% positives": (_two_and_fifteen, False),
    "shifted covariates": (_shifted, True),
    "1 : 99 rows": (_one_to_ninety_nine, True),
    "one party's rows five times": (_duplicated, True),
    "disjoint ranges of a feature": (_disjoint, True),
}


def measure(
    source: Source,
    division: str,
    seed: int,
    boosting: dict[str, Any] = BOOSTING,
    modes: Sequence[str] = MODES,
) -> list[dict[str, float]]:
    """Return, for each split, the AUC or RMSE of held-out rows with both kinds of edges and with XGBoost."""
    out = []
    score = root_mean_squared_error if source.numbers else roc_auc_score
    for fold, ((X, y), (Z, truth)) in enumerate(source.splits(seed)):
        parts = DIVISIONS[division][0](X, y, source.column, np.random.default_rng([seed, fold]))
        tables, labels = [X[rows] for rows in parts], [y[rows] for rows in parts]
        pooled = xgboost.DMatrix(np.concatenate(tables), label=np.concatenate(labels))
        parameters = {k: v for k, v in boosting.items() if k not in ("n_estimators", "local_bins")}
        booster = xgboost.train(
            {**parameters, "objective": source.objective, "tree_method": "hist", "nthread": 1},
            pooled,
            boosting["n_estimators"],
        )
        scores = {"xgboost": score(truth, booster.predict(xgboost.DMatrix(Z), output_margin=True))}
        for mode in modes:
            config = TrainConfig.of(**boosting, objective=source.objective, min_split_loss=0.0, edges=mode)
            twin = train((tables[0], tables[1]), tuple(labels), config, np.random.default_rng(seed))
            scores[mode] = score(truth, twin.predict_margin(Z))
        out.append({name: float(value) for name, value in scores.items()})
    return out


def many(rows: int = MANY_ROWS, seeds: int = SEEDS) -> dict[str, Any]:
    """Return, by division and number of local bins, the AUC of each seed less that of XGBoost, on `rows` rows."""
    of_divisions: dict[str, dict[str, list[float]]] = {}
    for division in DIVISIONS:
        found = of_divisions.setdefault(division, {})
        for seed in range(seeds):
            source = made_up(rows, numbers=False, folds=1)
            for count in LOCAL_BINS:
                (scores,) = measure(source, division, seed, BOOSTING | {"local_bins": count}, ("private",))
                found.setdefault(str(count), []).append(scores["private"] - scores["xgboost"])
        print("many rows", division, flush=True)
    return {"rows": rows, "seeds": seeds, "divisions": of_divisions}


def between_processes(rows: int, division: str, mode: str) -> dict[str, Any]:
    """Return the AUC of held-out rows after a secure training between two processes, and of its twin."""
    source = made_up(rows, numbers=False)
    (X, y), (Z, truth) = next(source.splits(0))
    parts = DIVISIONS[division][0](X, y, 0, np.random.default_rng([0, 0]))
    config = TrainConfig.of(**BOOSTING, min_split_loss=0.0, edges=mode)

    def job(party: Party) -> np.ndarray:
        model = SecureXGBClassifier(**config.model_dump()).fit(party, X[parts[party.rank]], y[parts[party.rank]])
        return model.predict_margin(party, Z[:: 1 if party.rank == 0 else len(Z)], "thresholds")

    secure = run_local(job)[0]
    twin, *_ = measure(source, division, 0)
    return {"division": division, "mode": mode, "secure": float(roc_auc_score(truth, secure)), **twin}


def run(quick: bool) -> dict[str, Any]:
    """Run every division of every set, and the trainings between processes."""
    rows, folds, seeds = (QUICK_ROWS, 1, 2) if quick else (4000, FOLDS, SEEDS)
    boosting = BOOSTING | ({"n_estimators": 2} if quick else {})
    sources = [made_up(rows, numbers, folds) for numbers in (False, True)]
    if not quick:
        sources += [from_files("breast", 0), from_files("default_credit", 0, 6000)]
        sources += [from_files("student", 0, numbers=True)]
    scores: dict[str, dict[str, Any]] = {}
    for source in sources:
        of_source = scores.setdefault(source.name, {"numbers": source.numbers, "divisions": {}})
        for division, (_, numbers) in DIVISIONS.items():
            if source.numbers and not numbers:
                continue
            of_source["divisions"][division] = [measure(source, division, s, boosting) for s in range(seeds)]
            print(source.name, division, flush=True)
    checked = [
        between_processes(rows, division, mode)
        for division in ("one class each", "2% and 15% positives")[: 1 if quick else None]
        for mode in (MODES[:1] if quick else MODES)
    ]
    of_many = many(*(QUICK_ROWS, seeds) if quick else ())
    return {
        "seeds": SEEDS, "folds": FOLDS, "boosting": boosting, "scores": scores, "checked": checked, "many": of_many
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, quick=True)
    measured = options.out / "figures" / "heterogeneity.json"
    if options.many:
        measured.write_text(json.dumps(json.loads(measured.read_text()) | {"many": many()}, indent=1) + "\n")
    elif not options.page:
        measured.parent.mkdir(parents=True, exist_ok=True)
        measured.write_text(json.dumps(run(options.quick), indent=1) + "\n")
    study = json.loads(measured.read_text())
    draw(study, options.out / "figures" / "heterogeneity")
    _, cost, _ = between(DOCS / "heterogeneity.md", "cost")
    (options.out / "heterogeneity.md").write_text(page(study, cost))


if __name__ == "__main__":
    main()
