"""The rows that trees are grown on. All values per row stay behind these interfaces; only sums leave, as shares.

Boosting uses the interface `Rows`, and a growing tree uses `TreeRows`. `LocalRows` implements them for one process per
party, and `secure_tree.workers.rows` for workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from mpc.arithmetic.bits import and_bits, select
from mpc.arithmetic.fixed_factor import FixedValues, fix_values, select_fixed
from mpc.matrix.interface import Releasable
from mpc.party import Party
from mpc.rings import Z32, Z64, integers
from mpc.rounding.widening import widen
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, S, concatenate, public_bits, stack
from mpc.sharing import rerandomise
from mpc.words import U64
from secure_tree.data.contributed import SharedRows
from secure_tree.data.table import Table
from secure_tree.functions.powers import log_labels
from secure_tree.public.context import TrainingContext
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE, WEIGHT_INPUT_SCALE
from secure_tree.tree import checks
from secure_tree.tree.checks import Landed
from secure_tree.tree.gradients import Targets, gradients, of_every_row, softmax_gradients
from secure_tree.tree.histogram import Block, BlockMasks, histograms, of_blocks, route, take_masks


class TreeRows(Protocol):
    """The rows while a tree grows. Each row is at a secret node of the current level, at first the root."""

    @property
    def gradients(self) -> AShare:
        """The gradients that the tree is grown on, uint32 [s, n]."""

    @property
    def margin(self) -> AShare:
        """The margins of the tree's class, [n] at MARGIN_SCALE."""

    def totals(self, party: Party) -> Steps[AShare]:
        """Enter a level, and return sums of [g, h] or [g, h, 1] of the root or the left children, uint32 [v, s]."""

    def histograms(self, party: Party) -> Steps[list[AShare]]:
        """Return the same sums by bin for both parties, uint32 [v, s, d_p, bins_p]."""

    def route(self, party: Party, sets: list[BShare]) -> Steps[None]:
        """Route the rows to the next level, left if their bin is in `sets`, <[v, d_p, bins_p]> for both parties."""

    def add_leaves(self, party: Party, leaves: AShare) -> Steps[None]:
        """Add the [weight] of its leaf to the margin of each row."""


class Rows(Protocol):
    """The rows of a training, and their margins."""

    @property
    def matrices(self) -> Sequence[Releasable]:
        """The masked matrices that are kept until the training ends."""

    @property
    def margin(self) -> AShare:
        """The margins, [classes, n] at MARGIN_SCALE."""

    def begin(self, party: Party, margin: AShare | None) -> None:
        """Prepare for the first tree. `margin` replaces the first margin if it is given."""

    def keep(self, party: Party) -> None:
        """Complete a round of trees. The margins never return to a state before it."""

    def recover(self, party: Party) -> None:
        """Restore the state at the end of the last complete round after WorkersLost."""

    def first_sums(self, party: Party) -> Steps[list[AShare]]:
        """Return sums by bin of the gradients at the first margin, for each block uint32 [classes, 2, d_p, bins_p].

        They are those of all rows, whatever `subsample` is. The rows must have begun, and columns be split by sets.
        """

    def start_round(self, party: Party) -> Steps[None]:
        """Compute what the trees of a round share: under softmax the gradients of all classes."""

    def start_trees(self, party: Party, k: int) -> Steps[Sequence[TreeRows]]:
        """Compute gradients of class k at the current margin, for each of its trees, with all rows at the root."""


