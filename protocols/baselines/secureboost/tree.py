"""Grow one tree, level by level, at the guest: the owner of every split, and the weight of every leaf.

Messages   per level, with every host that may split: the level's sample sets, the sums of the requested nodes (from the
           host), the splits that the host won, and which rows go left there (from the host)
Security   hosts see the sample sets of nodes above the leaves; the guest sees every bucket's sums of g and h
Source     Cheng et al., SecureBoost, IEEE Intelligent Systems 2021 (arXiv 1901.08755), algorithms 1 and 2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from protocols.baselines.secureboost.answers import refuse
from protocols.baselines.secureboost.config import SecureBoostConfig
from protocols.baselines.secureboost.encoding import Derivatives
from protocols.baselines.secureboost.owners import Owner, node_sums, rows_of_nodes
from protocols.baselines.secureboost.siblings import Siblings
from protocols.baselines.secureboost.split import NodeSplits, best_splits, leaf_weights

LEAF = -1


@dataclass(frozen=True)
class Tree:
    """A full binary tree, nodes in heap order: children of i are 2i + 1 and 2i + 2.

    owner int64, LEAF if a node is not split; record int64, the split's place at its owner; weight float64 of a leaf.
    """

    owner: np.ndarray
    record: np.ndarray
    weight: np.ndarray


def grow_tree(
    config: SecureBoostConfig, owners: list[Owner], guest_only_levels: int, derivatives: Derivatives
) -> tuple[Tree, np.ndarray]:
    """Grow a tree; return it and the leaf of every row, int64[n]. Above `guest_only_levels` only owner 0 may split."""
    size = (2 << config.max_depth) - 1
    owner, record = np.full(size, LEAF), np.zeros(size, np.int64)
    values = np.stack([derivatives.g, derivatives.h], axis=1)
    position = np.zeros(len(values), np.int64)
    frontier = np.array([0], np.int16)
    caches = [_Histograms(each, config.siblings == "guest") for each in owners]
    for depth in range(config.max_depth):
        if not frontier.size:
            break
        allowed = caches[:1] if depth < guest_only_levels else caches
        assignment = np.where(np.isin(position, frontier), position, LEAF).astype(np.int16)
        winner, splits = _search(config, allowed, assignment, frontier, node_sums(position, size, values), derivatives)
        for o, each in enumerate(owners):
            won = np.flatnonzero(winner == o)
            if won.size:
                s = splits[o]
                nodes = frontier[won]
                places, left = each.split(assignment, nodes, s.feature[won], s.bin[won], s.missing_left[won])
                rows, place = rows_of_nodes(assignment, nodes)
                wrong = np.abs(node_sums(place[left], len(nodes), values[rows[left]]) - s.left[won])
                if wrong.max() > each.most_noise:
                    refuse(each.name, "routes that agree with its sums", "other routes")
                owner[nodes], record[nodes] = o, places
                position[rows] = 2 * position[rows] + np.where(left, 1, 2)
        divided = frontier[winner != LEAF].astype(np.int64)
        frontier = np.stack([2 * divided + 1, 2 * divided + 2], axis=1).ravel().astype(np.int16)
    weight = leaf_weights(config, node_sums(position, size, values), derivatives)
    return Tree(owner, record, weight), position


def _search(
    config: SecureBoostConfig,
    caches: list[_Histograms],
    assignment: np.ndarray,
    frontier: np.ndarray,
    totals: np.ndarray,
    derivatives: Derivatives,
) -> tuple[np.ndarray, list[NodeSplits]]:
    """Return the owner of the best split of every frontier node, LEAF for none, and each owner's best splits."""
    # Hosts first: they work while the guest sums its own columns.
    for cache in reversed(caches):
        cache.ask(assignment, frontier)
    splits = [best_splits(config, c.collect(), totals[frontier], derivatives, c.owner.deviation) for c in caches]
    gains = np.stack([s.gain for s in splits])
    best = gains.argmax(axis=0)
    return np.where(np.isfinite(gains.max(axis=0)), best, LEAF), splits


class _Histograms:
    """An owner's histograms, level by level."""

    def __init__(self, owner: Owner, subtract: bool) -> None:
        self.owner = owner
        self._siblings: Siblings[np.ndarray] = Siblings(np.subtract if subtract else None)

    def ask(self, assignment: np.ndarray, frontier: np.ndarray) -> None:
        self._frontier = frontier
        self._asked = self._siblings.to_sum(assignment, frontier)
        self.owner.ask(assignment, self._asked)

    def collect(self) -> np.ndarray:
        summed = dict(zip(self._asked.tolist(), self.owner.histograms(), strict=True))
        return np.stack(self._siblings.complete(self._frontier, summed))
