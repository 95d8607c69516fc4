"""The demo: two party processes and a dealer train and predict on real data, beside XGBoost on the pooled rows."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpc.errors import DataError
from mpc.meter import Stage
from mpc.party import Party
from protocols.runtime.session import DEALER, PARTIES, run_session
from protocols.runtime.warm_up import warm_up
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.config import Partition, TrainConfig
from secure_tree.predict import Method
from secure_tree.storage import write_bytes, write_json
from sharewood.columns import Columns
from sharewood.judging import quality, train_xgboost, xgboost_margins
from sharewood.learning_curve import points, staged_margins
from sharewood.page import demo_page
from sharewood.progress import Progress
from sharewood.tables import check_classes, read_table

log = logging.getLogger("sharewood")
Table = tuple[pd.DataFrame, np.ndarray | None]
CURVE_ROWS = 5_000


@dataclass(frozen=True)
class DemoData:
    """Training tables of both parties, the tables to judge by of both parties, and how those are predicted.

    Divided by columns, the first party has the labels and the second None.
    """

    train: tuple[Table, Table]
    test: tuple[Table, Table]
    method: Method
    title: str
    partition: Partition = "horizontal"

    def pooled(self, tables: tuple[Table, Table]) -> tuple[np.ndarray, np.ndarray]:
        """Both parties' tables as one: features and labels."""
        features = np.concatenate([np.asarray(x) for x, _ in tables], axis=int(self.partition == "vertical"))
        return features, np.concatenate([y for _, y in tables if y is not None])

    def few(self) -> dict[str, tuple[Table, Table]]:
        """The rows of the learning curve: the first CURVE_ROWS that each party trained on, and that it held out."""

        def first(table: Table) -> Table:
            return table[0].iloc[:CURVE_ROWS], None if table[1] is None else table[1][:CURVE_ROWS]

        named = {"training": self.train} | ({} if self.test is self.train else {"held_out": self.test})
        return {name: (first(a), first(b)) for name, (a, b) in named.items()}


def split(features: pd.DataFrame, labels: np.ndarray, test_size: float, title: str, partition: Partition) -> DemoData:
    """Shuffle with a fixed seed, hold out `test_size`, give each party half of the rows or of the columns."""
    order = np.random.default_rng(2026).permutation(len(labels))
    held = round(test_size * len(labels))
    X, y = features.iloc[order].reset_index(drop=True), labels[order]

    def half(start: int, stop: int) -> tuple[Table, Table]:
        if partition == "vertical":
            part, middle = X.iloc[start:stop].reset_index(drop=True), X.shape[1] // 2
            return (part.iloc[:, :middle], y[start:stop]), (part.iloc[:, middle:], None)
        middle = (start + stop) // 2
        first, second = ((X.iloc[c].reset_index(drop=True), y[c]) for c in (slice(start, middle), slice(middle, stop)))
        return first, second

    train = half(held, len(y))
    return DemoData(train, half(0, held) if held else train, "bins", title, partition)


def built_in(test_size: float, partition: Partition) -> DemoData:
    """scikit-learn's breast cancer set."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer(as_frame=True)
    return split(bunch.data, bunch.target.to_numpy(float), test_size, "breast cancer (scikit-learn)", partition)


def synthetic(rows: int, features: int, objective: str, test_size: float, partition: Partition) -> DemoData:
    """A table with informative and idle columns: labels or counts from a smooth function of six of them and noise."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    use = X[:, np.arange(6) % features]
    signal = use[:, 0] + use[:, 1] * use[:, 2] - np.abs(use[:, 3]) + np.sin(2 * use[:, 4]) + 0.5 * use[:, 5]
    noisy = signal + rng.logistic(scale=0.5, size=rows)
    if objective == "count:poisson":
        y = rng.poisson(np.exp(signal / 2)).astype(float)
    else:
        y = noisy if objective == "reg:squarederror" else (noisy > 0).astype(float)
    names = [f"f{i}" for i in range(features)]
    return split(pd.DataFrame(X, columns=names), y, test_size, f"synthetic, {rows} x {features}", partition)


