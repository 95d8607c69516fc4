"""Measure reasons of one model: its table, contributions beside XGBoost's, names without a third party, the service.

python -m benchmarks.reasons [--rows 100] [--trees 60] [--depth 4] [--features 100] [--top 4] [--repeats 100]

The model is trained on generated rows of both parties. One process per role, TLS on loopback. MB are those between the
parties in both directions; seconds are those of the run, with its correlated randomness. Rows are routed by thresholds,
by bins without a third party. The service predicts one row at a time, of one client; milliseconds are the client's, and
the median. Writes the table of docs/reasons.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xgboost

from benchmarks.program import DOCS, costs, parse, write_between
from benchmarks.serve import ROLES, asking, services
from benchmarks.serve import measure as measure_requests
from mpc.party import Party
from protocols.runtime.local import PARTIES, run_session
from protocols.runtime.settings import FROM_DEALER, Offline
from protocols.transport.certificates import make_credentials
from secure_tree import SecureXGBClassifier
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.exchange.xgboost import to_xgboost
from secure_tree.prediction.reasons.explaining import Contributions

PAGE, NAME = DOCS / "reasons.md", "reasons"


def train(folder: Path, options: argparse.Namespace) -> tuple[xgboost.Booster, pd.DataFrame]:
    """Save halves of a model; return it as one of XGBoost, and further rows."""
    rng = np.random.default_rng(3)
    d = options.features
    X = rng.standard_normal((2 * options.train_rows + options.rows, d), np.float32)
    y = (X @ np.linspace(0.2, 1, d, dtype=np.float32) + rng.standard_normal(len(X)) > 0).astype(int)
    parts = np.split(np.arange(len(X)), [options.train_rows, 2 * options.train_rows])
    names = [f"x{i}" for i in range(d)]

    def job(party: Party) -> Any:
        shape: dict[str, Any] = {"n_estimators": options.trees, "max_depth": options.depth, "max_bin": 32}
        model = SecureXGBClassifier(edges="joint", **shape)
        own = parts[party.rank]
        model.fit(party, pd.DataFrame(X[own], columns=names), y[own]).save(folder / f"{party.rank}.npz")
        assert model.model is not None, "fit has set it"
        plain = reveal_model(party, model.model, 0)
        return to_xgboost(plain) if plain else None

    exported = run_session(job)[PARTIES[0]]["result"]
    booster = xgboost.Booster(model_file=bytearray(json.dumps(exported).encode()))
    return booster, pd.DataFrame(X[parts[2]], columns=names)


def explain(folder: Path, rows: pd.DataFrame, offline: Offline, **asked: Any) -> tuple[dict[str, Any], list[Any]]:
    """Explain rows of party 0; return the cost of the table and of the rows, and the contributions and mean, if it
    learns numbers.
    """

    def job(party: Party) -> Any:
        model = SecureXGBClassifier.load(folder / f"{party.rank}.npz")
        found = model.contributions(party, rows.iloc[: len(rows) * (1 - party.rank)], **asked)
        numbers = [found.values, found.mean] if isinstance(found, Contributions) else []
        return {name: asdict(party.stages[name]) for name in ("reasons_table", "reasons_offline", "reasons")}, numbers

    outcome = run_session(job, offline=offline)
    (stages, found), (others, _) = (outcome[name]["result"] for name in PARTIES)
    parts = {"table": ["reasons_table"], "rows": ["reasons_offline", "reasons"]}
    return {part: costs(names, stages, others) for part, names in parts.items()}, found


def latency(folder: Path, rows: pd.DataFrame, options: argparse.Namespace) -> dict[str, float]:
    """Return the median milliseconds of a row without and with reasons, from the same services in turns."""
    for role, credentials in make_credentials(ROLES).items():
        credentials.save(folder / "keys", role)
    hosts = argparse.Namespace(
        offline="dealer", partition="horizontal", ahead=options.ahead, halves=False, method="thresholds"
    )
    found: dict[str, list[float]] = {"without": [], "with": []}
    with services(folder, 0.0, hosts, options.top) as url:
        for _ in range(options.turns):
            for name, top in (("without", 0), ("with", options.top)):
                new = partial(asking, url, rows.head(1), top)
                found[name].append(measure_requests(new, 0.0, 1, 1, options.repeats).p50_ms)
    return {name: float(np.median(times)) for name, times in found.items()}


def table(lines: list[tuple[str, dict[str, Any]]]) -> str:
    """Return the table, with a row for each work."""
    columns = ["rounds", "MB", "MB dealt", "s", "ms per row", "MB per row", "largest error"]
    shown = [f"| work | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for name, of in lines:
        cells = [f"{of[one]:.3g}" if one in of else "" for one in columns]
        shown.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(shown)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--train-rows", type=int, default=1000, help="of each party")
    parser.add_argument("--trees", type=int, default=60)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--top", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=100, help="requests in a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--ahead", type=float, default=256.0)
    parser.add_argument("--out", type=Path, default=DOCS)
    small = {"rows": 2, "train_rows": 40, "trees": 2, "depth": 2, "features": 5, "top": 2}
    options = parse(parser, arguments, **small, repeats=1, turns=1, ahead=4.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        booster, rows = train(folder, options)
        numbers, (values, mean) = explain(folder, rows, FROM_DEALER, show="numbers", method="thresholds")
        theirs = booster.predict(xgboost.DMatrix(rows), pred_contribs=True)
        error = max(np.abs(values - theirs[:, :-1]).max(), np.abs(mean - theirs[0, -1]).max())
        names, _ = explain(folder, rows, FROM_DEALER, top=options.top, method="thresholds")
        paired, _ = explain(folder, rows, Offline("pairwise"), top=options.top, method="bins")
        p50 = latency(folder, rows, options)
    count, per_row = options.rows, paired["rows"]
    lines = [
        ("the table, once", numbers["table"]),
        (f"contributions of {count} rows", numbers["rows"] | {"largest error": error}),
        (f"names of {options.top} reasons of {count} rows", names["rows"]),
        ("no third party: the table, once", paired["table"]),
        (
            f"no third party: names of {options.top} reasons of {count} rows",
            per_row | {"ms per row": 1e3 * per_row["s"] / count, "MB per row": per_row["MB"] / count},
        ),
        ("one row through the service, p50", {"ms per row": p50["without"]}),
        (f"the same with {options.top} reasons", {"ms per row": p50["with"]}),
    ]
    heading = f"{options.trees} trees of depth {options.depth}, {options.features} features:"
    text = f"{heading}\n\n{table(lines)}"
    print(text)
    write_between(PAGE, NAME, text, options.out / PAGE.name)


if __name__ == "__main__":
    main()
