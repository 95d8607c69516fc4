"""SecureBoost on this machine: a process for the guest and each host, TLS between them, XGBoost on the joined table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import DataError
from mpc.host.files import make_folder
from mpc.host.frames import pd
from protocols.baselines.secureboost import Guest, Host, SecureBoostConfig
from protocols.runtime.processes import run_processes
from protocols.transport.channel import Channel
from sharewood.baselines.files import read_file
from sharewood.baselines.report import Data, FedReport, Spent, Trained, bytes_of, leaks_of, measures, say
from sharewood.report.figures import Quality
from sharewood.report.quality import log_odds
from sharewood.report.reference import Reference
from sharewood.tables.columns import ID
from sharewood.tables.datasets import breast_cancer, hold_out

GUEST = "guest"


@dataclass(frozen=True)
class PartyTables:
    """The columns of each party, the guest's first, and the guest's labels.

    ids: the ids by which rows are aligned; None if all parties have the same rows in the same order.
    """

    tables: list[pd.DataFrame]
    labels: np.ndarray
    ids: list[list[str]] | None
    title: str


def built_in(parties: int) -> PartyTables:
    """Divide the columns of scikit-learn's breast cancer set among a guest and hosts."""
    features, labels, title = breast_cancer()
    parts = np.array_split(np.arange(features.shape[1]), parties)
    return PartyTables([features.iloc[:, part] for part in parts], labels, None, title)


def from_files(paths: Sequence[Path], label: str, objective: str) -> PartyTables:
    """Read the guest's file with the label, then one file per host. A column `id` in all of them aligns the rows.

    The guest's file may have no feature. Raises DataError.
    """
    guest = read_file(paths[0], label, objective, only_labels=True)
    hosts = [read_file(path, None, objective) for path in paths[1:]]
    labels = guest.labels
    assert labels is not None, "read_file gives labels where it is asked for them"
    tables = [rows.features for rows in (guest, *hosts)]
    ids = [rows.ids.tolist() for rows in (guest, *hosts) if rows.ids is not None]
    if len(ids) == len(paths):
        return PartyTables(tables, labels, ids, _title(paths))
    for path, rows in zip(paths, (guest, *hosts), strict=True):
        if rows.ids is not None:
            raise DataError(f"{path}: has a column {ID!r}, but another file has none: all files must have it, or none")
        if len(rows.features) != len(labels):
            raise DataError(
                f"{path}: must have the {len(labels)} rows of {paths[0]}, got {len(rows.features)}: a column {ID!r} "
                "would align them"
            )
    return PartyTables(tables, labels, None, _title(paths))


def _title(paths: Sequence[Path]) -> str:
    return ", ".join(path.name for path in paths)