def from_files(paths: tuple[Path, Path], label: str, test: Path | None, test_size: float, logistic: bool) -> DemoData:
    """A file a party; a third to judge by, or `test_size` of either file's rows."""
    tables: list[tuple[pd.DataFrame, np.ndarray]] = []
    for path in [*paths, *([test] if test else [])]:
        columns = Columns.inferred(label)
        rows = read_table(path, columns)
        features, labels = rows.features, rows.labels
        assert labels is not None, "a label column was asked for"
        if logistic:
            check_classes(path, columns, labels)
        if list(features) != list(tables[0][0] if tables else features):
            raise DataError(f"{path}: its feature columns or their order differ from those of {paths[0]}")
        tables.append((features, labels))
    title = f"{paths[0].name} and {paths[1].name}"
    if test:
        nobody = tables[2][0].iloc[:0], tables[2][1][:0]
        return DemoData((tables[0], tables[1]), (tables[2], nobody), "thresholds", title)
    splits = [split(features, labels, test_size, title, "horizontal") for features, labels in tables[:2]]
    join = [
        tuple((pd.concat([a[0], b[0]], ignore_index=True), np.concatenate([a[1], b[1]])) for a, b in (s.train, s.test))
        for s in splits
    ]
    return DemoData((join[0][0], join[1][0]), (join[0][1], join[1][1]), "bins", title)


def from_columns(paths: tuple[Path, Path], label: str, test_size: float, logistic: bool) -> DemoData:
    """A file a party with the same rows in the same order, the label in the first; `test_size` of the rows held out."""
    columns = Columns.inferred(label)
    rows = read_table(paths[0], columns)
    own, labels = rows.features, rows.labels
    foreign = read_table(paths[1], Columns.inferred()).features
    assert labels is not None, "a label column was asked for"
    if logistic:
        check_classes(paths[0], columns, labels)
    if len(own) != len(foreign):
        raise DataError(f"{paths[1]}: {len(foreign)} rows, and {len(own)} in {paths[0]}: by columns both have the same")
    order = np.random.default_rng(2026).permutation(len(labels))
    held = round(test_size * len(labels))

    def part(rows: np.ndarray) -> tuple[Table, Table]:
        first, second = (x.iloc[rows].reset_index(drop=True) for x in (own, foreign))
        return (first, labels[rows]), (second, None)

    train = part(order[held:])
    title = f"{paths[0].name} and {paths[1].name}"
    return DemoData(train, part(order[:held]) if held else train, "bins", title, "vertical")


