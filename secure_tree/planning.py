"""What a training will ask of the network and of the dealer, from public sizes alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from mpc.correlation import Kind
from mpc.tracing import Trace
from secure_tree.binning import Bins
from secure_tree.boost import boost_once, finish, first_margin, set_up
from secure_tree.config import TrainConfig
from secure_tree.layout import Facts, lay_out
from secure_tree.schema import Table, held_count
from secure_tree.training import sampled_rounds
from secure_tree.validation import set_up_validation


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
    """Set-up, every round of trees, every judgement of held-out rows, and the finished model. Raises RangeError,
    ConfigError.

    For data by rows, without weights; `rows` include those that are held out. The label scale of a regression is taken
    as 1; rounds and bytes do not depend on it. Early stopping may need less.
    """
    config.check_trained()
    names = tuple(f"f{i}" for i in range(features))
    held = held_count(config, rows[0]), held_count(config, rows[1])
    layout = lay_out(config, (names, names), (rows[0] - held[0], rows[1] - held[1]))
    facts = Facts("", names, layout, 1.0, held=held)
    grid = np.zeros((features, layout.sizes[0]), np.float32)
    grown_on, judged_by = (Table(np.zeros((n, features), np.float32), names) for n in (layout.rows[0], held[0]))
    bins = Bins(grid, grid, np.zeros(grown_on.features.shape, np.uint16))
    trace = Trace.at(0)
    party = trace.party
    party.comparison = config.comparison
    demands: list[Demand] = []

    def record(step: str, times: int = 1) -> None:
        total = party.meter.total
        rounds = total.rounds - sum(d.rounds for d in demands)
        sent = total.sent // 8 - sum(d.sent for d in demands)
        received = total.received // 8 - sum(d.received for d in demands)
        demands.append(Demand(step, trace.cut(), rounds, sent, received, times))

    ground, edges = party.run(set_up(party, config, facts, bins, grown_on))
    validation = party.run(set_up_validation(party, config, facts, bins, judged_by)) if any(held) else None
    record("set-up")
    for _, alike in groupby(sampled_rounds(config, facts), key=lambda samples: [len(s) for s in samples]):
        samples, *others = alike
        trees, _, _ = party.run(boost_once(party, ground, first_margin(party, config, facts), samples))
        record("one round of trees", 1 + len(others))
    whole, rest = divmod(config.n_estimators, config.eval_epochs)
    for count, times in ((config.eval_epochs, whole), (rest, 1)):
        if validation and count and times:
            validation.measure(party, trees * count, 0)
            record(f"{count} rounds judged", times)
    party.run(finish(party, ground, edges, trees * config.n_estimators))
    record("finish")
    return demands
