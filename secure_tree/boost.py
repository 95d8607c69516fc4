"""Boosting: set-up, trees, and the finished model, each a program of rounds that can be planned from shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc.bit_product import to_ring
from mpc.party import Party
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, stack
from mpc.sharing import rerandomise
from mpc.truncation import truncate
from secure_tree.binning import KEY_BITS, Bins
from secure_tree.candidates import compare_edges, winning_edges
from secure_tree.config import TrainConfig
from secure_tree.gradients import gradients
from secure_tree.histogram import hand_over_blocks
from secure_tree.layout import Facts, Layout
from secure_tree.numerics import MARGIN_SCALE, WEIGHT_INPUT_SCALE, Numerics, Size, plan_numerics
from secure_tree.schema import Table
from secure_tree.thresholds import EdgeKeys, hand_over_edges
from secure_tree.tree import Ground, TreeShares, add_leaves, grow, left_children


@dataclass(frozen=True)
class Routes:
    """Routing by bins in T trees of m nodes: sets[p] <[T, m, d_p, bins_p]>, features <[T, m, d]>, null <[T, m]>."""

    sets: list[BShare]
    features: BShare
    null: BShare


@dataclass(frozen=True)
class Worth:
    """What training saw at the nodes: gains of the splits [T, m], sums of hessians [T, 2 m + 1], leaves last.

    Each at a scale of its own, over `Facts.worth_units`; the gain of a null split has no meaning.
    """

    gains: AShare
    covers: AShare


@dataclass(frozen=True)
class Ensemble(Routes):
    """The model as shares: see secure_tree/predict.py for the use of each part.

    thresholds [T, m], leaves [T, 2^depth], base [classes], the margin before the first tree, like leaves over the unit
    of margins; chosen [T, m, d + o]: the feature as a one-hot, then, for the o features that may be missing, 1 where
    the node cuts that feature and sends missing values right. A model that was not trained here has no `worth`.
    """

    thresholds: AShare
    chosen: AShare
    leaves: AShare
    base: AShare
    worth: Worth | None = None

    def part(self, trees: slice) -> Ensemble:
        """Some of the trees, for prediction; the base belongs to the first."""
        sets = [s[trees] for s in self.sets]
        bits = self.features[trees], self.null[trees]
        base = self.base.map(np.zeros_like) if trees.start else self.base
        return Ensemble(sets, *bits, self.thresholds[trees], self.chosen[trees], self.leaves[trees], base)


def set_up(party: Party, config: TrainConfig, facts: Facts, bins: Bins, table: Table) -> Steps:
    """Own table and its bins -> Ground and the keys of edges that `finish` needs."""
    layout = facts.layout
    candidates, blocks, edges = yield from parallel(
        compare_edges(party, bins, layout),
        hand_over_blocks(party, bins, layout),
        hand_over_edges(party, bins, layout),
    )
    labels = own_rows(party, layout, targets(config, facts, table.labels), config.classes)
    if not config.logistic:
        # The first margins are alike in every row: without this there is no coin in the shares that `truncate` rounds.
        labels = rerandomise(party, labels)
    weights = None
    if facts.weight_scale is not None:
        own = table.weights
        if own is None and table.labels is not None:
            own = np.ones(len(table.labels))
        unit = (1 << WEIGHT_INPUT_SCALE) / facts.weight_scale
        weights = own_rows(party, layout, None if own is None else own[None] * unit, 1)[0]
    return Ground(config, scales(config, facts), layout, blocks, candidates, labels, weights), edges


def scales(config: TrainConfig, facts: Facts) -> Numerics:
    """The numerics of a training."""
    layout = facts.layout
    rows = tuple(layout.rows[p] for p in layout.cover)
    masses: tuple[float, ...] | None = facts.masses
    if masses is not None and layout.vertical:
        masses = (sum(masses),)
    return plan_numerics(config, Size(rows, layout.candidates, masses, facts.margin_unit, facts.hessian_unit))


def targets(config: TrainConfig, facts: Facts, labels: np.ndarray | None) -> np.ndarray | None:
    """What each tree of a round is to predict, [classes, n]: 0 or 1, or labels at MARGIN_SCALE over the label scale."""
    if labels is None:
        return None
    if config.num_class:
        return (labels == np.arange(config.num_class)[:, None]).astype(float)
    return labels[None] * (1 if config.logistic else (1 << MARGIN_SCALE) / facts.label_scale)


def own_rows(party: Party, layout: Layout, own: np.ndarray | None, count: int) -> AShare:
    """A party's own numbers, [count, n_p], rounded, as shares for all rows: the other party holds zeros."""
    words = np.zeros((count, layout.row_count), np.int64)
    if own is not None:
        words[:, layout.rows_of(party.rank)] = np.round(own)
    return AShare(words.astype(np.uint64), party.rank)


