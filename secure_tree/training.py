"""A training from agreed facts to the finished ensemble: set-up, the plan of correlated randomness, the trees."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from mpc.party import Party
from mpc.shares import AShare
from mpc.tracing import Trace
from secure_tree.binning import Bins
from secure_tree.boost import Ensemble, boost_once, finish, first_margin, set_up
from secure_tree.config import TrainConfig
from secure_tree.layout import Facts
from secure_tree.sampling import column_samples
from secure_tree.schema import Table
from secure_tree.tree import TreeShares

# Called after each tree with its number, its shares, the shares of (g, h) it was grown on, and of the new margin.
Observer = Callable[[int, TreeShares, AShare, AShare], None]


def train(
    party: Party, config: TrainConfig, facts: Facts, table: Table, bins: Bins, observer: Observer | None = None
) -> Ensemble:
    """Grow all trees. Stages of the meter: setup, offline, online."""
    every = column_samples(config, facts)
    rounds = [every[i : i + config.classes] for i in range(0, len(every), config.classes)]
    with party.stage("setup"):
        trace = Trace(party)
        like_ground, like_edges = trace.party.run(set_up(trace.party, config, facts, bins, table))
        party.randomness.provide([(trace.cut(), 1)])
        ground, edges = party.run(set_up(party, config, facts, bins, table))
    with party.stage("offline"):
        start = first_margin(trace.party, config, facts)
        plan = []
        # What a round asks for depends on the sizes of its samples alone.
        for _, alike in groupby(rounds, key=lambda samples: [len(s) for s in samples]):
            samples, *others = alike
            trees, _, _ = trace.party.run(boost_once(trace.party, like_ground, start, samples))
            plan.append((trace.cut(), 1 + len(others)))
        trace.party.run(finish(trace.party, like_ground, like_edges, trees * config.n_estimators))
        party.randomness.provide([*plan, (trace.cut(), 1)])
    with party.stage("online"):
        margin = first_margin(party, config, facts)
        trees = []
        for samples in rounds:
            grown, margin, values = party.run(boost_once(party, ground, margin, samples))
            for k, tree in enumerate(grown):
                if observer:
                    observer(len(trees), tree, values[k], margin[k])
                trees.append(tree)
        ensemble = party.run(finish(party, ground, edges, trees))
    for matrix in [*(m for b in ground.blocks for m in (b.columns, b.lines)), *edges]:
        matrix.release(party)
    return ensemble