@dataclass
class LocalRows:
    """Implements `Rows` with masked matrices of both parties' bins, targets, and [margin] of each class.

    pairs: under softmax, [g] and [h] of every class at the start of the round. first: the first margin, if columns are
    split by sets.
    """

    context: TrainingContext
    blocks: list[Block]
    targets: Targets
    margins: list[AShare]
    pairs: AShare | None = None
    first: AShare | None = None

    @property
    def margin(self) -> AShare:
        return stack(self.margins)

    def begin(self, party: Party, margin: AShare | None) -> None:
        if margin is not None:
            self.margins = [margin[k] for k in range(len(margin))]

    def keep(self, party: Party) -> None:
        pass

    def recover(self, party: Party) -> None:
        raise AssertionError("these rows have no workers")

    @property
    def matrices(self) -> Sequence[Releasable]:
        return [matrix for block in self.blocks for matrix in (block.columns, block.lines)]

    def first_sums(self, party: Party) -> Steps[list[AShare]]:
        context, margins = self.context, self.first
        assert margins is not None, "columns are split by sets"
        classes, pairs = range(context.config.classes), None
        if context.config.softmax:
            pairs = yield from softmax_gradients(party, context, self.targets, margins)
        of = [None if pairs is None else pairs[k] for k in classes]
        each = (of_every_row(party, context, self.targets, k, margins[k], of[k]) for k in classes)
        values = stack([pair.narrow(Z32) for pair in (yield from parallel(*each))])
        vectors = values.shape[0] * values.shape[1]
        masks = [BlockMasks(b, b.columns.supply(party, vectors)) for b in self.blocks]
        sums = yield from histograms(party, masks, values)
        return of_blocks(masks, sums)

    def start_round(self, party: Party) -> Steps[None]:
        if self.context.config.softmax:
            self.pairs = yield from softmax_gradients(party, self.context, self.targets, self.margin)

    def start_trees(self, party: Party, k: int) -> Steps[list[LocalTreeRows]]:
        config = self.context.config
        pair = None if self.pairs is None else self.pairs[k]
        of_trees = yield from gradients(party, self.context, self.targets, k, self.margins[k], pair)
        siblings, landed = list[LocalTreeRows](), list[Landed]()
        for values in of_trees:
            s, n = values.shape
            masks = take_masks(party, self.blocks, s << config.max_depth - 1, config.nodes)
            at_root = public_bits(np.ones((1, n)), party.rank)
            of_root = values.map(lambda w: w[None])
            siblings.append(LocalTreeRows(self, k, values, masks, at_root, of_root, landed=landed))
        return siblings


@dataclass
class LocalTreeRows:
    """Implements `TreeRows`.

    gradients: uint32 [s, n]. at_node: <row is at node>, [v, n]. values: the gradients at the nodes whose sums are
    needed next, uint32 [v, s, n]. landed: those of the class's trees of the round that an audit has at their leaves.
    """

    rows: LocalRows
    k: int
    gradients: AShare
    masks: list[BlockMasks]
    at_node: BShare
    values: AShare
    fixed: FixedValues | None = None
    landed: list[Landed] = field(default_factory=list)

    @property
    def margin(self) -> AShare:
        return self.rows.margins[self.k]

    def totals(self, party: Party) -> Steps[AShare]:
        if self.fixed is not None:
            self.values = yield from select_fixed.steps(party, self.at_node[0::2], self.fixed)
        return self.values.sum(axis=-1)

    def histograms(self, party: Party) -> Steps[list[AShare]]:
        sums = self._histograms(party)
        # An audit adds up the left leaves as well.
        levels = self.rows.context.config.max_depth - (not party.audit)
        left_nodes = (1 << levels) - 1
        if self.fixed is not None or left_nodes == 0:
            return (yield from sums)
        of_root, self.fixed = yield from parallel(sums, fix_values.steps(party, self.gradients, left_nodes))
        return of_root

    def _histograms(self, party: Party) -> Steps[list[AShare]]:
        sums = yield from histograms(party, self.masks, self.values)
        checks.bins_add_up(party, self.masks, self.values, sums)
        return of_blocks(self.masks, sums)

    def route(self, party: Party, sets: list[BShare]) -> Steps[None]:
        left = yield from route(party, self.masks, sets, self.at_node.shape[1])
        if len(self.at_node) > 1:
            left = yield from and_bits.steps(party, self.at_node, left)
        self.at_node = interleave(left, self.at_node ^ left)

    def add_leaves(self, party: Party, leaves: AShare) -> Steps[None]:
        del self.masks, self.values, self.fixed  # large, and not needed again
        bits = self.rows.context.numerics.leaf_bits
        # A row is at one leaf: the first, unless it moves to another.
        moves = (leaves[1:] - leaves[:1]).map(lambda w: w[:, None])
        others = self.at_node[1:]
        # Whole words need no widening: a round less.
        more = 2 * others.size * (Z64.bits - bits) // 8
        whole = party.randomness.has_dealer and more < party.round_price
        ring = Z64 if whole else integers(U64, bits)
        step = (yield from select.steps(party, others, moves, ring, summed=True)) + leaves[:1]
        if not whole:
            step = yield from widen.steps(party, step, bits)
        before = self.rows.margins[self.k]
        margins = [*self.rows.margins]
        margins[self.k] = before + step
        self.rows.margins = margins
        checks.margins_grow_by_leaves(
            party,
            self.landed,
            Landed(before, leaves, self.at_node),
            self.rows.context.config.num_parallel_tree,
            lambda: self.rows.margins[self.k],
        )