def given_margin(config: TrainConfig) -> int | None:
    """A given base_score of classes or counts as a margin in units of MARGIN_SCALE; None where it is estimated."""
    if config.squared or config.base_score is None:
        return None
    return round(config.base_margin * (1 << MARGIN_SCALE))


def first_margin(base: AShare, facts: Facts, rows: int) -> AShare:
    """`Ensemble.base` for every class and row as training has it, [classes, n]."""
    start = base - round(facts.margin_offset * (1 << MARGIN_SCALE))
    return start.map(lambda w: np.repeat(w[:, None], rows, axis=1))


def boost_once(party: Party, ground: Ground, margin: AShare, samples: Sequence[np.ndarray]) -> Steps:
    """[margin], [classes, n], and each class's sample of candidates -> (trees, new [margin], the [g, h] they grew on).

    The trees of a round are grown in the same rounds of messages.
    """
    grown = yield from parallel(
        *(_boost_class(party, ground, ground.labels[k], margin[k], sample) for k, sample in enumerate(samples))
    )
    party.part(None)
    trees, steps, values = zip(*grown, strict=True)
    return list(trees), margin + stack(steps), list(values)


def _boost_class(party: Party, ground: Ground, labels: AShare, margin: AShare, sample: np.ndarray) -> Steps:
    party.part("gradients")
    values = yield from gradients(party, ground, labels, margin)
    tree, at_leaf = yield from grow(party, ground, values, sample)
    step = yield from add_leaves(party, at_leaf, tree.leaves)
    return tree, step, values


def routes(layout: Layout, trees: list[TreeShares]) -> Routes:
    """What the trees' winners and left sets say of routing by bins; local."""
    winners = stack([t.winner for t in trees])
    edges, _ = winning_edges(layout, winners.reshape(-1, layout.candidates))
    bits = np.zeros((len(edges[0]), layout.feature_count), np.uint8)
    for p, x in zip(layout.cutters, edges, strict=True):
        bits[:, layout.features_of(p)] ^= x.parity(axis=2).bits
    features = BShare(bits, winners.rank).reshape(*winners.shape[:2], -1)
    return Routes([stack([t.sets[p] for t in trees]) for p in (0, 1)], features, winners[..., -1])


def finish(party: Party, ground: Ground, edges: EdgeKeys, trees: list[TreeShares], base: AShare) -> Steps:
    """Trees -> Ensemble: every node's feature as a one-hot and its threshold's key. Two rounds for all trees.

    A null split compares 0 with a threshold above every key where the node is a left child, else with 0.
    """
    layout, m = ground.layout, ground.config.nodes
    winners = stack([t.winner for t in trees])
    count = len(trees) * m
    path = routes(layout, trees)
    winning, missing_left = winning_edges(layout, winners.reshape(count, -1))
    worth, keys = yield from parallel(_worth(party, ground.numerics, trees), edges.of(party, winning))
    features = path.features.reshape(count, -1)
    missing_right = (features ^ missing_left)[:, list(layout.missing)]
    above_all = path.null.reshape(count).masked(np.tile(left_children(m), len(trees)))
    top = concatenate([keys, above_all.reshape(count, 1)], axis=1)
    threshold_bits, chosen = yield from parallel(
        to_ring.steps(party, top), to_ring.steps(party, concatenate([features, missing_right], axis=1))
    )
    thresholds = threshold_bits.times(1 << np.arange(KEY_BITS + 2)).sum(axis=-1)
    shape = (len(trees), m)
    return Ensemble(
        sets=path.sets,
        features=path.features,
        null=path.null,
        thresholds=thresholds.reshape(*shape),
        chosen=chosen.reshape(*shape, -1),
        leaves=stack([t.leaves for t in trees]),
        base=base,
        worth=worth,
    )


def _worth(party: Party, numerics: Numerics, trees: list[TreeShares]) -> Steps:
    """Differences of keys become gains, at a scale at which the sum of all of them fits. One round."""
    gains, covers = stack([t.gains for t in trees]), stack([t.covers for t in trees])
    shift = max(numerics.rank_bits, (gains.size - 1).bit_length())
    key_scale = numerics.gain_scale + numerics.rank_bits
    loss = round(math.ldexp(numerics.split_loss, key_scale - numerics.histogram_scale - numerics.weight_scale))
    gains = yield from truncate.steps(party, (gains + loss).at_scale(key_scale), shift)
    return Worth(gains, covers.at_scale(numerics.histogram_scale))
