"""Measure a monitoring of generated rows, by columns: drift, AUC, calibration and parity, with a dealer and without.

python -m benchmarks.monitor [--rows 100000] [--features 20] [--trees 20] [--depth 4] [--groups 4] [--out DIR]

Party 0 has the labels, party 1 the groups; each has so many features. A model is trained on a tenth of the rows, and
all rows are scored before the clock starts. One process per role, TLS on loopback. MB are those between the parties in
both directions. Seconds are those of the monitoring with its correlated randomness. Errors are those of the revealed
numbers, beside scikit-learn and numpy in the clear. Writes the table of docs/monitoring.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.program import DOCS, parse, table, write_between
from mpc.meter import Stage
from mpc.party import Party
from protocols.runtime.local import PARTIES, run_session
from protocols.runtime.settings import FROM_DEALER, Offline
from secure_tree import SecureXGBClassifier
from secure_tree.monitor.config import Statistic
from secure_tree.monitor.monitor import monitor
from secure_tree.monitor.profile import make_profile
from secure_tree.monitor.scores import score

PAGE, NAME = DOCS / "monitoring.md", "monitor"
ASKED: tuple[Statistic, ...] = ("scores", "features", "auc", "ece", "slope", "parity")


def made_up(rows: int, features: int, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw features of both parties, labels, and groups that have to do with them."""
    rng = np.random.default_rng(rows)
    X = rng.standard_normal((rows, 2 * features), np.float32)
    score = X @ np.linspace(-0.6, 0.6, 2 * features) + rng.standard_normal(rows)
    group = np.clip(np.floor(score / 4 + groups * rng.random(rows)), 0, groups - 1).astype(int)
    return X, (score > 0).astype(float), group


def spent(stage: Stage) -> np.ndarray:
    """Return rounds, bytes in both directions, and bytes dealt."""
    return np.array([stage.rounds, stage.bytes_sent + stage.bytes_received, stage.bytes_dealt])


def measure(rows: int, features: int, trees: int, depth: int, groups: int, offline: Offline) -> dict[str, float]:
    X, y, group = made_up(rows, features, groups)
    first = max(60, rows // 10)
    parts = X[:, :features], X[:, features:]
    floors = {"bits": 1.0, "rows": 2, "class_rows": 1, "group_rows": 1}

    def job(party: Party) -> dict[str, Any]:
        own, labels = parts[party.rank], y if party.rank == 0 else None
        model = SecureXGBClassifier(partition="vertical", n_estimators=trees, max_depth=depth, max_bin=16)
        model.fit(party, own[:first], None if labels is None else labels[:first])
        profile = make_profile(party, model, own[:first], None if labels is None else labels[:first])
        margin = model.predict_margin(party, own, to=0)
        scored = score(party, model, own)
        known = {"group": group if party.rank else None, "profile": profile, "statistics": ASKED, "floors": floors}
        made, start = spent(party.stages["monitor"]), perf_counter()
        found = monitor(party, model, scored, labels, **known)  # type: ignore[arg-type]  # parameters of several types
        seconds = perf_counter() - start
        rounds, between, dealt = spent(party.stages["monitor"]) + spent(party.stages["monitor_offline"]) - made
        return {
            "rounds": rounds,
            "MB between the parties": between / 1e6,
            "MB dealt": dealt / 1e6,
            "s": seconds,
            "auc": found["auc"],
            "parity": found["parity"],
            "margin": margin,
        }

    outcome = run_session(job, offline=offline)
    results = [outcome[name]["result"] for name in PARTIES]
    figures: dict[str, float] = results[0]
    figures["MB dealt"] = sum(result["MB dealt"] for result in results)
    margin = np.asarray(figures.pop("margin"))
    rates = [(margin >= 0)[group == g].mean() for g in range(groups)]
    figures["error of AUC, 1e-3"] = 1e3 * abs(figures.pop("auc") - roc_auc_score(y, margin))
    figures["error of parity, 1e-3"] = 1e3 * abs(figures.pop("parity") - (max(rates) - min(rates)))
    figures["largest party's peak, MB"] = max(outcome[name]["memory_peak_bytes"] for name in PARTIES) / 1e6
    return figures


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, rows=400, features=2, trees=2, depth=2)
    name = f"{options.rows:,} rows, {options.groups} groups: {', '.join(ASKED)}"
    sizes = options.rows, options.features, options.trees, options.depth, options.groups
    text = table(
        "by columns",
        {
            f"{name}: dealer": measure(*sizes, FROM_DEALER),
            f"{name}: no third party": measure(*sizes, Offline("pairwise")),
        },
    )
    print(text)
    write_between(PAGE, NAME, text, options.out / PAGE.name)


if __name__ == "__main__":
    main()