def local_rows(
    party: Party,
    context: TrainingContext,
    blocks: list[Block],
    table: Table,
    base: AShare,
    contributed: SharedRows | None = None,
) -> LocalRows:
    """Return the rows of the training at the first margin. Local."""
    targets = share_targets(party, context, table)
    if contributed:
        labels = with_contributed(context.layout, targets.labels, contributed.targets)
        weights = targets.weights
        if weights is not None:
            weights = with_contributed(context.layout, weights, contributed.row_weights)
        targets = Targets(labels, weights)
    if not context.config.logistic:
        # The first margins are equal in all rows, so without this the shares that `truncate` rounds are not random.
        targets = replace(targets, labels=rerandomise(party, targets.labels))
    first = first_margin(base, context, context.layout.row_count) + offsets_of(party, context, context.layout, table)
    margins = [first[k] for k in range(len(first))]
    return LocalRows(context, blocks, targets, margins, first=first if context.layout.sets else None)


def share_targets(party: Party, context: TrainingContext, table: Table) -> Targets:
    """Share own labels and weights. Local."""
    labels = targets_of(context, table.labels)
    scale = 0 if context.config.logistic else MARGIN_SCALE
    shared = own_rows(party, context.layout, labels, context.config.classes, scale)
    if context.facts.weight_scale is None:
        return Targets(shared, None)
    own = table.weights
    if own is None and table.labels is not None:
        own = np.ones(len(table.labels))
    weights = None if own is None else own[None] / context.facts.weight_scale
    return Targets(shared, own_rows(party, context.layout, weights, 1, WEIGHT_INPUT_SCALE)[0])


def with_contributed(layout: Layout, own: AShare, contributed: AShare | None) -> AShare:
    """Values of the parties' rows, [.., n], and those of block 2 -> values of all rows."""
    assert contributed is not None, "owners have contributed"
    return concatenate([own[..., : layout.rows_of(2).start], contributed], axis=-1)


def targets_of(context: TrainingContext, labels: np.ndarray | None) -> np.ndarray | None:
    """Return the targets of each tree of a round, float64[classes, n]: 0 and 1, labels over the label scale, or with a
    power above 1 their logarithms.
    """
    if labels is None:
        return None
    if context.config.num_class:
        return (labels == np.arange(context.config.num_class)[:, None]).astype(float)
    if context.config.power and context.config.power > 1:
        return log_labels(labels[None], context.numerics.margin_bits)
    return labels[None] / (1.0 if context.config.logistic else context.facts.label_scale)


def own_rows(party: Party, layout: Layout, own: np.ndarray | None, count: int, scale: int = 0) -> AShare:
    """Share a party's own numbers, [count, n_p], rounded, over all rows. The share of the other party is 0 there."""
    words = np.zeros((count, layout.row_count), np.int64)
    if own is not None:
        words[:, layout.rows_of(party.rank)] = np.round(np.ldexp(own, scale))
    return AShare(words.astype(np.uint64), party.rank, scale)


def offsets_of(party: Party, context: TrainingContext, layout: Layout, table: Table) -> AShare | int:
    """Share own offsets of margins, if there are any, [classes, n]. Local."""
    if not context.facts.offsets:
        return 0
    return own_rows(party, layout, table.offsets, context.config.classes, MARGIN_SCALE)


def first_margin(base: AShare, context: TrainingContext, rows: int) -> AShare:
    """Return `Ensemble.base` as the training's margin of every class and row, [classes, n]."""
    start = base - round(context.facts.margin_offset * (1 << MARGIN_SCALE))
    return start.map(lambda w: np.repeat(w[:, None], rows, axis=1))


def interleave(left: S, right: S) -> S:
    """Left and right children, [v, ...] each -> all children in order, [2 v, ...]."""
    return stack([left, right], axis=1).map(lambda w: w.reshape(2 * len(w), *w.shape[2:]))
