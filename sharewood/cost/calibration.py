"""Measure the cost of computation on this machine: one round of trees of the planned sizes, on generated rows."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from mpc.host.frames import pd
from mpc.party import Party
from protocols.runtime.local import PARTIES, run_session
from protocols.runtime.settings import FROM_DEALER, Offline
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.public.config import TrainConfig
from secure_tree.public.names import columns_behind
from secure_tree.training.cost import Sizes
from sharewood.warming_up import warm_up

# Rows of either party that take hardly longer to train on than none.
_FEW = 1_000
# Trainings of up to _QUICK rows are run this often: the quickest is the least disturbed by other processes.
_RUNS, _QUICK = 3, 20_000


@dataclass(frozen=True)
class Computing:
    """Seconds of the slower party without network latency: set-up, and one round of trees, offline and online.

    Also the peak memory of the larger party in bytes, and `start`, the extra seconds of a process's first training.
    """

    setup: float
    offline: float
    online: float
    memory: int = 0
    start: float = 0.0


def calibrate(config: TrainConfig, sizes: Sizes, offline: Offline = FROM_DEALER, shards: int = 0) -> Computing:
    """Train on a few rows twice, since the first training of a process takes longer; then measure one round of trees.

    The rows are generated, since the work depends only on sizes. All processes share this machine, and the figures
    include the cost of loopback. With `shards`, workers on Ray have the rows, and memory is that of the larger worker.
    Raises ConfigError if sizes contradict each other, or if Ray is not installed.
    """
    sizes.context(config)
    once = config.model_copy(update={"n_estimators": 1, "test_size": 0.0, "early_stopping_rounds": None})
    kind = SecureXGBClassifier if config.logistic else SecureXGBRegressor
    warm_up(offline.maker, offline.ot)

    more_owners = bool(sizes.owner_rows or sizes.owner_names)

    def job(party: Party) -> dict[str, Any]:
        logging.getLogger("sharewood").setLevel(logging.WARNING)
        n = sizes.rows[party.rank]
        X = _made_up(n, sizes.names[party.rank])
        y = None if config.partition == "vertical" and party.rank else _labels(n, config)
        weights = None if sizes.largest_weight is None or y is None else np.full(n, sizes.largest_weight)

        def seconds(rows: int, **more: Any) -> float:
            began = perf_counter()
            labels, masses = (None if values is None else values[:rows] for values in (y, weights))
            kind(**once.model_dump()).fit(party, X[:rows], labels, masses, **more)
            return perf_counter() - began

        few = min(_FEW, *sizes.rows)
        start = max(0.0, seconds(few) - seconds(few))
        runs = []
        for _ in range(_RUNS if max(sizes.rows) <= _QUICK and not shards and not more_owners else 1):
            party.stages.clear()
            seconds(n, contributed=party.contributed)
            runs.append({name: stage.seconds for name, stage in party.stages.items()})
        return {"start": start, **{name: min(run[name] for run in runs) for name in runs[0]}}

    owners: dict[str, Any] = {
        f"owner_{k}": (_made_up(n, sizes.names[0]), _labels(n, config)) for k, n in enumerate(sizes.owner_rows)
    }
    owners |= {f"owner_{k}": (_made_up(sizes.rows[0], own), None) for k, own in enumerate(sizes.owner_names)}
    outcome = run_session(job, offline=offline, shards=shards, owners=owners)
    setup, ahead, online, start = (
        [outcome[party]["result"][name] for party in PARTIES] for name in ("setup", "offline", "online", "start")
    )
    # One party waits longer for the dealer; the other waits for that party meanwhile, and counts this as online.
    of_rows = [each for party in PARTIES for each in outcome[party].get("workers", [outcome[party]])]
    memory = max(each["memory_peak_bytes"] for each in of_rows)
    return Computing(max(setup), max(ahead), min(online), memory, min(start))


def _labels(rows: int, config: TrainConfig) -> np.ndarray:
    """Return labels that suit the objective."""
    return np.arange(rows) % (config.num_class or 2) + (not config.traits.closed)


def _made_up(rows: int, names: tuple[str, ...]) -> np.ndarray | pd.DataFrame:
    """Return numbers, and categories for names of indicators; an array if the names are those of its columns."""
    behind = columns_behind(names, ())
    numbers = np.arange(rows)
    if names == tuple(f"f{i}" for i in range(len(names))):
        return np.repeat(numbers[:, None] % 97.0, len(names), axis=1)
    return pd.DataFrame(
        {
            name: pd.Categorical.from_codes(numbers % len(categories), categories) if categories else numbers % 97.0
            for name, categories in behind.items()
        },
        pd.RangeIndex(rows),
    )
