"""Compile every kernel of a training, or load it from numba's cache, so that no process or timing includes it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from mpc.endpoint import ROUND_PRICE
from mpc.party import Party
from protocols.offline.dealer.local_dealer import LocalDealer
from protocols.offline.pairwise.client import pairwise
from protocols.ot.correlated import OtKind
from protocols.runtime.settings import Maker
from protocols.transport.memory import memory_pair
from secure_tree import SecureXGBClassifier

# The rows below are generated, and the seeds protect nothing.
_SEEDS = (bytes(16), bytes(range(16)))


def warm_up(offline: Maker = "dealer", ot: OtKind = "ferret") -> None:
    """Train and predict on four generated rows between two threads; takes a few seconds at first, then at most one."""

    def job(rank: int) -> None:
        if offline == "pairwise":
            with pairwise(rank, second[rank], ot) as made:
                work(Party(rank, channels[rank], made, round_price=ROUND_PRICE))
                made.close()
        else:
            work(Party(rank, channels[rank], LocalDealer(rank, _SEEDS), round_price=ROUND_PRICE))

    def work(party: Party) -> None:
        X, y = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1])
        smallest: dict[str, Any] = {"n_estimators": 1, "max_depth": 2, "max_bin": 2, "min_child_weight": 0}
        model = SecureXGBClassifier(**smallest).fit(party, X, y)
        model.predict_margin(party, X)
        model.predict_margin(party, X, "thresholds")

    channels, second = memory_pair(), memory_pair()
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(job, rank) for rank in (0, 1)]:
            future.result()
