"""A training from agreed facts to the finished ensemble: set-up, the plan of correlated randomness, the trees."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import numpy as np

from mpc.linear_map import SharedMatrix
from mpc.party import Party
from mpc.shares import AShare
from mpc.tracing import Trace
from secure_tree.binning import Bins
from secure_tree.boost import Ensemble, boost_once, finish, first_margin, set_up
from secure_tree.config import TrainConfig
from secure_tree.layout import Facts
from secure_tree.sampling import column_samples
from secure_tree.schema import Table
from secure_tree.tree import Ground, TreeShares
from secure_tree.validation import Validation, set_up_validation

# Called after each tree with its number, its shares, the shares of (g, h) it was grown on, and of the new margin.
Observer = Callable[[int, TreeShares, AShare, AShare], None]


def train(
    party: Party,
    config: TrainConfig,
    facts: Facts,
    table: Table,
    held: Table,
    bins: Bins,
    observer: Observer | None = None,
) -> tuple[Ensemble, list[tuple[int, float]]]:
    """Grow the trees -> the ensemble, and what was revealed of the held-out rows: (rounds, metric).

    Held-out rows are judged after each `eval_epochs` rounds and at the end. With early stopping, training ends once the
    best of these numbers is `early_stopping_rounds` old, and the trees after the best are dropped.
    Stages of the meter: setup, offline, online. Without held-out rows all correlated randomness comes before the first
    round, else it comes for the rounds up to the next judgement.
    """
    every = column_samples(config, facts)
    rounds = [every[i : i + config.classes] for i in range(0, len(every), config.classes)]
    judged = any(facts.held)

    def begin(party: Party) -> tuple[Ground, list[SharedMatrix], Validation | None]:
        ground, edges = party.run(set_up(party, config, facts, bins, table))
        return ground, edges, party.run(set_up_validation(party, config, facts, bins, held)) if judged else None

    with party.stage("setup"):
        trace = Trace(party)
        like_ground, like_edges, like_validation = begin(trace.party)
        party.randomness.provide([(trace.cut(), 1)])
        ground, edges, validation = begin(party)
    margin = first_margin(party, config, facts)
    trees: list[TreeShares] = []
    curve: list[tuple[int, float]] = []
    step = config.eval_epochs if judged else len(rounds)
    for start in range(0, len(rounds), step):
        segment = rounds[start : start + step]
        with party.stage("offline"):
            plan, like_trees = _plan(trace, like_ground, segment, first_margin(trace.party, config, facts))
            if like_validation:
                like_validation.measure(trace.party, like_trees * len(segment), 0)
            plan.append((trace.cut(), 1))
            if start + step >= len(rounds) and not config.early_stopping_rounds:
                plan.append(_plan_finish(trace, like_ground, like_edges, like_trees * len(rounds)))
            party.randomness.provide(plan)
        with party.stage("online"):
            for samples in segment:
                grown, margin, values = party.run(boost_once(party, ground, margin, samples))
                for k, tree in enumerate(grown):
                    if observer:
                        observer(len(trees), tree, values[k], margin[k])
                    trees.append(tree)
            if validation:
                count = start + len(segment)
                curve.append((count, validation.measure(party, trees[start * config.classes :], count)))
        if config.early_stopping_rounds and start + len(segment) - _best(curve, config) >= config.early_stopping_rounds:
            break
    if config.early_stopping_rounds:
        trees = trees[: _best(curve, config) * config.classes]
        with party.stage("offline"):
            kept = like_trees * (len(trees) // config.classes)
            party.randomness.provide([_plan_finish(trace, like_ground, like_edges, kept)])
    with party.stage("online"):
        ensemble = party.run(finish(party, ground, edges, trees))
    for matrix in [*(m for b in ground.blocks for m in (b.columns, b.lines)), *edges]:
        matrix.release(party)
    return ensemble, curve


def _plan(trace: Trace, like_ground: Ground, rounds: list[list[np.ndarray]], margin: AShare) -> tuple[list, list]:
    """What the rounds ask for, and the trees of one round as the trace sees them."""
    plan = []
    # The demand of a round depends on the sizes of its samples alone.
    for _, alike in groupby(rounds, key=lambda samples: [len(s) for s in samples]):
        samples, *others = alike
        trees, _, _ = trace.party.run(boost_once(trace.party, like_ground, margin, samples))
        plan.append((trace.cut(), 1 + len(others)))
    return plan, trees


def _plan_finish(trace: Trace, like_ground: Ground, like_edges: list[SharedMatrix], trees: list) -> tuple[list, int]:
    """What finishing this many trees asks for."""
    trace.party.run(finish(trace.party, like_ground, like_edges, trees))
    return trace.cut(), 1


def _best(curve: list[tuple[int, float]], config: TrainConfig) -> int:
    """Rounds at the best number so far; the earliest of equals."""
    sign = -1 if config.metric == "auc" else 1
    return min(curve, key=lambda point: sign * point[1])[0]
