"""Predict rows of one party by a model of LightGBM that the other one shares.

python -m benchmarks.forests [--trees 500] [--leaves 31] [--rows 1000] [--features 20]

The model is trained on generated rows. One process per role, TLS on loopback, with a dealer. MB are those between the
parties in both directions, and those dealt; seconds are those of the run, with its correlated randomness. Writes the
table of docs/secure_tree.md.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd

from benchmarks.program import DOCS, costs, parse, table, write_between
from mpc.party import Party
from protocols.runtime.local import PARTIES, run_session
from secure_tree import SecureXGBClassifier
from secure_tree.exchange.libraries import from_library
from secure_tree.exchange.plain_model import PlainModel, share_model

PAGE, NAME = DOCS / "secure_tree.md", "forests"
_STAGES = ("share",), ("predict_offline", "predict")


def train(options: argparse.Namespace) -> tuple[lightgbm.Booster, pd.DataFrame]:
    """Train a model by LightGBM; return it and further rows."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((options.train_rows + options.rows, options.features), np.float32)
    y = X @ np.linspace(0.2, 1, options.features) + X[:, 0] * X[:, 1] + rng.standard_normal(len(X)) > 0
    rows = pd.DataFrame(X, columns=[f"x{i}" for i in range(options.features)])
    parameters = {"objective": "binary", "num_leaves": options.leaves, "max_depth": 20, "verbose": -1, "num_threads": 2}
    train_on = lightgbm.Dataset(rows[: options.train_rows], y[: options.train_rows])
    return lightgbm.train(parameters, train_on, options.trees), rows[options.train_rows :]


def predict(plain: PlainModel, rows: pd.DataFrame) -> tuple[list[dict[str, float]], np.ndarray]:
    """Share the model of party 0 and predict the rows of party 1; return the costs of both, and the margins."""

    def job(party: Party) -> Any:
        half = share_model(party, None if party.rank else plain)
        model = SecureXGBClassifier(**half.config.model_dump())
        model.model = half
        margins = model.predict_margin(party, rows if party.rank else rows[:0], "thresholds")
        return {name: asdict(party.stages[name]) for names in _STAGES for name in names}, margins

    outcome = run_session(job)
    (stages, _), (others, margins) = (outcome[name]["result"] for name in PARTIES)
    return [costs(names, stages, others) for names in _STAGES], margins


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--train-rows", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, trees=2, leaves=15, rows=5, features=3, train_rows=500)
    booster, rows = train(options)
    plain = from_library(booster)
    (shared, predicted), margins = predict(plain, rows)
    error = np.abs(margins - booster.predict(rows, raw_score=True)).max()
    shown = table("work", {"sharing the model, once": shared, f"predicting {options.rows:,} rows": predicted})
    shape = f"{options.trees} trees of up to {options.leaves} leaves and 20 levels, {options.features} features"
    text = f"{shown}\n\n{shape}; largest error of a margin: {error:.1g}."
    print(text)
    write_between(PAGE, NAME, text, options.out / PAGE.name)


if __name__ == "__main__":
    main()
