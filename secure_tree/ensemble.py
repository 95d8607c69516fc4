"""The model as shares: trees as they are grown, and the finished ensemble that prediction, importance and files use.

Trees are full and binary; nodes are numbered from the root level by level, node i's children are 2i + 1 and 2i + 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.shares import AShare, BShare, concatenate, stack
from secure_tree.layout import Layout


@dataclass(frozen=True)
class TreeShares:
    """winner <[nodes, C + 1]> one-hot, sets <[nodes, d_p, bins_p]> that go left, leaves [2^depth].

    gains [nodes]: what the winner gains, whether or not it lasts; covers [2 nodes + 1]: sums of hessians, leaves last.
    """

    winner: BShare
    sets: list[BShare]
    leaves: AShare
    gains: AShare
    covers: AShare


@dataclass(frozen=True)
class Routes:
    """Routing by bins in T trees of m nodes: sets[p] <[T, m, d_p, bins_p]>, features <[T, m, d]>, null <[T, m]>."""

    sets: list[BShare]
    features: BShare
    null: BShare

    @classmethod
    def of(cls, layout: Layout, trees: list[TreeShares]) -> Routes:
        """What the trees' winners and left sets say of routing by bins; local."""
        winners = stack([t.winner for t in trees])
        edges, _ = winning_edges(layout, winners.reshape(-1, layout.candidates))
        bits = np.zeros((len(edges[0]), layout.feature_count), np.uint8)
        for p, x in zip(layout.cutters, edges, strict=True):
            bits[:, layout.features_of(p)] ^= x.parity(axis=2).bits
        features = BShare(bits, winners.rank).reshape(*winners.shape[:2], -1)
        return cls([stack([t.sets[p] for t in trees]) for p in (0, 1)], features, winners[..., -1])


@dataclass(frozen=True)
class NodeStatistics:
    """What training saw at the nodes: gains of the splits [T, m], sums of hessians [T, 2 m + 1], leaves last.

    Each at a scale of its own, over `PublicFacts.statistics_units`; the gain of a null split has no meaning.
    """

    gains: AShare
    covers: AShare


@dataclass(frozen=True)
class Ensemble(Routes):
    """The model as shares: see secure_tree/predict.py for the use of each part.

    thresholds [T, m]; leaves [T, 2^depth] and base [classes], the margin before the first tree, at MARGIN_SCALE over
    the unit of margins; chosen [T, m, d + o]: the feature as a one-hot, then, for the o features that may be missing, 1
    where the node cuts that feature and sends missing values right. A model that was not trained here has no
    `statistics`.
    """

    thresholds: AShare
    chosen: AShare
    leaves: AShare
    base: AShare
    statistics: NodeStatistics | None = None

    def part(self, trees: slice) -> Ensemble:
        """Some of the trees, for prediction; the base belongs to the first."""
        sets = [s[trees] for s in self.sets]
        bits = self.features[trees], self.null[trees]
        base = self.base.map(np.zeros_like) if trees.start else self.base
        return Ensemble(sets, *bits, self.thresholds[trees], self.chosen[trees], self.leaves[trees], base)

    def then(self, more: Ensemble) -> Ensemble:
        """The trees of both, which have the same bins; statistics are those of `more`, if any."""
        sets = [concatenate(pair) for pair in zip(self.sets, more.sets, strict=True)]
        parts = ("features", "null", "thresholds", "chosen", "leaves")
        every = {name: concatenate([getattr(self, name), getattr(more, name)]) for name in parts}
        return Ensemble(sets=sets, **every, base=self.base, statistics=more.statistics)


def left_children(nodes: int) -> np.ndarray:
    """For nodes numbered from the root level by level: 1 where the node is a left child, uint8[nodes]."""
    number = np.arange(nodes)
    return ((number > 0) & (number % 2 == 1)).astype(np.uint8)


def winning_edges(layout: Layout, winner: BShare) -> tuple[list[BShare], BShare]:
    """<one-hot winner> -> for each cutter <its winning edge>, [v, d_p, K_p], and <missing goes left>, [v, d]."""
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
