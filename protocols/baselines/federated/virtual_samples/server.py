"""The server: sums the nodes' clusters by index, searches splits and keeps a forest of indices.

Functionality  D nodes with rows of the same features -> a forest whose thresholds are cluster indices, base margin
Messages       rank (see `boundaries`); prior: rows and sum of labels; sums, once per level: server -> nodes the forest
               and the growing tree, nodes -> server sums of g and h over (tree node, feature, cluster), in an update
               also of the new rows that the model gets wrong; check: server -> nodes the forest, nodes -> server the
               number of rows that joined and the losses of held-out new rows after each tree of the update; finish:
               server -> nodes the forest, nodes -> server the smallest group sent
Cost           depth rounds per tree; from each node 16 a d v bytes per level of a tree nodes, d features and v
               clusters (plus the overhead of the secure sum)
Security       docs/virtual_samples.md, "What leaks"
Drop-out       each tree uses one set of nodes. With open sums, a tree that loses a node is grown again without it;
               every message includes the forest, so a node that missed rounds is up to date with the next one. With
               secure sums, all sums of a training are over all its nodes, and a node that drops out ends it: a sum
               over fewer nodes, or the same tree without a node, would give that node's own sums by subtraction
Source         Yang, Song, Xu, Li, Tan: The Tradeoff Between Privacy and Accuracy in Anomaly Detection Using Federated
               XGBoost, 2019, algorithms 1 and 2, section 4.2
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mpc.errors import PeerVanished
from protocols.baselines.federated.engine import Federation, Message, as_bytes, field
from protocols.baselines.federated.objectives import prior_margin
from protocols.baselines.federated.secure_sum import Summation
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from protocols.baselines.federated.virtual_samples.forest import Forest
from protocols.baselines.federated.virtual_samples.split import best_splits, leaf_values


class _Fewer(Exception):
    """Some nodes dropped out of a tree; `nodes` are left."""

    def __init__(self, nodes: tuple[int, ...]) -> None:
        super().__init__(nodes)
        self.nodes = nodes


class Server:
    """One training. `forest` and `base_margin` are the model; only the nodes can map its thresholds to values.

    `progress` is called with the number of trees and the forest after each tree.
    """

    def __init__(
        self,
        federation: Federation,
        features: int,
        config: VirtualSamplesConfig,
        summation: Summation,
        progress: Callable[[int, Forest], None] = lambda trees, forest: None,
    ) -> None:
        self.forest = Forest.empty(0, config.max_depth)
        self.base_margin = 0.0
        self._updating = False
        self._federation, self._features, self._config = federation, features, config
        self._summation, self._progress = summation, progress

    def fit(self) -> None:
        """Train the base model, `n_estimators` trees on the base rows. Raises DataError without a prior margin."""
        replies = self._ask(self._federation.clients, "prior", {})
        rows, labels = self._summation.total(self._federation, replies, "prior", 2)
        self.base_margin = prior_margin(self._config.objective, float(rows), float(labels))
        self._boost(self._config.n_estimators)

    def update(self) -> int:
        """Run the sparse federated update, `update_estimators` more trees; return how many new rows were used in any.

        Keeps the first trees that minimise the loss on held-out new rows; all if no rows are held out.
        """
        first, self._updating = len(self.forest), True
        self._boost(self._config.update_estimators)
        replies = self._ask(self._federation.clients, "check", self._model() | {"first": np.array(first)})
        length = 3 + self._config.update_estimators
        joined, held, *losses = self._summation.total(self._federation, replies, "check", length)
        if held:
            self.forest = self.forest[: first + int(np.argmin(losses))]
        return int(joined)

    def finish(self) -> int:
        """Send the nodes the model; return the fewest rows behind any sum that a node sent."""
        replies = self._federation.broadcast("finish", self._model())
        sent = [int(field(reply, "smallest", np.int64, ())) for reply in replies.values()]
        return min((rows for rows in sent if rows), default=0)

    def _boost(self, trees: int) -> None:
        for _ in range(trees):
            self.forest = self.forest + self._grow()
            self._progress(len(self.forest), self.forest)

    def _grow(self) -> Forest:
        """Grow one tree from the sums of one set of nodes; start again without nodes that drop out."""
        nodes = self._federation.clients
        while True:
            try:
                return self._grow_of(nodes)
            except _Fewer as fewer:
                nodes = fewer.nodes

    def _grow_of(self, nodes: tuple[int, ...]) -> Forest:
        """Grow a tree level by level; a slot's value is set when its parent is split."""
        tree = Forest.empty(1, self._config.max_depth)
        active = np.array([0])
        for level in range(self._config.max_depth):
            gradients, hessians = self._level_sums(nodes, tree, level, active)
            splits = best_splits(gradients, hessians, self._config)
            if level == 0:
                root = np.array([gradients[0, 0].sum(), hessians[0, 0].sum()])
                tree.value[0, 0] = leaf_values(root, self._config)
            found = splits.feature >= 0
            parents = active[found]
            tree.feature[0, parents], tree.threshold[0, parents] = splits.feature[found], splits.threshold[found]
            tree.value[0, 2 * parents + 1] = leaf_values(splits.left[found], self._config)
            tree.value[0, 2 * parents + 2] = leaf_values(splits.right[found], self._config)
            active = np.sort(np.r_[2 * parents + 1, 2 * parents + 2])
            if not len(active):
                break
        return tree

    def _level_sums(
        self, nodes: tuple[int, ...], tree: Forest, level: int, active: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        label = f"tree {len(self.forest)} level {level}"
        growing = {f"growing_{name}": array for name, array in tree.pack().items()}
        order = {"level": np.array(level), "active": active.astype(np.int64), "label": as_bytes(label.encode())}
        order["updating"] = np.array(self._updating)
        replies = self._ask(nodes, "sums", self._model() | growing | order)
        if set(replies) != set(nodes):
            raise _Fewer(tuple(replies))
        shape = (2, len(active), self._features, self._config.clusters)
        total = self._summation.total(self._federation, replies, label, math.prod(shape))
        gradients, hessians = total.reshape(shape)
        return gradients, hessians

    def _ask(self, nodes: tuple[int, ...], step: str, message: Message) -> dict[int, Message]:
        """Return the replies of the nodes. Raises PeerVanished if one is missing and the sums are secure."""
        replies = self._federation.ask(step, dict.fromkeys(nodes, message))
        missing = sorted(set(nodes) - set(replies))
        if missing and self._summation.secure:
            raise PeerVanished(
                f"step {step!r}: node {missing[0]} dropped out, and a secure sum without it would give its own figures "
                "by subtraction: start again with all nodes"
            )
        return replies

    def _model(self) -> Message:
        return self.forest.pack() | {"base": np.array(self.base_margin)}
