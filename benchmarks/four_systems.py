"""Measure the four systems, and XGBoost on pooled and on own data, on the same tables: quality, cost and attacks.

python -m benchmarks.four_systems           measures; writes docs/figures/four_systems.json, figure and page
python -m benchmarks.four_systems --page    writes figure and page from the existing JSON
python -m benchmarks.four_systems --data breast --trees 5 --seeds 0 --out DIR      a smaller study, written to DIR

Sets come with scikit-learn; `--data default_credit --rows 4000` and the other sets of benchmarks/federated_data.py need
the public sets beside the checkout. Sharewood runs as processes with TLS and a dealer, SecureBoost as processes with
TLS; the two federated systems run in one process, with the messages that Flower carries.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from benchmarks.federated_data import load
from benchmarks.four_systems_page import draw, page
from benchmarks.four_systems_runs import Run, Table, by_columns, by_rows
from benchmarks.program import DOCS, parse
from sharewood.warming_up import warm_up

SETS = ("breast", "diabetes", "digits")


def read(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features float32[n, d], and labels: two classes (for digits, odd or even) or numbers."""
    if name not in SETS:
        return load(name)
    loaders = {"breast": load_breast_cancer, "diabetes": load_diabetes, "digits": load_digits}
    X, y = loaders[name](return_X_y=True)
    varies = X.min(axis=0) < X.max(axis=0)
    return X[:, varies].astype(np.float32), (y % 2 if name == "digits" else y).astype(np.float64)


def table(name: str, rows: int, seed: int, boosting: dict[str, Any]) -> Table:
    """Return at most `rows` rows of a set, with a fifth of them held out."""
    X, y = read(name)
    order = np.random.default_rng(seed).permutation(len(y))[:rows]
    held, kept = np.split(order, [len(order) // 5])
    return Table(X[kept], y[kept], X[held], y[held], boosting)


def mean(runs: list[Run]) -> dict[str, Any]:
    """Return the means over seeds of one system's runs."""
    first, *_ = (asdict(run) for run in runs)
    figures = ("quality", "seconds", "bytes", "dealt", "rounds")
    out = {name: None if first[name] is None else float(np.mean([getattr(r, name) for r in runs])) for name in figures}
    return {"system": first["system"], **out} | {
        "found": {name: float(np.mean([run.found[name] for run in runs])) for name in first["found"]}
    }


def measure(names: list[str], rows: int, seeds: list[int], trees: int) -> dict[str, Any]:
    """Run every system on every set."""
    boosting = {"n_estimators": trees, "max_depth": 3, "learning_rate": 0.3, "max_bin": 32, "min_child_weight": 1.0}
    sets = []
    for name in names:
        tables = [table(name, rows, seed, boosting) for seed in seeds]
        sizes = {"rows": len(tables[0].y), "held": len(tables[0].test_y), "features": tables[0].X.shape[1]}
        divisions = {}
        for division, run in (("columns", by_columns), ("rows", by_rows)):
            ran = [run(each) for each in tables]
            divisions[division] = [mean(list(of_system)) for of_system in zip(*ran, strict=True)]
            print(name, division, flush=True)
        sets.append({"name": name, "numbers": tables[0].numbers, **sizes, "divisions": divisions})
    return {"seeds": len(seeds), "boosting": boosting, "sets": sets}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(SETS))
    parser.add_argument("--rows", type=int, default=2000, help="maximum number of rows of a set")
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, data=["breast"], rows=100, trees=2, seeds=[0])
    measured = options.out / "figures" / "four_systems.json"
    if not options.page:
        warm_up()
        study = measure(options.data, options.rows, options.seeds, options.trees)
        measured.parent.mkdir(parents=True, exist_ok=True)
        measured.write_text(json.dumps(study, indent=1) + "\n")
    study = json.loads(measured.read_text())
    draw(study, options.out / "figures" / "four_systems")
    (options.out / "four_systems.md").write_text(page(study))


if __name__ == "__main__":
    main()
