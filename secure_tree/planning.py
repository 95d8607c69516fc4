"""What a training will ask of the network and of the dealer, from public sizes alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.correlation import Kind
from mpc.tracing import Trace
from secure_tree.binning import Bins
from secure_tree.boost import Shape, boost_once, finish, first_margin, set_up
from secure_tree.config import TrainConfig


@dataclass(frozen=True)
class Demand:
    """One step of a training as party 0 sees it: its requests, rounds, payload bytes out and in; done `times` times."""

    step: str
    kinds: list[Kind]
    rounds: int
    sent: int
    received: int
    times: int = 1


def plan_training(config: TrainConfig, rows: tuple[int, int], features: int) -> list[Demand]:
    """Set-up, one tree (as often as there are trees), and the finished model. Raises RangeError.

    The label scale of a regression is taken as 1; rounds and bytes do not depend on it.
    """
    sizes = tuple(n if config.max_bin == "exact" else min(n, config.max_bin) for n in rows)
    shape = Shape(rows, features, (sizes[0], sizes[1]), 1.0)
    grid = np.zeros((features, sizes[0]), np.float32)
    bins = Bins(grid, grid, np.zeros((rows[0], features), np.uint16))
    trace = Trace.at(0)
    party = trace.party
    demands: list[Demand] = []

    def record(step: str, times: int = 1) -> None:
        total = party.meter.total
        rounds = total.rounds - sum(d.rounds for d in demands)
        sent = total.sent // 8 - sum(d.sent for d in demands)
        received = total.received // 8 - sum(d.received for d in demands)
        demands.append(Demand(step, trace.cut(), rounds, sent, received, times))

    ground, edges = party.run(set_up(party, config, shape, bins, np.zeros(rows[0])))
    record("set-up")
    tree, _, _ = party.run(boost_once(party, ground, first_margin(party, config, shape)))
    record("one tree", config.n_estimators)
    party.run(finish(party, ground, edges, [tree] * config.n_estimators))
    record("finish")
    return demands
