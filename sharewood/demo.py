"""The demo: two party processes and a dealer train and predict on real data, beside XGBoost on the pooled rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpc.errors import DataError
from mpc.party import Party, Stage
from protocols.runtime.session import DEALER, PARTIES, run_session
from protocols.runtime.warm_up import warm_up
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.config import Partition, TrainConfig
from secure_tree.links import values
from secure_tree.predict import Method
from secure_tree.storage import write_json
from sharewood.tables import check_classes, read_table

Table = tuple[pd.DataFrame, np.ndarray | None]


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
    """A table with informative and idle columns: labels from a smooth function of six of them, plus noise."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    use = X[:, np.arange(6) % features]
    signal = use[:, 0] + use[:, 1] * use[:, 2] - np.abs(use[:, 3]) + np.sin(2 * use[:, 4]) + 0.5 * use[:, 5]
    noisy = signal + rng.logistic(scale=0.5, size=rows)
    y = noisy if objective == "reg:squarederror" else (noisy > 0).astype(float)
    names = [f"f{i}" for i in range(features)]
    return split(pd.DataFrame(X, columns=names), y, test_size, f"synthetic, {rows} x {features}", partition)


def from_files(paths: tuple[Path, Path], label: str, test: Path | None, test_size: float, logistic: bool) -> DemoData:
    """A file a party; a third to judge by, or `test_size` of either file's rows."""
    tables: list[tuple[pd.DataFrame, np.ndarray]] = []
    for path in [*paths, *([test] if test else [])]:
        features, labels = read_table(path, label)
        assert labels is not None
        if logistic:
            check_classes(path, label, labels)
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
    own, labels = read_table(paths[0], label)
    foreign, _ = read_table(paths[1], None)
    assert labels is not None
    if logistic:
        check_classes(paths[0], label, labels)
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
    """Train and predict between processes; the report of interfaces.md, also written to `out`."""
    config = TrainConfig.of(**parameters, partition=data.partition)
    out.mkdir(parents=True, exist_ok=True)
    warm_up()
    estimator = SecureXGBClassifier if config.logistic else SecureXGBRegressor

    def job(party: Party) -> dict[str, Any]:
        watch = _Progress(config.n_estimators) if progress and party.rank == 0 else None
        model = estimator(**config.model_dump()).fit(party, *data.train[party.rank], observer=watch)
        model.save(out / f"{PARTIES[party.rank]}.npz")
        margins = model.predict_margin(party, data.test[party.rank][0], data.method)
        stages = {name: asdict(stage) for name, stage in party.stages.items()}
        return {"margins": margins, "stages": stages, "revealed": party.revealed}

    outcome = run_session(job)
    report = _report(data, config, outcome)
    write_json(out / "result.json", report)
    return report


class _Progress:
    """A line on stderr for each tenth of the trees."""

    def __init__(self, trees: int) -> None:
        self._trees = trees

    def __call__(self, number: int, *_: Any) -> None:
        from rich.console import Console

        done = number + 1
        if done * 10 // self._trees > number * 10 // self._trees:
            Console(stderr=True).print(f"[dim]trained {done} of {self._trees} trees[/dim]")


def _report(data: DemoData, config: TrainConfig, outcome: dict[str, dict[str, Any]]) -> dict[str, Any]:
    results = [outcome[name]["result"] for name in PARTIES]
    stages = {name: [Stage(**r["stages"][name]) for r in results] for name in results[0]["stages"]}
    labels = data.pooled(data.test)[1]
    margins = np.concatenate([r["margins"] for r in results])
    trees = config.n_estimators
    online = _phase(stages["online"])
    offline, predict = stages["offline"], _phase(stages["predict"])
    setup = _phase(stages["setup"])
    return {
        "data": {
            "rows": [len(features) for features, _ in data.train],
            "features": data.pooled(data.train)[0].shape[1],
            "partition": data.partition,
            "title": data.title,
            "judged_on": "training rows" if data.test is data.train else f"{len(labels)} held-out rows",
        },
        "config": config.model_dump(),
        "quality": {**quality(labels, margins, config), "xgboost": quality(labels, _xgboost(data, config), config)},
        "setup": {**setup, "bytes": setup["bytes"] + sum(s.bytes_dealt for s in stages["setup"])},
        "offline": {
            "seconds": max(s.seconds for s in offline),
            "bytes_dealer": sum(s.bytes_dealt for s in offline),
            "bytes_parties": _phase(offline)["bytes"],
        },
        "online": {**online, **{f"{name}_per_tree": value / trees for name, value in online.items()}},
        "predict": {"rows": len(labels), **predict},
        "revealed": [r["revealed"] for r in results],
        "memory_peak_bytes": {name: outcome[name]["memory_peak_bytes"] for name in (*PARTIES, DEALER)},
        "pid": {name: outcome[name]["pid"] for name in (*PARTIES, DEALER)},
    }


def _phase(stages: list[Stage]) -> dict[str, Any]:
    """Wall clock of the slower party, rounds, and wire bytes between the parties in both directions."""
    return {
        "seconds": max(s.seconds for s in stages),
        "rounds": max(s.rounds for s in stages),
        "bytes": sum(s.bytes_sent for s in stages),
    }


def quality(labels: np.ndarray, margins: np.ndarray, config: TrainConfig) -> dict[str, float | None]:
    """Measures of margins against labels; auc is None where only one class is present."""
    from sklearn import metrics

    if not config.logistic:
        predicted = values(config, margins)
        return {
            "rmse": float(metrics.root_mean_squared_error(labels, predicted)),
            "mae": float(metrics.mean_absolute_error(labels, predicted)),
        }
    probability = 1 / (1 + np.exp(-margins))
    return {
        "auc": float(metrics.roc_auc_score(labels, margins)) if len(set(labels)) == 2 else None,
        "accuracy": float(metrics.accuracy_score(labels, margins > 0)),
        "logloss": float(metrics.log_loss(labels, probability, labels=[0, 1])),
    }


def _xgboost(data: DemoData, config: TrainConfig) -> np.ndarray:
    """Margins of plain XGBoost with the same parameters, trained on the pooled rows."""
    import xgboost

    X, y = data.pooled(data.train)
    parameters = {
        "objective": config.objective,
        "learning_rate": config.learning_rate,
        "max_depth": config.max_depth,
        "tree_method": "exact" if config.max_bin == "exact" else "hist",
        "reg_lambda": config.reg_lambda,
        "reg_alpha": config.reg_alpha,
        "gamma": config.min_split_loss,
        "min_child_weight": config.min_child_weight,
        "base_score": config.base_score,
    }
    if config.max_bin != "exact":
        parameters["max_bin"] = config.max_bin
    booster = xgboost.train(parameters, xgboost.DMatrix(X, label=y), config.n_estimators)
    return booster.predict(xgboost.DMatrix(data.pooled(data.test)[0]), output_margin=True).astype(float)
