"""A training from agreed facts to the finished ensemble: set-up, the plan of correlated randomness, the trees."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import numpy as np

from mpc.party import Party
from mpc.shares import AShare
from mpc.tracing import Trace
from secure_tree.binning import Bins
from secure_tree.boost import Ensemble, boost_once, finish, first_margin, set_up
from secure_tree.checkpoint import Attempt
from secure_tree.config import TrainConfig
from secure_tree.layout import Facts
from secure_tree.sampling import column_samples
from secure_tree.schema import Table
from secure_tree.thresholds import EdgeKeys
from secure_tree.tree import Ground, TreeShares
from secure_tree.validation import Validation, set_up_validation

# Called after each tree with its number, its shares, the shares of (g, h) it was grown on, and of the new margin.
Observer = Callable[[int, TreeShares, AShare, AShare], None]


def train(
    party: Party,
    config: TrainConfig,
    facts: Facts,
    base: AShare,
    table: Table,
    held: Table,
    bins: Bins,
    observer: Observer | None = None,
    attempt: Attempt | None = None,
) -> tuple[Ensemble, list[tuple[int, float]]]:
    """Grow the trees -> the ensemble, and what was revealed of the held-out rows: (rounds, metric).

    [base] is the margin before the first tree, of `secure_tree.base_score`.

    Held-out rows are judged after each `eval_epochs` rounds and at the end. With early stopping, training ends once the
    best of these numbers is `early_stopping_rounds` old, and the trees after the best are dropped.
    Stages of the meter: setup, offline, online. Without held-out rows all correlated randomness comes before the first
    round, else it comes for the rounds up to the next judgement.
    An `attempt` keeps every round; the rounds that it has already are judged again, not grown again.
    """
    rounds = sampled_rounds(config, facts)
    judged = any(facts.held)

    def begin(party: Party) -> tuple[Ground, EdgeKeys, Validation | None]:
        ground, edges = party.run(set_up(party, config, facts, bins, table))
        return ground, edges, party.run(set_up_validation(party, config, facts, base, bins, held)) if judged else None

    with party.stage("setup"):
        trace = Trace(party)
        like_ground, like_edges, like_validation = begin(trace.party)
        party.randomness.provide([(trace.cut(), 1)])
        ground, edges, validation = begin(party)
    margin = first = first_margin(base, facts, facts.layout.row_count)
    done, trees = 0, list[TreeShares]()
    if attempt and attempt.margin is not None:
        done, trees, margin = attempt.done, list(attempt.trees), attempt.margin
    like_trees = trees[: config.classes]
    curve: list[tuple[int, float]] = []
    step = config.eval_epochs if judged else len(rounds)
    for start in range(0, len(rounds), step):
        segment = rounds[start : start + step]
        count = start + len(segment)
        ahead = segment[max(0, done - start) :]
        with party.stage("offline"):
            plan, planned = _plan(trace, like_ground, ahead, first)
            like_trees = planned or like_trees
            if like_validation:
                like_validation.measure(trace.party, like_trees * len(segment), 0)
            plan.append((trace.cut(), 1))
            if count == len(rounds) and not config.early_stopping_rounds:
                plan.append(_plan_finish(trace, like_ground, like_edges, like_trees * len(rounds), base))
                plan.append(_plan_release(trace, like_ground, like_edges, like_validation))
            party.randomness.provide(plan)
        with party.stage("online"):
            for samples in ahead:
                grown, margin, values = party.run(boost_once(party, ground, margin, samples))
                if attempt:
                    attempt.save(len(trees) // config.classes + 1, grown, margin)
                for k, tree in enumerate(grown):
                    if observer:
                        observer(len(trees), tree, values[k], margin[k])
                    trees.append(tree)
            if validation:
                judged_trees = trees[start * config.classes : count * config.classes]
                curve.append((count, validation.measure(party, judged_trees, count)))
        if config.early_stopping_rounds and count - _best(curve, config) >= config.early_stopping_rounds:
            break
    if config.early_stopping_rounds:
        trees = trees[: _best(curve, config) * config.classes]
        with party.stage("offline"):
            kept = like_trees * (len(trees) // config.classes)
            last = _plan_finish(trace, like_ground, like_edges, kept, base)
            party.randomness.provide([last, _plan_release(trace, like_ground, like_edges, like_validation)])
    with party.stage("online"):
        ensemble = party.run(finish(party, ground, edges, trees, base))
    _release(party, ground, edges, validation)
    return ensemble, curve


def sampled_rounds(config: TrainConfig, facts: Facts) -> list[list[np.ndarray]]:
    """For every round, of each class the sample of candidates."""
    every = column_samples(config, facts)
    return [every[i : i + config.classes] for i in range(0, len(every), config.classes)]


def _plan(trace: Trace, like_ground: Ground, rounds: list[list[np.ndarray]], margin: AShare) -> tuple[list, list]:
    """What the rounds ask for, and the trees of one round, if there is any, as the trace sees them."""
    plan: list = []
    trees: list[TreeShares] = []
    # The demand of a round depends on the sizes of its samples alone.
    for _, alike in groupby(rounds, key=lambda samples: [len(s) for s in samples]):
        samples, *others = alike
        trees, _, _ = trace.party.run(boost_once(trace.party, like_ground, margin, samples))
        plan.append((trace.cut(), 1 + len(others)))
    return plan, trees


def _plan_finish(
    trace: Trace, like_ground: Ground, like_edges: EdgeKeys, trees: list, base: AShare
) -> tuple[list, int]:
    """What finishing this many trees asks for."""
    trace.party.run(finish(trace.party, like_ground, like_edges, trees, base))
    return trace.cut(), 1


def _plan_release(
    trace: Trace, like_ground: Ground, like_edges: EdgeKeys, like_validation: Validation | None
) -> tuple[list, int]:
    """Asked for ahead like everything else: once the last batch is here, a training needs no dealer."""
    _release(trace.party, like_ground, like_edges, like_validation)
    return trace.cut(), 1


def _release(party: Party, ground: Ground, edges: EdgeKeys, validation: Validation | None) -> None:
    """The dealer and the parties forget the masks of what was handed over."""
    for matrix in [*edges.matrices, *(m for b in ground.blocks for m in (b.columns, b.lines))]:
        matrix.release(party)
    for operand in [*ground.candidates.sums, *ground.candidates.sets]:
        operand.release(party)
    for router in validation.routers if validation else []:
        router.release(party)


def _best(curve: list[tuple[int, float]], config: TrainConfig) -> int:
    """Rounds at the best number so far; the earliest of equals."""
    sign = -1 if config.metric == "auc" else 1
    return min(curve, key=lambda point: sign * point[1])[0]
