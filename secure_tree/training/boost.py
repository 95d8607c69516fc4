"""Boosting: set-up, trees, and the finished model. Each step is a protocol that can be planned from public shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mpc.arithmetic.bits import to_ring
from mpc.matrix.interface import Releasable
from mpc.party import Party
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, concatenate, stack
from secure_tree.data.bins import ORDER_BITS, Bins
from secure_tree.data.own_rows import Here, OwnRows, labels_of_owners
from secure_tree.model.ensemble import (
    Ensemble,
    NodeStatistics,
    Routes,
    TreeShares,
    first_of_sets,
    left_children,
    winning_edges,
    winning_features,
)
from secure_tree.public.context import TrainingContext
from secure_tree.setup.continuation import Begun
from secure_tree.training.validation import Validation, share_validation_rows
from secure_tree.tree.candidates import Candidates, Order, compare_edges
from secure_tree.tree.grow import grow
from secure_tree.tree.histogram import share_blocks
from secure_tree.tree.rows import Rows, TreeRows, local_rows
from secure_tree.tree.thresholds import EdgeKeys, factors, right_sets, share_edges
from secure_tree.workers.rows import ShardedRows
from secure_tree.workers.sources import AtWorkers


@dataclass
class Boosting:
    """The state of a training after set-up.

    edges: the keys of the candidates' edges. validation: the held-out rows, if any. before: the model that the training
    continues, if any. orders: for each class, those of the columns that are split by sets, once they are found.
    """

    context: TrainingContext
    rows: Rows
    candidates: Candidates
    edges: EdgeKeys
    base: AShare
    validation: Validation | None
    orders: Sequence[tuple[Order, ...]]
    before: Ensemble | None = None

    @property
    def matrices(self) -> list[Releasable]:
        """The masked matrices that are kept until the training ends."""
        fixed = [*self.candidates.sums, *self.candidates.sets]
        fixed += [operand for of_class in self.orders for order in of_class for operand in (order.sums, order.sets)]
        routers = self.validation.routers if self.validation else []
        return [*self.edges.matrices, *self.rows.matrices, *fixed, *(m for router in routers for m in router.matrices)]


def set_up(
    party: Party, context: TrainingContext, base: AShare, bins: Bins, own: OwnRows, begun: Begun | None = None
) -> Steps[Boosting]:
    """Own rows and bins -> Boosting at the first margin.

    If the training continues a model (`begun`), the held-out rows start at that model's margins.
    """
    layout, joined = context.layout, own.contributed_columns
    candidates, rows, edges = yield from parallel(
        compare_edges(party, bins, layout),
        _rows(party, context, base, bins, own),
        share_edges(party, bins, layout, joined.keys if joined else None),
    )
    held_out = None
    if any(context.facts.validation_rows):
        held_out = yield from share_validation_rows(party, context, base, bins.cuts, own)
        if begun:
            held_out.margin = held_out.margin + begun.added_held_out
    nothing: list[tuple[Order, ...]] = [()] * context.config.classes
    return Boosting(context, rows, candidates, edges, base, held_out, nothing, begun.ensemble if begun else None)


def _rows(party: Party, context: TrainingContext, base: AShare, bins: Bins, own: OwnRows) -> Steps[Rows]:
    if isinstance(own, AtWorkers):
        return ShardedRows(party, context, base, bins, own)
    assert isinstance(own, Here), "rows are here or at workers"
    blocks = yield from share_blocks(party, bins, context.layout, own.contributed or own.contributed_columns)
    return local_rows(party, context, blocks, own.table, base, labels_of_owners(own))


def boost_once(
    party: Party, boosting: Boosting, samples: Sequence[np.ndarray]
) -> Steps[list[tuple[TreeShares, TreeRows]]]:
    """Grow the trees of a round, each from its sample of candidates, and add them to the margins.

    Return every tree with the rows that it was grown on. The trees grow in parallel, in the same rounds of messages,
    those of a class from the same gradients.
    """
    party.part("gradients")
    yield from boosting.rows.start_round(party)
    classes = boosting.context.config.classes
    of_classes = yield from parallel(*(_boost_class(party, boosting, k, samples[k::classes]) for k in range(classes)))
    party.part(None)
    return [tree for alike in zip(*of_classes, strict=True) for tree in alike]


def _boost_class(
    party: Party, boosting: Boosting, k: int, samples: Sequence[np.ndarray]
) -> Steps[list[tuple[TreeShares, TreeRows]]]:
    party.part("gradients")
    started = yield from boosting.rows.start_trees(party, k)
    context, candidates = boosting.context, replace(boosting.candidates, orders=boosting.orders[k])
    grown = yield from parallel(
        *(grow(party, context, rows, candidates, sample) for rows, sample in zip(started, samples, strict=True))
    )
    return list(zip(grown, started, strict=True))


def finish(party: Party, boosting: Boosting, trees: list[TreeShares]) -> Steps[Ensemble]:
    """Trees -> Ensemble: every node's feature as a one-hot, and the key of its threshold. Two rounds for all trees.

    The trees of the model that the training continues come first. A null split compares 0 with a threshold above every
    key if the node is a left child, otherwise with 0.
    """
    layout, m = boosting.context.layout.of_parties, boosting.context.config.nodes
    winners = stack([t.winner for t in trees])
    count = len(trees) * m
    path = Routes.of(layout, trees)
    winning, missing_left = winning_edges(layout, winners.reshape(count, -1))
    statistics, keys = yield from parallel(
        _statistics(party, trees, boosting.before), boosting.edges.of(party, winning)
    )
    features = winning_features(layout, winning)
    missing_right = (features ^ missing_left)[:, list(layout.missing)]
    rights = [right_sets(layout, features, path)] if layout.sets else []
    above_all = path.null.reshape(count).masked(np.tile(left_children(m), len(trees)))
    top = concatenate([keys, above_all.reshape(count, 1)], axis=1)
    threshold_bits, words = yield from parallel(
        to_ring.steps(party, top), to_ring.steps(party, concatenate([features, missing_right, *rights], axis=1))
    )
    thresholds = threshold_bits.times(1 << np.arange(ORDER_BITS + 2)).sum(axis=-1)
    shape, d, o = (len(trees), m), layout.feature_count, len(layout.missing)
    won, right, of_sets, compared = words[:, :d], words[:, d : d + o], words[:, d + o :], None
    if layout.sets:
        compared, moved = factors(layout, won, right, of_sets)
        thresholds = thresholds + moved
        won, right = (x.map(partial(first_of_sets, layout)) for x in (won, right))
    chosen = concatenate([won, right], axis=1)
    ensemble = Ensemble(
        sets=path.sets,
        features=path.features,
        null=path.null,
        thresholds=thresholds.reshape(*shape),
        chosen=chosen.reshape(*shape, -1),
        leaves=stack([t.leaves for t in trees]),
        base=boosting.base,
        statistics=statistics,
        factors=None if compared is None else compared.reshape(*shape, -1),
    )
    return boosting.before.then(ensemble) if boosting.before else ensemble


def _statistics(party: Party, trees: list[TreeShares], before: Ensemble | None) -> Steps[NodeStatistics]:
    """Return gains and covers; the sum of all gains fits at their scale. One round, or two if a model is continued."""
    gains, covers = stack([t.gains for t in trees]), stack([t.covers for t in trees])
    gains = yield from truncate.steps(party, gains, max(1, (gains.size - 1).bit_length()))
    if before is None or before.statistics is None or before.statistics.gains is None:
        return NodeStatistics(gains, covers)
    # One bit less, so that the sum of both models' gains fits.
    gain_scale = min(gains.scale, before.statistics.gains.scale) - 1
    cover_scale = min(covers.scale, before.statistics.covers.scale)
    of_model, of_trees, *all_covers = yield from parallel(
        *(_at_scale(party, x, gain_scale) for x in (before.statistics.gains, gains)),
        *(_at_scale(party, x, cover_scale) for x in (before.statistics.covers, covers)),
    )
    return NodeStatistics(concatenate([of_model, of_trees]), concatenate(list(all_covers)))


def _at_scale(party: Party, x: AShare, scale: int) -> Steps[AShare]:
    """Truncate x to `scale`, which is at most that of x."""
    return x if x.scale == scale else (yield from truncate.steps(party, x, x.scale - scale))
