"""The model as shares: trees as they are grown, and the finished ensemble for prediction, importance and files.

Trees are full and binary. Nodes are numbered level by level from the root: the children of node i are 2i + 1 and
2i + 2. Only trees that were brought in may have other shapes, which are then shared as paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from mpc.shares import AShare, BShare, concatenate, stack
from secure_tree.public.layout import Layout


@dataclass(frozen=True)
class TreeShares:
    """One tree.

    winner: one-hot <[nodes, C + 1]>. sets: the bins of each block that go left, <[nodes, d_p, bins_p]>. leaves: weights
    [2^depth]. gains: [nodes], that of every winner, whether or not it lasts. covers: sums of hessians, [2 nodes + 1],
    leaves last.
    """

    winner: BShare
    sets: list[BShare]
    leaves: AShare
    gains: AShare
    covers: AShare


@dataclass(frozen=True)
class Routes:
    """Routing by bins in T trees of m nodes: sets[p] <[T, m, d_p, bins_p]>, features <[T, m, d]>, null <[T, m]>.

    features: the feature of each node's split as a one-hot; of a column that is split by sets, its first indicator.
    null: whether the node has the null split.
    """

    sets: list[BShare]
    features: BShare
    null: BShare

    @classmethod
    def of(cls, layout: Layout, trees: list[TreeShares]) -> Routes:
        """Collect the routing of the trees from their winners and left sets. Local."""
        winners = stack([t.winner for t in trees])
        edges, _ = winning_edges(layout, winners.reshape(-1, layout.candidates))
        features = winning_features(layout, edges).map(partial(first_of_sets, layout)).reshape(*winners.shape[:2], -1)
        return cls([stack([t.sets[p] for t in trees]) for p in layout.blocks], features, winners[..., -1])


@dataclass(frozen=True)
class NodeStatistics:
    """Statistics of the training at the nodes: gains of splits [T, m], sums of hessians [T, 2 m + 1], leaves last.

    Each has its own scale, in units of `PublicFacts.statistics_units`. The gain of a null split is meaningless. A model
    that was not trained here has no gains, and sums of hessians in a unit of their own for each tree.
    """

    gains: AShare | None
    covers: AShare


@dataclass(frozen=True)
class Ensemble(Routes):
    """The model as shares. secure_tree/prediction/predict.py shows the use of each part.

    thresholds: order keys, [T, m]. leaves: weights [T, 2^depth], and base: the margin before the first tree, [classes],
    both at MARGIN_SCALE in the unit of margins. chosen: [T, m, d + o], the feature as a one-hot, then for each of the o
    features that may be missing, 1 if the node splits on it and sends missing values right. statistics: None for a
    model that was brought in without any. paths: None for full trees, otherwise those of `PlainModel` modulo 256,
    [T, m + 1, m + 1]. factors: with columns that are split by sets, what each node multiplies the keys of a row by, as
    `chosen` (secure_tree/tree/thresholds.py); None: `chosen`.
    """

    thresholds: AShare
    chosen: AShare
    leaves: AShare
    base: AShare
    statistics: NodeStatistics | None = None
    paths: AShare | None = None
    factors: AShare | None = None

    @property
    def compared(self) -> AShare:
        """What each node multiplies the keys of a row by, to compare the sum with its threshold, [T, m, d + o]."""
        return self.chosen if self.factors is None else self.factors

    def part(self, trees: slice) -> Ensemble:
        """Return some of the trees for prediction. Only the part with the first tree has the base."""
        sets = [s[trees] for s in self.sets]
        bits = self.features[trees], self.null[trees]
        base = self.base.map(np.zeros_like) if trees.start else self.base
        shapes, factors = (None if share is None else share[trees] for share in (self.paths, self.factors))
        return Ensemble(
            sets, *bits, self.thresholds[trees], self.chosen[trees], self.leaves[trees], base, None, shapes, factors
        )

    def then(self, more: Ensemble) -> Ensemble:
        """Append the trees of `more`, which must have the same bins, and statistics of all trees, if any."""
        sets = [concatenate(pair) for pair in zip(self.sets, more.sets, strict=True)]
        parts = ("features", "null", "thresholds", "chosen", "leaves")
        every = {name: concatenate([getattr(self, name), getattr(more, name)]) for name in parts}
        if self.factors is not None and more.factors is not None:
            every["factors"] = concatenate([self.factors, more.factors])
        return Ensemble(sets=sets, **every, base=self.base, statistics=more.statistics)


def left_children(nodes: int) -> np.ndarray:
    """Return 1 for every node that is a left child, otherwise 0, uint8[nodes]."""
    number = np.arange(nodes)
    return ((number > 0) & (number % 2 == 1)).astype(np.uint8)


def winning_features(layout: Layout, edges: list[BShare]) -> BShare:
    """<winning edge> of each cutter, [v, d_p, K_p] -> <the winner's feature>, [v, d]."""
    bits = np.zeros((len(edges[0]), layout.feature_count), np.uint8)
    for p, x in zip(layout.cutters, edges, strict=True):
        bits[:, layout.features_of(p)] ^= x.parity(axis=2).bits
    return BShare(bits, edges[0].rank)


def first_of_sets(layout: Layout, words: np.ndarray) -> np.ndarray:
    """Add up the values of a column's indicators at its first one, and leave 0 at the others, along the last axis.

    The values are bits or words of all features, or of those that may be missing.
    """
    if not layout.sets:
        return words
    add, out = (np.bitwise_xor if words.dtype == np.uint8 else np.add), words.copy()
    of_table = words.shape[-1] == layout.feature_count
    for ends in layout.sets:
        first, end = ends if of_table else np.searchsorted(layout.missing, ends)
        if first < end:
            out[..., first:end] = 0
            out[..., first] = add.reduce(words[..., first:end], axis=-1)
    return out


def winning_edges(layout: Layout, winner: BShare) -> tuple[list[BShare], BShare]:
    """<one-hot winner> -> <winning edge> of each cutter, [v, d_p, K_p], and <missing values go left>, [v, d]."""
    own, copies = layout.split(winner)
    missing = np.zeros((len(winner), layout.feature_count), np.uint8)
    edges = []
    for p in layout.cutters:
        optional = list(layout.optional[p])
        bits = own[p].bits.copy()
        bits[:, optional] ^= copies[p].bits
        edges.append(BShare(bits, winner.rank))
        missing[:, layout.features_of(p)][:, optional] ^= copies[p].parity(axis=2).bits
    return edges, BShare(missing, winner.rank)
