"""SecureBoost on this machine: a process for the guest and each host, TLS between them, XGBoost on the joined table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpc.errors import DataError
from protocols.runtime.launch import run_processes
from protocols.secureboost import Guest, Host, SecureBoostConfig
from protocols.transport.channel import Channel
from sharewood.columns import ID
from sharewood.fed.files import read_file
from sharewood.fed.report import leaks_of, measures, say

GUEST = "guest"


@dataclass(frozen=True)
class Tables:
    """The columns of each party, the guest's first, and the guest's labels.

    ids: what each party's rows are aligned by; None where all have the same rows in the same order.
    """

    tables: list[pd.DataFrame]
    labels: np.ndarray
    ids: list[list[str]] | None
    title: str


def built_in(parties: int) -> Tables:
    """scikit-learn's breast cancer set, its columns dealt to a guest and hosts."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer(as_frame=True)
    parts = np.array_split(np.arange(bunch.data.shape[1]), parties)
    tables = [bunch.data.iloc[:, part] for part in parts]
    return Tables(tables, bunch.target.to_numpy(float), None, "breast cancer (scikit-learn)")


def from_files(paths: Sequence[Path], label: str, objective: str) -> Tables:
    """The guest's file with the label, then one file per host. A column `id` in all of them aligns the rows.

    Raises DataError.
    """
    guest, *hosts = (read_file(path, None if i else label, objective) for i, path in enumerate(paths))
    labels = guest.labels
    assert labels is not None, "read_file gives labels where it is asked for them"
    tables = [rows.features for rows in (guest, *hosts)]
    ids = [rows.ids.tolist() for rows in (guest, *hosts) if rows.ids is not None]
    if len(ids) == len(paths):
        return Tables(tables, labels, ids, _title(paths))
    for path, rows in zip(paths, (guest, *hosts), strict=True):
        if rows.ids is not None:
            raise DataError(f"{path}: it has a column {ID!r} and another file has none: all of them or none")
        if len(rows.features) != len(labels):
            raise DataError(
                f"{path}: {len(rows.features)} rows, and {len(labels)} in {paths[0]}: a column {ID!r} would align them"
            )
    return Tables(tables, labels, None, _title(paths))


def _title(paths: Sequence[Path]) -> str:
    return ", ".join(path.name for path in paths)


def run(config: SecureBoostConfig, data: Tables, test_size: float, out: Path) -> dict[str, Any]:
    """Train, predict and evaluate between processes; the report. Each party's part of the model is left in `out`."""
    hosts = [f"host_{i}" for i in range(1, len(data.tables))]
    out.mkdir(mode=0o700, parents=True, exist_ok=True)

    def guest(channels: dict[str, Channel]) -> dict[str, Any]:
        party, watch = Guest(channels), _Watch(config.n_estimators, channels)
        say(f"leaks: {leaks_of('secureboost')[0]}")
        say("aligning rows" if data.ids else "training")
        rows = party.align(data.ids[0]) if data.ids else np.arange(len(data.labels))
        training, held = _split(len(rows), test_size)
        mine, labels = data.tables[0].iloc[rows], data.labels[rows]
        watch.lap("align")
        model = party.train(config, mine.iloc[training], labels[training], watch.round)
        watch.lap("online")
        model.save(out / f"{GUEST}.json")
        predicted = party.predict(model, mine.iloc[held])
        watch.lap("predict")
        return {"rows": rows, "predicted": predicted, "laps": watch.laps}

    def host(place: int) -> Any:
        def play(channels: dict[str, Channel]) -> np.ndarray:
            party = Host(channels[GUEST])
            rows = party.align(data.ids[place]) if data.ids else np.arange(len(data.labels))
            training, held = _split(len(rows), test_size)
            mine = data.tables[place].iloc[rows]
            model = party.train(mine.iloc[training])
            model.save(out / f"{hosts[place - 1]}.json")
            party.predict(model, mine.iloc[held])
            return rows

        return play

    outcome: dict[str, Any] = run_processes({GUEST: guest, **{name: host(i) for i, name in enumerate(hosts, 1)}})
    rows = [outcome[GUEST]["rows"], *(outcome[name] for name in hosts)]
    joined = np.concatenate([t.to_numpy(float)[r] for t, r in zip(data.tables, rows, strict=True)], axis=1)
    labels = data.labels[rows[0]]
    training, held = _split(len(labels), test_size)
    predicted = outcome[GUEST]["predicted"]
    margins = np.log(predicted / (1 - predicted)) if config.logistic else predicted
    plain = _xgboost(config, joined[training], labels[training], joined[held])
    laps = outcome[GUEST]["laps"]
    trees = config.n_estimators
    return {
        "system": "secureboost",
        "leaks": leaks_of("secureboost"),
        "engine": "processes with TLS",
        "data": {
            "title": data.title,
            "rows": len(training),
            "features": [table.shape[1] for table in data.tables],
            "judged_on": f"{len(held)} {'held-out' if test_size else 'training'} rows",
            "parties": f"a guest and {len(hosts)} host{'s' if len(hosts) > 1 else ''}, {config.encryption}",
        },
        "config": config.model_dump(),
        "quality": {
            **measures(labels[held], margins, config.objective),
            "xgboost": measures(labels[held], plain, config.objective),
        },
        **laps,
        "online": {**laps["online"], **{f"{name}_per_tree": value / trees for name, value in laps["online"].items()}},
        "files": [str(out / f"{name}.json") for name in (GUEST, *hosts)],
    }


def _split(rows: int, test_size: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and to evaluate on, equal at all parties. Raises DataError where none is left to train on."""
    held, training = np.split(np.random.default_rng(2026).permutation(rows), [round(test_size * rows)])
    if not len(training):
        raise DataError(f"{rows} rows in common are too few for test_size {test_size:g}")
    return training, held if len(held) else training


class _Watch:
    """Seconds and bytes of each stage at the guest, and a line for each tenth of the rounds."""

    def __init__(self, rounds: int, channels: dict[str, Channel]) -> None:
        self.laps: dict[str, dict[str, float]] = {}
        self._rounds, self._channels = rounds, list(channels.values())
        self._seconds, self._bytes = time.perf_counter(), 0

    def lap(self, stage: str) -> None:
        now, moved = time.perf_counter(), sum(c.wire_sent + c.wire_received for c in self._channels)
        self.laps[stage] = {"seconds": now - self._seconds, "bytes": moved - self._bytes}
        self._seconds, self._bytes = now, moved

    def round(self, number: int, _: np.ndarray) -> None:
        done = number + 1
        if done * 10 // self._rounds > number * 10 // self._rounds:
            say(f"trained {done} of {self._rounds} trees")


def _xgboost(config: SecureBoostConfig, X: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Margins of plain XGBoost with the same parameters on the joined table."""
    import xgboost

    parameters = {
        "objective": config.objective,
        "learning_rate": config.learning_rate,
        "max_depth": config.max_depth,
        "max_bin": config.bins,
        "tree_method": "hist",
        "lambda": config.reg_lambda,
        "alpha": config.reg_alpha,
        "gamma": config.min_split_loss,
        "min_child_weight": config.min_child_weight,
        "base_score": config.base_score,
    }
    booster = xgboost.train(parameters, xgboost.DMatrix(X, label=y), config.n_estimators)
    return booster.predict(xgboost.DMatrix(test), output_margin=True).astype(float)