def run_demo(data: DemoData, parameters: dict[str, Any], out: Path, progress: bool = True) -> dict[str, Any]:
    """Train and predict between processes; the report of interfaces.md, also written to `out` as JSON and as a page."""
    config = TrainConfig.of(**parameters, partition=data.partition)
    out.mkdir(parents=True, exist_ok=True)
    warm_up(config.comparison)
    estimator = SecureXGBClassifier if config.logistic else SecureXGBRegressor
    few = data.few()

    def job(party: Party) -> dict[str, Any]:
        if party.rank or not progress:
            log.setLevel(logging.WARNING)
        model = estimator(**config.model_dump()).fit(party, *data.train[party.rank], observer=Progress(party, config))
        model.save(out / f"{PARTIES[party.rank]}.npz")
        margins = model.predict_margin(party, data.test[party.rank][0], data.method)
        costs = {
            name: {k: asdict(v) for k, v in c.items()} for name, c in (("stages", party.stages), ("parts", party.parts))
        }
        revealed = list(party.revealed)
        shown = pd.concat([tables[party.rank][0] for tables in few.values()], ignore_index=True)
        staged = staged_margins(party, model, shown, data.method)
        again = dict.fromkeys(party.revealed[len(revealed) :])
        revealed += [f"{what} after every step of the learning curve" for what in again]
        return {"margins": margins, "staged": staged, "revealed": revealed, **costs}

    outcome = run_session(job)
    results = [outcome[name]["result"] for name in PARTIES]
    labels = data.pooled(data.test)[1]
    booster = train_xgboost(config, *data.pooled(data.train))
    margins = {
        "Sharewood": np.concatenate([r["margins"] for r in results]),
        "XGBoost": xgboost_margins(booster, data.pooled(data.test)[0]),
    }
    report = {
        "data": {
            "rows": [len(features) for features, _ in data.train],
            "features": data.pooled(data.train)[0].shape[1],
            "partition": data.partition,
            "title": data.title,
            "judged_on": "training rows" if data.test is data.train else f"{len(labels)} held-out rows",
        },
        "config": config.model_dump(),
        "quality": {
            **quality(labels, margins["Sharewood"], config),
            "xgboost": quality(labels, margins["XGBoost"], config),
        },
        "curve": _curve(data, config, [r["staged"] for r in results], booster),
        **_costs(results, config.n_estimators, len(labels)),
        "revealed": [r["revealed"] for r in results],
        "memory_peak_bytes": {name: outcome[name]["memory_peak_bytes"] for name in (*PARTIES, DEALER)},
        "pid": {name: outcome[name]["pid"] for name in (*PARTIES, DEALER)},
    }
    write_json(out / "result.json", report)
    write_bytes(out / "report.html", demo_page(report, labels, margins).encode())
    return report


def _curve(data: DemoData, config: TrainConfig, staged: list[np.ndarray], booster: Any) -> dict[str, Any]:
    """The metric after ever more trees, beside XGBoost's: this process has both parties' labels and predictions."""
    trees = points(config.n_estimators)
    curve: dict[str, Any] = {"metric": config.metric, "trees": trees, "rows": {}, "sharewood": {}, "xgboost": {}}
    start = [0, 0]
    for name, tables in data.few().items():
        features, labels = data.pooled(tables)
        counts = [len(x) if r.shape[1] else 0 for (x, _), r in zip(tables, staged, strict=True)]
        mine = np.concatenate([r[:, s : s + n] for r, s, n in zip(staged, start, counts, strict=True)], axis=1)
        start = [s + n for s, n in zip(start, counts, strict=True)]
        theirs = [xgboost_margins(booster, features, count) for count in trees]
        curve["rows"][name] = len(labels)
        for who, margins in (("sharewood", mine), ("xgboost", theirs)):
            curve[who][name] = [quality(labels, m, config)[config.metric] for m in margins]
    return curve


def _costs(results: list[dict[str, Any]], trees: int, predicted: int) -> dict[str, Any]:
    """Both parties' meters as one: by phase, and within the online phase by part of a tree."""
    stages = {name: [Stage(**r["stages"][name]) for r in results] for name in results[0]["stages"]}
    parts = {name: [Stage(**r["parts"][name]) for r in results] for name in results[0]["parts"]}
    online, offline, setup = _phase(stages["online"]), stages["offline"], _phase(stages["setup"])
    return {
        "setup": {**setup, "bytes": setup["bytes"] + sum(s.bytes_dealt for s in stages["setup"])},
        "offline": {
            "seconds": max(s.seconds for s in offline),
            "bytes_dealer": sum(s.bytes_dealt for s in offline),
            "bytes_parties": _phase(offline)["bytes"],
        },
        "online": {**online, **{f"{name}_per_tree": value / trees for name, value in online.items()}},
        "parts": {name: {**_phase(p), "bytes_dealt": sum(s.bytes_dealt for s in p)} for name, p in parts.items()},
        "predict": {"rows": predicted, **_phase(stages["predict"])},
    }


def _phase(stages: list[Stage]) -> dict[str, Any]:
    """Wall clock of the slower party, rounds, and wire bytes between the parties in both directions."""
    return {
        "seconds": max(s.seconds for s in stages),
        "rounds": max(s.rounds for s in stages),
        "bytes": sum(s.bytes_sent for s in stages),
    }
