"""What computing costs on this machine: one round of trees of the planned sizes, on made-up rows, between processes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.party import Party
from protocols.runtime.session import PARTIES, run_session
from protocols.runtime.warm_up import warm_up
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.config import TrainConfig


@dataclass(frozen=True)
class Computing:
    """Seconds of the slower party without a network to wait for: set-up, and a round of trees offline and online."""

    setup: float
    offline: float
    online: float


def calibrate(config: TrainConfig, rows: tuple[int, int], features: int) -> Computing:
    """Train twice: one round of trees that finds everything cold, then one that is measured.

    The rows are made up, since the work depends on sizes alone. Both parties and the dealer share this machine, and
    what loopback costs is in the figures.
    """
    once = config.model_copy(update={"n_estimators": 1, "test_size": 0.0, "early_stopping_rounds": None})
    kind = SecureXGBClassifier if config.logistic else SecureXGBRegressor
    warm_up(config.comparison)

    def job(party: Party) -> dict[str, Any]:
        logging.getLogger("sharewood").setLevel(logging.WARNING)
        n = rows[party.rank]
        X = (np.arange(n * features, dtype=np.float32) % 97).reshape(n, features)
        y = np.arange(n) % (config.num_class or 2)
        kind(**once.model_dump()).fit(party, X, y)
        party.stages.clear()
        kind(**once.model_dump()).fit(party, X, y)
        return {name: stage.seconds for name, stage in party.stages.items()}

    outcome = run_session(job)
    slower = {name: max(outcome[party]["result"][name] for party in PARTIES) for name in ("setup", "offline", "online")}
    return Computing(**slower)
