"""What a training will ask of the network and of the dealer, from public sizes alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from mpc.correlation import Correlation
from mpc.errors import ConfigError
from mpc.tracing import Trace
from secure_tree.base_score import settle
from secure_tree.boost import boost_once, finish, first_margin, set_up
from secure_tree.categories import is_indicator
from secure_tree.config import TrainConfig
from secure_tree.edges import cut_bins
from secure_tree.layout import Facts, lay_out
from secure_tree.public import ceil_log2
from secure_tree.schema import Table, held_count
from secure_tree.session import check_bins, check_declared, check_held
from secure_tree.training import sampled_rounds
from secure_tree.validation import set_up_validation


@dataclass(frozen=True)
class Demand:
    """One step of a training as party 0 sees it: its requests, rounds, payload bytes out and in; done `times` times."""

    step: str
    kinds: list[Correlation]
    rounds: int
    sent: int
    received: int
    times: int = 1


@dataclass(frozen=True)
class Sizes:
    """What is public of both tables: rows, names of features, rows of their own to judge by (None: `test_size`).

    `largest_weight` is None where no row has a weight. A name with a = in it is an indicator's.
    """

    rows: tuple[int, int]
    names: tuple[tuple[str, ...], tuple[str, ...]]
    held: tuple[int, int] | None = None
    largest_weight: float | None = None

    @classmethod
    def numeric(cls, rows: tuple[int, int], features: int) -> Sizes:
        """Tables by rows with so many numeric features."""
        names = tuple(f"f{i}" for i in range(features))
        return cls(rows, (names, names))

    def facts(self, config: TrainConfig) -> Facts:
        """What the parties of such a training agree on. Raises ConfigError for sizes that contradict each other."""
        config.check_trainable()
        rows, held, names = self.rows, self.held, self.names
        if held is None:
            held = held_count(config, rows[0]), held_count(config, rows[1])
            rows = rows[0] - held[0], rows[1] - held[1]
        vertical = config.partition == "vertical"
        if vertical and (rows[0] != rows[1] or held[0] != held[1]):
            raise ConfigError("by columns both parties have the same number of rows")
        if not vertical and names[0] != names[1]:
            raise ConfigError("by rows both parties have the same features")
        check_declared(config, names)
        check_held(held)
        every = names[0] + names[1] if vertical else names[0]
        weight_scale = None if self.largest_weight is None else math.ldexp(1.0, ceil_log2(self.largest_weight))
        masses = None if weight_scale is None else (float(rows[0]), 0.0 if vertical else float(rows[1]))
        indicators = tuple(f for f, name in enumerate(every) if is_indicator(name))
        layout = lay_out(config, names, rows)
        check_bins(layout)
        weighing = weight_scale, masses, 1.0, 0 if vertical else None
        return Facts("", every, layout, 1.0, *weighing, held, indicators, config.counts)


def plan_training(config: TrainConfig, sizes: Sizes) -> list[Demand]:
    """Set-up, every round of trees, every judgement of held-out rows, and the finished model. Raises RangeError.

    The label scale of a regression is taken as 1; rounds and bytes do not depend on it. Early stopping may need less;
    with `colsample_bytree` the coin may draw features of more or fewer candidates, where some are indicators or may be
    missing.
    """
    facts = sizes.facts(config)
    layout, held, names = facts.layout, facts.held, sizes.names[0]
    features = len(names)
    grown_on, judged_by = (Table(np.zeros((n, features), np.float32), names) for n in (layout.rows[0], held[0]))
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

    bins = cut_bins(party, config, facts, grown_on)
    facts, base = settle(party, config, facts, grown_on, judged_by)
    facts = replace(facts, label_scale=1.0)
    ground, edges = party.run(set_up(party, config, facts, bins, grown_on))
    validation = party.run(set_up_validation(party, config, facts, base, bins, judged_by)) if any(held) else None
    record("set-up")
    margin = first_margin(base, facts, layout.row_count)
    for _, alike in groupby(sampled_rounds(config, facts), key=lambda samples: [len(s) for s in samples]):
        samples, *others = alike
        trees, _, _ = party.run(boost_once(party, ground, margin, samples))
        record("one round of trees", 1 + len(others))
    whole, rest = divmod(config.n_estimators, config.eval_epochs)
    for count, times in ((config.eval_epochs, whole), (rest, 1)):
        if validation and count and times:
            validation.measure(party, trees * count, 0)
            record(f"{count} rounds judged", times)
    party.run(finish(party, ground, edges, trees * config.n_estimators, base))
    record("finish")
    return demands