def run(config: SecureBoostConfig, data: PartyTables, test_size: float, out: Path) -> FedReport:
    """Train, predict and evaluate between processes; return the report. The model's parts go to `out`."""
    hosts = [f"host_{i}" for i in range(1, len(data.tables))]
    make_folder(out)

    def guest(channels: dict[str, Channel]) -> dict[str, Any]:
        party, watch = Guest(channels), _Watch(config.n_estimators, channels)
        say(f"leaks: {leaks_of('secureboost', epsilon=config.epsilon)[0]}")
        say("aligning rows" if data.ids else "training")
        rows = party.align(data.ids[0]) if data.ids else np.arange(len(data.labels))
        training, validation = _split(len(rows), test_size)
        mine, labels = data.tables[0].iloc[rows], data.labels[rows]
        watch.lap("align")
        model = party.train(config, mine.iloc[training], labels[training], watch.round)
        watch.lap("online")
        model.save(out / f"{GUEST}.json")
        predicted = party.predict(model, mine.iloc[validation])
        watch.lap("predict")
        laps = {stage: asdict(spent) for stage, spent in watch.laps.items()}
        return {"rows": rows, "predicted": predicted, "laps": laps}

    def host(place: int) -> Any:
        def play(channels: dict[str, Channel]) -> np.ndarray:
            party = Host(channels[GUEST])
            rows = party.align(data.ids[place]) if data.ids else np.arange(len(data.labels))
            training, validation = _split(len(rows), test_size)
            mine = data.tables[place].iloc[rows]
            model = party.train(mine.iloc[training])
            model.save(out / f"{hosts[place - 1]}.json")
            party.predict(model, mine.iloc[validation])
            return rows

        return play

    outcome: dict[str, Any] = run_processes({GUEST: guest, **{name: host(i) for i, name in enumerate(hosts, 1)}})
    rows = [outcome[GUEST]["rows"], *(outcome[name] for name in hosts)]
    joined = np.concatenate([t.to_numpy(float)[r] for t, r in zip(data.tables, rows, strict=True)], axis=1)
    labels = data.labels[rows[0]]
    training, validation = _split(len(labels), test_size)
    predicted = outcome[GUEST]["predicted"]
    reference = _reference(config, joined[training], labels[training]).margins(joined[validation])
    laps = {stage: Spent(**spent) for stage, spent in outcome[GUEST]["laps"].items()}
    return FedReport(
        system="secureboost",
        leaks=leaks_of("secureboost", epsilon=config.epsilon),
        engine="processes with TLS",
        data=Data(
            title=data.title,
            rows=len(training),
            features=[table.shape[1] for table in data.tables],
            judged_on=f"{len(validation)} {'held-out' if test_size else 'training'} rows",
            parties=f"a guest and {len(hosts)} host{'s' if len(hosts) > 1 else ''}, {config.encryption}",
            bytes=bytes_of(len(training), joined.shape[1]),
        ),
        config=config,
        quality=Quality(
            measures(labels[validation], _margins(config, predicted), config.objective),
            measures(labels[validation], reference, config.objective),
        ),
        online=Trained(**vars(laps["online"]), trees=config.n_estimators),
        align=laps["align"],
        predict=laps["predict"],
        files=[str(out / f"{name}.json") for name in (GUEST, *hosts)],
    )


def _margins(config: SecureBoostConfig, predicted: np.ndarray) -> np.ndarray:
    """Return the margins behind predictions; for several classes, up to a constant."""
    if config.logistic:
        return log_odds(predicted)
    return predicted if config.objective == "reg:squarederror" else np.log(np.maximum(predicted, 1e-15))


def _reference(config: SecureBoostConfig, features: np.ndarray, labels: np.ndarray) -> Reference:
    """Train XGBoost with the same parameters."""
    if config.objective != "multi:softprob":
        return Reference.alike(config, features, labels)
    alike = ("objective", "learning_rate", "max_depth", "max_bin", "reg_lambda", "reg_alpha", "min_child_weight")
    parameters = {name: getattr(config, name) for name in alike}
    parameters |= {"gamma": config.min_split_loss, "num_class": int(labels.max()) + 1}
    return Reference.trained(parameters, config.n_estimators, features, labels)


def _split(rows: int, test_size: float) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to train on and for validation, the same at all parties. Raises DataError if none remain to train."""
    training, validation = hold_out(rows, test_size)
    if not len(training):
        raise DataError(f"{rows} common rows are too few for test_size {test_size:g}")
    return training, validation if len(validation) else training


class _Watch:
    """Measure seconds and bytes of each stage at the guest, and print a line per tenth of the rounds."""

    def __init__(self, rounds: int, channels: dict[str, Channel]) -> None:
        self.laps: dict[str, Spent] = {}
        self._rounds, self._channels = rounds, list(channels.values())
        self._seconds, self._bytes = time.perf_counter(), 0

    def lap(self, stage: str) -> None:
        now, moved = time.perf_counter(), sum(c.wire_sent + c.wire_received for c in self._channels)
        self.laps[stage] = Spent(now - self._seconds, moved - self._bytes)
        self._seconds, self._bytes = now, moved

    def round(self, number: int, _: np.ndarray) -> None:
        done = number + 1
        if done * 10 // self._rounds > number * 10 // self._rounds:
            say(f"trained {done} of {self._rounds} trees")
