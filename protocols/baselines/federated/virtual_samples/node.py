"""One node: its rows, their clusters, and the sums that it sends (algorithm 1)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.host.files import write_bytes
from protocols.baselines.federated.engine import Message, Participant, as_bytes, field
from protocols.baselines.federated.objectives import derivatives, losses, predicted
from protocols.baselines.federated.rows import read_rows, without_missing
from protocols.baselines.federated.secure_sum import Summation
from protocols.baselines.federated.virtual_samples import boundaries
from protocols.baselines.federated.virtual_samples.clusters import (
    assign,
    cluster_sums,
    merge_small_groups,
    smallest_group,
)
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from protocols.baselines.federated.virtual_samples.forest import Forest
from secure_tree.data.inputs import ColumnLike, TableLike
from secure_tree.model.storage import to_npz

KEY_BYTES = 32
_MOST_ROWS = 1 << 40


class VirtualSamplesNode(Participant):
    """Rows X float[n, d] with labels y, 0 or 1 under binary:logistic, and `update` rows, which join if it is wrong.

    The model is wrong about a row if the other class is more probable; in regression, if its error is above the root
    mean squared error of the node's base rows. `group_key`: 32 secret bytes that all nodes have and the server does
    not. `out`: where the node writes the finished model, for `predict`. Raises DataError, ConfigError.
    """

    def __init__(
        self,
        node: int,
        X: TableLike,
        y: ColumnLike,
        config: VirtualSamplesConfig,
        summation: Summation,
        group_key: bytes,
        update: tuple[TableLike, ColumnLike] | None = None,
        out: Path | None = None,
    ) -> None:
        super().__init__()
        if len(group_key) != KEY_BYTES:
            raise ConfigError(f"node {node}: the group key must have {KEY_BYTES} bytes, got {len(group_key)}")
        self._node, self._config, self._summation = node, config, summation
        self._X, self._y, names = read_rows(f"node {node}", X, y, config.objective)
        self._base_rows = rows = len(self._y)
        if rows < 2 * config.min_group > 2:
            raise DataError(
                f"node {node}: min_group must be at most half of the rows, got {config.min_group} for {rows} rows"
            )
        if rows < config.clusters:
            raise DataError(f"node {node}: clusters must be at most the number of its rows, got {config.clusters}")
        if update:
            new_X, new_y, new_names = read_rows(f"node {node}, update", *update, config.objective)
            if new_names != names:
                raise DataError(
                    f"node {node}, update: its feature columns or their order differ from those of the rows"
                )
            self._X, self._y = np.concatenate([self._X, new_X]), np.concatenate([self._y, new_y])
        # The new rows that never join.
        new = rows + np.random.default_rng(node).permutation(len(self._y) - rows)
        self._held = np.sort(new[: int(config.update_check * len(new))])
        # Nodes with different columns have different masks, so the agreement fails before a wrong column counts.
        self._mask_key = hashlib.sha256(group_key + "\n".join(names).encode()).digest()
        self._out = out

    @property
    def steps(self) -> dict[str, Callable[[Message], Message]]:
        return {
            "rank": self._rank,
            "prior": self._prior,
            "sums": self._sums,
            "check": self._check,
            "finish": self._finish,
        }

    def _rank(self, message: Message) -> Message:
        """Run one round of the agreement on boundaries."""
        number, new = int(field(message, "round", np.int64, ())), bool(field(message, "new", np.bool_, ()))
        X = self._X[self._base_rows :] if new else self._X[: self._base_rows]
        d, edges = self._X.shape[1], self._config.clusters - 1
        if number == 0:
            nonce = secrets.token_bytes(boundaries.NONCE_BYTES)
            self.memory["nonce"] = as_bytes(nonce)
            own = np.array([len(X)], np.uint64)
            return {"nonce": self.memory["nonce"], "masked": own + self._mask(nonce, 0, 1)}
        if number == 1:
            self.memory["nonces"] = field(message, "nonces", np.uint8, (-1, boundaries.NONCE_BYTES))
            self.memory["rows"] = self._unmask(message, 0, 1)
            # Under a different key, a count opens to a random word.
            if not len(X) <= int(self.memory["rows"][0]) < _MOST_ROWS:
                raise DataError(
                    f"node {self._node}: the nodes' group keys differ, or their columns or the order of these"
                )
            if not self.memory["rows"][0]:
                raise DataError("no node has rows for the update: update_boundaries must be 'base'")
            self.memory["prefixes"] = np.zeros((d, edges), np.uint32)
        else:
            totals = self._unmask(message, number - 1, d * edges * boundaries.CANDIDATES).reshape(d, edges, -1)
            ranks = boundaries.target_ranks(int(self._recall("rows")[0]), self._config.clusters)
            self.memory["prefixes"] = boundaries.next_prefixes(self._recall("prefixes"), totals, ranks, number - 2)
        if number == boundaries.DIGITS + 1:
            name = "new_boundaries" if new else "boundaries"
            self.memory[name] = boundaries.values_of_keys(self._recall("prefixes"))
            return {}
        keys = np.sort(boundaries.ordered_keys(X), axis=0)
        counts = boundaries.candidate_counts(keys, self._recall("prefixes"), number - 1).reshape(-1).view(np.uint64)
        return {"masked": counts + self._mask(self._recall("nonce").tobytes(), number, counts.size)}

    def _mask(self, nonce: bytes, number: int, size: int) -> np.ndarray:
        return boundaries.mask(self._mask_key, nonce, number, size)

    def _unmask(self, message: Message, number: int, size: int) -> np.ndarray:
        words = field(message, "total", np.uint64, (size,)).copy()
        for nonce in self._recall("nonces"):
            words -= self._mask(nonce.tobytes(), number, size)
        return words.view(np.int64)

    def _prior(self, message: Message) -> Message:
        """Return the number of rows and the sum of their labels, from which the server computes the base margin."""
        labels = self._y[: self._base_rows]
        return self._summation.conceal(np.array([len(labels), labels.sum()]), "prior")

    def _sums(self, message: Message) -> Message:
        """Return sums of g and h over (tree node, feature, cluster) for one level of the growing tree."""
        margin = self._margin(message)
        d, v, level = self._X.shape[1], self._config.clusters, int(field(message, "level", np.int64, ()))
        growing = Forest.unpack(
            {name: field(message, f"growing_{name}", kind, (1, -1)) for name, kind in _FOREST},
            self._config.max_depth,
            d,
        )
        active = field(message, "active", np.int64, (-1,))
        clusters = self._growing_clusters()
        position = np.full((1 << level + 1) - 1, -1)
        if not ((active >= (1 << level) - 1) & (active < len(position))).all():
            raise ProtocolDesync(f"a tree node asked for is not on level {level}")
        position[active] = np.arange(len(active))
        slot = position[growing.slots(0, clusters)]
        taking = (slot >= 0) & self._takes_part(margin, bool(field(message, "updating", np.bool_, ())))

        g, h = derivatives(self._config.objective, margin[taking], self._y[taking])
        weights = [g, h, np.ones(taking.sum())]
        *sums, counts = cluster_sums(clusters[taking], slot[taking], len(active), v, weights)
        merged, counts = merge_small_groups(np.stack(sums), counts, self._config.min_group)
        smallest = min((n for n in (self.smallest_sent, smallest_group(counts)) if n), default=0)
        self.memory["smallest"] = np.array(smallest)
        return self._summation.conceal(merged.reshape(-1), field(message, "label", np.uint8, (-1,)).tobytes().decode())

    @property
    def smallest_sent(self) -> int:
        """The fewest rows behind any sum that this node has sent so far; 0 before the first."""
        return int(self.memory.get("smallest", np.array(0)))

    def _takes_part(self, margin: np.ndarray, updating: bool) -> np.ndarray:
        """Return which rows the next tree uses, bool[n]: in an update, also the new rows that the model gets wrong."""
        base = np.arange(len(margin)) < self._base_rows
        if not updating:
            return base
        joined = self.memory.get("joined")
        if joined is not None and not self._config.rechoose:
            return base | joined
        wrong = self._wrong(margin) & ~base
        wrong[self._held] = False
        self.memory["joined"] = wrong if joined is None else wrong | joined
        return base | wrong

    def _wrong(self, margin: np.ndarray) -> np.ndarray:
        """Return which rows the model gets wrong, bool[n]."""
        if self._config.objective == "binary:logistic":
            return (margin > 0) != (self._y == 1)
        error = np.abs(predicted(self._config.objective, margin) - self._y)
        return np.asarray(error > np.sqrt(np.mean(error[: self._base_rows] ** 2)))

    def _check(self, message: Message) -> Message:
        """Return the numbers of new rows that joined and that are held out, and the latter's losses after each tree."""
        forest = Forest.unpack(message, self._config.max_depth, self._X.shape[1])
        first = int(field(message, "first", np.int64, ()))
        if not 0 <= first <= len(forest):
            raise ProtocolDesync(f"an update of {len(forest)} trees cannot begin at tree {first}")
        clusters, y = self._clusters()[self._held], self._y[self._held]
        margin = float(field(message, "base", np.float64, ())) + forest[:first].margin(clusters)
        totals = [losses(self._config.objective, margin, y).sum()]
        for tree in range(first, len(forest)):
            margin = margin + forest[tree : tree + 1].margin(clusters)
            totals.append(losses(self._config.objective, margin, y).sum())
        joined = self.memory.get("joined", np.zeros(0)).sum()
        return self._summation.conceal(np.array([joined, len(y), *totals]), "check")

    def _finish(self, message: Message) -> Message:
        """Keep the model, which only a node can apply to values; return the smallest group that this node sent."""
        forest = Forest.unpack(message, self._config.max_depth, self._X.shape[1])
        base = field(message, "base", np.float64, ())
        if self._out is not None:
            kind = np.array(self._config.objective)
            arrays = {"base": base, "boundaries": self._recall("boundaries"), "objective": kind}
            write_bytes(self._out, to_npz(forest.pack() | arrays))
        return {"smallest": np.array(self.smallest_sent)}

    def _margin(self, message: Message) -> np.ndarray:
        """Return every row's margin under the forest of `message`; only trees added since the last call are run."""
        forest = Forest.unpack(message, self._config.max_depth, self._X.shape[1])
        applied = int(self.memory.get("applied", np.array(0)))
        base = float(field(message, "base", np.float64, ()))
        margin = self.memory.get("margin", np.full(len(self._X), base))
        self.memory["margin"] = margin + forest[applied:].margin(self._clusters())
        self.memory["applied"] = np.array(len(forest))
        return self.memory["margin"]

    def _clusters(self) -> np.ndarray:
        if "clusters" not in self.memory:
            self.memory["clusters"] = assign(self._recall("boundaries"), self._X)
        return self.memory["clusters"]

    def _growing_clusters(self) -> np.ndarray:
        """Return the clusters for the growing tree: new rows use their own boundaries, if these are agreed on."""
        if "new_boundaries" not in self.memory:
            return self._clusters()
        if "growing" not in self.memory:
            base = self._clusters()[: self._base_rows]
            new = assign(self._recall("new_boundaries"), self._X[self._base_rows :])
            self.memory["growing"] = np.concatenate([base, new])
        return self.memory["growing"]

    def _recall(self, name: str) -> np.ndarray:
        if name not in self.memory:
            raise ProtocolDesync(f"node {self._node} has no {name}: it missed an earlier step")
        return self.memory[name]


def predict(model: Path, X: np.ndarray) -> np.ndarray:
    """Predict with a node's model file: float32[n, d] -> float64[n], P(1), numbers or expected counts. NaN is missing.

    Raises DataError for an infinite value, and for a file that is not a model of this version.
    """
    with np.load(model, allow_pickle=False) as arrays:
        if absent := {"feature", "threshold", "value", "base", "boundaries", "objective"} - set(arrays.files):
            raise DataError(f"{model} must have {', '.join(sorted(absent))}: it was written by another version")
        forest = Forest(arrays["feature"], arrays["threshold"], arrays["value"])
        margin = float(arrays["base"]) + forest.margin(assign(arrays["boundaries"], without_missing(X)))
        return predicted(str(arrays["objective"]), margin)


_FOREST: list[tuple[str, type]] = [("feature", np.int32), ("threshold", np.int32), ("value", np.float64)]
