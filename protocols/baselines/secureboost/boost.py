"""Boosting at the guest over any owners of columns; over the guest's only, it is the plaintext twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpc.errors import ConfigError
from protocols.baselines.secureboost.config import SecureBoostConfig
from protocols.baselines.secureboost.encoding import fixed_point
from protocols.baselines.secureboost.objectives import derivatives, predicted
from protocols.baselines.secureboost.owners import Owner, SplitOwner
from protocols.baselines.secureboost.tree import Tree, grow_tree


@dataclass(frozen=True)
class GuestEnsemble:
    """The guest's part of the trees: the owner of every split, and leaf weights; trees [rounds * classes].

    majority int64[trees, size]: the most frequent training label of each leaf, the smallest in a tie; 0 in regression.
    """

    config: SecureBoostConfig
    classes: int
    trees: list[Tree]
    majority: np.ndarray

    def margins(self, routers: list[SplitOwner], rows: int) -> np.ndarray:
        """Return the margins of the routers' rows, float64[rows, classes]."""
        leaf = self.leaves(routers, rows)
        weights = np.take_along_axis(np.stack([tree.weight for tree in self.trees]), leaf, axis=1)
        return self.config.base_margin + weights.reshape(-1, self.classes, rows).sum(axis=0).T

    def predict(self, routers: list[SplitOwner], rows: int) -> np.ndarray:
        """Return P(1) float64[rows], class probabilities float64[rows, classes], or values float64[rows]."""
        return predicted(self.config, self.margins(routers, rows))

    def majority_label(self, routers: list[SplitOwner], rows: int) -> np.ndarray:
        """Return the label of most trees' leaves, the smallest in a tie, int64[rows]. Raises ConfigError."""
        if not self.config.classifies:
            raise ConfigError("a majority label needs a classification objective")
        votes = np.take_along_axis(self.majority, self.leaves(routers, rows), axis=1)
        return np.stack([(votes == label).sum(axis=0) for label in range(self.majority.max() + 1)]).argmax(axis=0)

    def leaves(self, routers: list[SplitOwner], rows: int) -> np.ndarray:
        """Return the leaf of every row in every tree, int64[trees, rows]: one exchange per level, for all trees."""
        owner = np.stack([tree.owner for tree in self.trees])
        record = np.stack([tree.record for tree in self.trees])
        position = np.zeros((len(self.trees), rows), np.int64)
        for _ in range(self.config.max_depth):
            at = np.take_along_axis(owner, position, axis=1)
            queries = []
            for o, router in enumerate(routers):
                tree, row = np.nonzero(at == o)
                records = record[tree, position[tree, row]]
                order = np.argsort(records, kind="stable")
                queries.append((router, tree[order], row[order]))
                if order.size:
                    router.ask(records[order], row[order])
            for router, tree, row in queries:
                if tree.size:
                    position[tree, row] = 2 * position[tree, row] + np.where(router.left(), 1, 2)
        return position


def boost(
    config: SecureBoostConfig,
    labels: np.ndarray,
    owners: list[Owner],
    progress: Callable[[int, np.ndarray], None] | None = None,
) -> GuestEnsemble:
    """Train on the rows that the owners hold, the guest's columns first; labels float64[n].

    `progress(round, margins)` is called after every round.
    """
    classes = trees_per_round(config, labels)
    margins = np.full((labels.size, classes), config.base_margin)
    rng = np.random.default_rng(config.random_state)
    trees: list[Tree] = []
    majority: list[np.ndarray] = []
    for number in range(config.n_estimators):
        g, h = derivatives(config, margins, labels)
        steps = np.zeros_like(margins)
        for c in range(classes):
            fixed = fixed_point(g[:, c], h[:, c])
            for owner in owners:
                kept = rng.choice(owner.features, config.columns_per_tree(owner.features), replace=False)
                owner.start_tree(fixed, np.sort(kept))
            tree, leaf = grow_tree(config, owners, _guest_only_levels(config, len(trees)), fixed)
            steps[:, c] = tree.weight[leaf]
            trees.append(tree)
            majority.append(_majority(config, labels, leaf, tree.weight.size))
        margins += steps
        if progress:
            progress(number, margins)
    return GuestEnsemble(config, classes, trees, np.stack(majority))


def trees_per_round(config: SecureBoostConfig, labels: np.ndarray) -> int:
    """Return 1, or the number of classes."""
    return int(labels.max()) + 1 if config.objective == "multi:softprob" else 1


def _guest_only_levels(config: SecureBoostConfig, tree: int) -> int:
    if config.guest_only == "first_tree":
        return config.max_depth if tree == 0 else 0
    return 1 if config.guest_only == "root" else 0


def _majority(config: SecureBoostConfig, labels: np.ndarray, leaf: np.ndarray, size: int) -> np.ndarray:
    if not config.classifies:
        return np.zeros(size, np.int64)
    kinds = int(labels.max()) + 1
    return np.bincount(leaf * kinds + labels.astype(np.int64), minlength=size * kinds).reshape(size, kinds).argmax(1)
