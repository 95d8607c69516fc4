"""Run one training of each of the four systems, and of plain XGBoost, on the same rows of the same two parties.

Each gives a `Run`: quality on held-out rows, cost of the training, and results of attacks (benchmarks/attacks.py). By
columns, party 0 is the guest with the labels; the guest attacks the other's bins, and the other party attacks the
labels. By rows, party 1 attacks the labels, values and membership of party 0's rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import xgboost
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from benchmarks import attacks
from benchmarks.attack_secureboost import Notes
from benchmarks.bench_secureboost import _watch
from mpc.party import Party
from protocols.baselines.federated.engine import LocalFederation
from protocols.baselines.federated.fedxgbllr.client import FedXGBllrClient
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.fedxgbllr.server import train as train_llr
from protocols.baselines.federated.fedxgbllr.trees import CheckedTrees
from protocols.baselines.federated.secure_sum import OpenSum
from protocols.baselines.federated.virtual_samples.boundaries import agree
from protocols.baselines.federated.virtual_samples.clusters import assign
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from protocols.baselines.federated.virtual_samples.node import VirtualSamplesNode
from protocols.baselines.federated.virtual_samples.server import Server
from protocols.baselines.secureboost import Guest, Host, SecureBoostConfig
from protocols.baselines.secureboost.columns import bin_columns
from protocols.baselines.secureboost.remote import RemoteColumns
from protocols.runtime.local import run_local
from protocols.runtime.processes import run_processes
from protocols.runtime.settings import Maker
from secure_tree import SecureXGBClassifier, SecureXGBRegressor

VICTIM, ATTACKER = 0, 1
GROUP_KEY = bytes(32)
Found = dict[str, float]


@dataclass(frozen=True)
class Table:
    """Rows to train on and held-out rows, with classes or numbers as labels; `boosting` has XGBoost's names."""

    X: np.ndarray
    y: np.ndarray
    test_X: np.ndarray
    test_y: np.ndarray
    boosting: dict[str, Any]

    @property
    def numbers(self) -> bool:
        return len(np.unique(self.y)) > 2

    @property
    def objective(self) -> str:
        return "reg:squarederror" if self.numbers else "binary:logistic"

    @property
    def columns(self) -> list[np.ndarray]:
        """Return the columns of party 0 and of party 1, assigned alternately."""
        return [np.arange(self.X.shape[1])[party::2] for party in (0, 1)]

    @property
    def rows(self) -> list[np.ndarray]:
        """Return the rows of party 0 and of party 1."""
        return np.array_split(np.arange(len(self.y)), 2)

    @property
    def candidates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows of party 0 and as many that nobody trained on, with labels, and whether they are party 0's."""
        own = self.rows[VICTIM]
        many = min(len(own), len(self.test_y))
        X = np.concatenate([self.X[own[:many]], self.test_X[:many]])
        y = np.concatenate([self.y[own[:many]], self.test_y[:many]])
        return X, y, np.repeat([1.0, 0.0], many)

    def quality(self, margins: np.ndarray) -> float:
        """Return the AUC, or the RMSE, of the held-out rows."""
        return float((root_mean_squared_error if self.numbers else roc_auc_score)(self.test_y, margins))

    def losses(self, margins: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the squared error or cross-entropy of each row, float64[n]."""
        return (margins - y) ** 2 if self.numbers else np.logaddexp(0, margins) - y * margins


@dataclass(frozen=True)
class Run:
    """Quality (AUC or RMSE), `found` by attack; of training, seconds, bytes in both directions, dealt bytes, rounds."""

    system: str
    quality: float
    found: Found
    seconds: float | None = None
    bytes: int | None = None
    dealt: int | None = None
    rounds: int | None = None


@dataclass
class Overheard:
    """A link that also records what its peer sends."""

    link: Any
    received: list[bytes] = field(default_factory=list)

    def exchange(self, tag: str, arrays: Any, like: Any = None) -> list[np.ndarray]:
        answer = self.link.exchange(tag, arrays, like)
        self.received += [array.tobytes() for array in answer]
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.link, name)


def flagship(table: Table, vertical: bool, offline: Maker = "dealer") -> tuple[Run, list[list[list[bytes]]]]:
    """Sharewood: a run without attacks, and what each party received in the training and, by rows, in a prediction.

    The prediction is of the candidates, at party 0.
    """
    kind = SecureXGBRegressor if table.numbers else SecureXGBClassifier
    parameters = {**table.boosting, "partition": "vertical" if vertical else "horizontal"}

    def job(party: Party) -> dict[str, Any]:
        heard = party.link = Overheard(party.link)
        begin = time.perf_counter()
        if vertical:
            own = table.columns[party.rank]
            model = kind(**parameters).fit(party, table.X[:, own], table.y if party.rank == 0 else None)
            to_predict = table.test_X[:, own]
        else:
            mine = table.rows[party.rank]
            model = kind(**parameters).fit(party, table.X[mine], table.y[mine])
            to_predict = table.test_X[: None if party.rank == 0 else 0]
        seconds, heard_in_training = time.perf_counter() - begin, len(heard.received)
        stages = {name: asdict(stage) for name, stage in party.stages.items()}
        margins = model.predict_margin(party, to_predict, "thresholds")
        before = len(heard.received)
        if not vertical:
            X, *_ = table.candidates
            model.predict_margin(party, X[: None if party.rank == VICTIM else 0], "thresholds")
        return {
            "seconds": seconds,
            "stages": stages,
            "margins": margins,
            "received": [heard.received[:heard_in_training], heard.received[before:]],
        }

    both = run_local(job, offline=offline)
    stages = [stage for each in both for stage in each["stages"].values()]
    run = Run(
        "Sharewood",
        table.quality(both[0]["margins"]),
        {},
        seconds=both[0]["seconds"],
        bytes=sum(stage["bytes_sent"] for stage in stages),
        dealt=sum(stage["bytes_dealt"] for stage in stages) // 2,
        rounds=sum(stage["rounds"] for stage in both[0]["stages"].values()),
    )
    return run, [each["received"] for each in both]


def secureboost(table: Table) -> tuple[Run, Notes, np.ndarray]:
    """Run SecureBoost; return the run, the guest's equations, and the node of each row in each request, [n, k]."""
    config = SecureBoostConfig.of(**table.boosting, objective=table.objective, encryption="ou")

    def guest(channels: dict[str, Any]) -> dict[str, Any]:
        notes, own = Notes(), table.columns[0]
        questions: list[Any] = []
        notes.watch(RemoteColumns)
        for channel in channels.values():
            _watch(channel, "send", questions.append)
        begin = time.perf_counter()
        party = Guest(channels)
        model = party.train(config, table.X[:, own], table.y)
        seconds, rounds = time.perf_counter() - begin, len(questions)
        moved = sum(channel.wire_sent + channel.wire_received for channel in channels.values())
        cost = {"seconds": seconds, "rounds": rounds, "bytes": moved}
        predicted = party.predict(model, table.test_X[:, own])
        return {"cost": cost, "predicted": predicted, "sums": notes.sums, "coefficients": notes.coefficients}

    def host(channels: dict[str, Any]) -> np.ndarray:
        seen: list[np.ndarray] = []

        def note(message: Any) -> None:
            if isinstance(message, dict) and message.get("step") == "histograms":
                seen.append(message["assignment"].copy())

        _watch(channels["guest"], "receive", note)
        party, own = Host(channels["guest"]), table.columns[1]
        party.predict(party.train(table.X[:, own]), table.test_X[:, own])
        return np.stack(seen, axis=1)

    ran = run_processes({"guest": guest, "host": host})
    at_guest = ran["guest"]
    run = Run("SecureBoost", table.quality(at_guest["predicted"]), {}, **at_guest["cost"])
    return run, Notes(at_guest["coefficients"], at_guest["sums"]), ran["host"]


class CountingFederation(LocalFederation):
    """Counts its rounds."""

    rounds = 0

    def _deliver(self, step: str, messages: Any) -> Any:
        self.rounds += 1
        return super()._deliver(step, messages)


@contextmanager
def _measured(federation: CountingFederation, cost: dict[str, Any]) -> Any:
    begin = time.perf_counter()
    yield
    moved = sum(federation.sent.values()) + sum(federation.received.values())
    cost |= {"seconds": time.perf_counter() - begin, "bytes": moved, "rounds": federation.rounds}


def by_model(
    table: Table, margins: Callable[[np.ndarray], np.ndarray], numbers: list[np.ndarray], name: str, **cost: Any
) -> Run:
    """Evaluate an attacker with `margins` of any rows, by the model or a part of it, and `numbers` of each column."""
    mine = table.rows[VICTIM]
    X, y, members = table.candidates
    found = {
        "labels": attacks.guess_from_few(margins(table.X[mine])[:, None], table.y[mine]),
        "values": attacks.share_of_values(numbers, table.X[mine]),
        "members": attacks.guess_from_few(-table.losses(margins(X), y)[:, None], members),
    }
    return Run(name, np.nan, found, **cost)


def virtual_samples(table: Table) -> Run:
    """Run virtual samples: party 1 has the boundaries and the forest."""
    shared = {name: table.boosting[name] for name in ("n_estimators", "max_depth", "learning_rate")}
    config = VirtualSamplesConfig.of(
        **shared, objective=table.objective, clusters=table.boosting["max_bin"], update_estimators=0
    )
    nodes = {
        i: VirtualSamplesNode(i, table.X[part], table.y[part], config, OpenSum(), GROUP_KEY)
        for i, part in enumerate(table.rows)
    }
    federation, cost = CountingFederation(nodes, 2), Found()
    server = Server(federation, table.X.shape[1], config, OpenSum())
    with _measured(federation, cost):
        agree(federation)
        server.fit()
        server.finish()
    edges = nodes[ATTACKER].memory["boundaries"]

    def margins(X: np.ndarray) -> np.ndarray:
        return server.base_margin + server.forest.margin(assign(edges, X))

    own = table.X[table.rows[ATTACKER]]
    others = [np.setdiff1d(column, mine) for column, mine in zip(edges, own.T, strict=True)]
    run = by_model(table, margins, others, "virtual samples", **cost)
    return _with_quality(run, table, margins(table.test_X))


def fedxgbllr(table: Table) -> Run:
    """Run FedXGBllr with its defaults: party 1 has party 0's trees."""
    import torch

    torch.set_num_threads(1)
    config = FedXGBllrConfig.of(objective=table.objective)
    clients = {
        i: FedXGBllrClient(i, table.X[part], table.y[part], config, OpenSum()) for i, part in enumerate(table.rows)
    }
    federation, cost = CountingFederation(clients, 2), Found()
    with _measured(federation, cost):
        model = train_llr(federation, config, OpenSum())
    theirs = CheckedTrees.read(model.ensembles[VICTIM], table.X.shape[1])
    inner = np.isfinite(theirs.threshold)
    numbers = [theirs.threshold[inner & (theirs.column == j)] for j in range(table.X.shape[1])]

    def margins(X: np.ndarray) -> np.ndarray:
        return model.location + model.scale * theirs.outputs(X).sum(axis=1).astype(float)

    run = by_model(table, margins, numbers, "FedXGBllr", **cost)
    return _with_quality(run, table, model.predict(table.test_X))


def xgboost_on(table: Table, rows: np.ndarray, columns: np.ndarray, name: str) -> Run:
    """Run XGBoost on some rows and columns, and evaluate an attacker with the model if it has all columns."""
    parameters = {n: v for n, v in table.boosting.items() if n != "n_estimators"}
    data = xgboost.DMatrix(table.X[np.ix_(rows, columns)], label=table.y[rows])
    booster = xgboost.train(
        {**parameters, "objective": table.objective, "tree_method": "hist", "nthread": 1},
        data,
        table.boosting["n_estimators"],
    )

    def margins(X: np.ndarray) -> np.ndarray:
        return booster.predict(xgboost.DMatrix(X[:, columns]), output_margin=True).astype(float)

    run = Run(name, np.nan, {})
    if len(columns) == table.X.shape[1]:
        splits = booster.trees_to_dataframe().query("Feature != 'Leaf'")
        numbers = [splits["Split"][splits["Feature"] == f"f{j}"].to_numpy() for j in columns]
        run = by_model(table, margins, numbers, name)
    return _with_quality(run, table, margins(table.test_X))


def _with_quality(run: Run, table: Table, margins: np.ndarray) -> Run:
    return Run(**{**asdict(run), "quality": table.quality(margins)})


def by_columns(table: Table) -> list[Run]:
    """Run every system by columns, after an attacker without a training."""
    truth = bin_columns(table.X[:, table.columns[1]], table.boosting["max_bin"]).numbers
    own = table.X[:, table.columns[1]]
    guessing = {"labels": attacks.guess_from_few(own, table.y), "values": attacks.fullest_bins(truth)}
    boost, notes, seen = secureboost(table)
    secret, received = flagship(table, vertical=True)
    boost_found = {"labels": attacks.guess_from_few(seen.astype(float), table.y)}
    boost_found["values"] = attacks.share_of_bins(notes, truth)
    words = attacks.words_of_rows(received[1][0], len(table.y))
    secret_found = {"labels": attacks.guess_from_few(words, table.y)}
    # Even if it knows every gradient and node of the training.
    secret_found["values"] = attacks.share_of_bins(attacks.words_as_sums(received[0][0], notes), truth)
    every, whole = np.arange(len(table.y)), np.arange(table.X.shape[1])
    pooled = xgboost_on(table, every, whole, "XGBoost, pooled")
    local = xgboost_on(table, every, table.columns[0], "XGBoost of party 0")
    return [
        Run(**{**asdict(local), "found": guessing}),
        Run(**{**asdict(pooled), "found": {}}),
        Run(**{**asdict(boost), "found": boost_found}),
        Run(**{**asdict(secret), "found": secret_found}),
    ]


def by_rows(table: Table) -> list[Run]:
    """Run every system by rows, after an attacker without a training, which has its own rows and XGBoost on them."""
    every, whole = np.arange(len(table.y)), np.arange(table.X.shape[1])
    mine, own = table.rows[VICTIM], table.X[table.rows[ATTACKER]]
    local = xgboost_on(table, table.rows[ATTACKER], whole, "XGBoost of party 1")
    local.found["values"] = attacks.share_of_values(list(own.T), table.X[mine])
    secret, received = flagship(table, vertical=False)
    training, prediction = received[ATTACKER]
    X, _, members = table.candidates
    secret_found = {
        "labels": attacks.guess_from_few(attacks.words_of_rows(training, len(mine)), table.y[mine]),
        "values": attacks.share_of_values(attacks.words_as_values(training, own), table.X[mine]),
        "members": attacks.guess_from_few(attacks.words_of_rows(prediction, len(X)), members),
    }
    return [
        local,
        xgboost_on(table, every, whole, "XGBoost, pooled"),
        virtual_samples(table),
        fedxgbllr(table),
        Run(**{**asdict(secret), "found": secret_found}),
    ]
