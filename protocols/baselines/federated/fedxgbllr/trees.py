"""Local XGBoost ensembles in a format of our own, and the output of each tree for a row.

Bytes     int32 T, and d, the number of features; the number of nodes of each tree, int32[T]; of all nodes, tree by tree
          and breadth first, the feature, int32, -1 in a leaf; of all nodes, float32, the threshold or the weight of a
          leaf. Little-endian
Links     none: in breadth-first order, the children of a tree's k-th inner node are its nodes 2k + 1 and 2k + 2
Why       XGBoost's loader trusts its input, and crashes on one wrong byte; its models also have the number of rows
          behind every node. Received bytes are parsed here, with every number checked, and never reach XGBoost
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mpc.errors import ProtocolDesync
from protocols.baselines.federated.fedxgbllr.config import DEEPEST, MOST_TREES, FedXGBllrConfig

_MOST_NODES = (2 << DEEPEST) - 1
_ROWS_AT_ONCE = 1024
# The base scores of margin 0.
_BASE_SCORES = {"binary:logistic": 0.5, "reg:squarederror": 0.0, "count:poisson": 1.0}


@dataclass(frozen=True)
class CheckedTrees:
    """T checked trees. Nodes are numbered across all trees; a leaf is its own left child, with threshold infinity.

    root int64[T]; left int64[N]; column int64[N]; threshold float32[N]; weight float32[N]
    """

    features: int
    root: np.ndarray
    left: np.ndarray
    column: np.ndarray
    threshold: np.ndarray
    weight: np.ndarray

    @classmethod
    def read(cls, data: bytes, features: int | None = None) -> Self:
        """Parse an ensemble for rows of `features` features, None for any number. Raises ProtocolDesync."""
        width, nodes, feature, value = _parts(data)
        if features not in (None, width):
            raise ProtocolDesync(f"an ensemble must be for {features} features, got {width}")
        if feature.min() < -1 or feature.max() >= width:
            raise ProtocolDesync(f"an ensemble must split on its {width} features only")
        if not np.isfinite(value).all():
            raise ProtocolDesync("an ensemble's thresholds and weights must be finite")
        root = np.cumsum(nodes) - nodes
        inner = feature >= 0
        here = np.arange(len(feature))
        before: np.ndarray = np.cumsum(inner) - inner
        ordinal: np.ndarray = before - np.repeat(before[root], nodes)
        left = np.where(inner, np.repeat(root, nodes) + 2 * ordinal + 1, here)
        if (np.add.reduceat(inner, root, dtype=np.int64) * 2 + 1 != nodes).any() or (left[inner] <= here[inner]).any():
            raise ProtocolDesync("an ensemble's nodes must form binary trees")
        threshold = np.where(inner, value, np.float32(np.inf))
        ensemble = cls(width, root, left, np.maximum(feature, 0).astype(np.int64), threshold, value)
        if ensemble.depth() > DEEPEST:
            raise ProtocolDesync(f"an ensemble's trees must not be deeper than {DEEPEST}")
        return ensemble

    def __len__(self) -> int:
        return len(self.root)

    def depth(self) -> int:
        """Return the levels below the deepest tree's root, at most DEEPEST + 1."""
        level, here = 0, self.root
        while level <= DEEPEST and (here := here[self.left[here] != here]).size:
            level, here = level + 1, np.concatenate([self.left[here], self.left[here] + 1])
        return level

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """float32[n, d] -> float32[n, T]: the leaf weight eta f_t(x) of every tree."""
        out, levels = np.empty((len(X), len(self)), np.float32), range(self.depth())
        for start in range(0, len(X), _ROWS_AT_ONCE):
            some = X[start : start + _ROWS_AT_ONCE]
            rows, at = np.arange(len(some))[:, None], np.tile(self.root, (len(some), 1))
            for _ in levels:
                at = self.left[at] + (some[rows, self.column[at]] >= self.threshold[at])
            out[start : start + len(some)] = self.weight[at]
        return out


def fit_ensemble(X: np.ndarray, y: np.ndarray, trees: int, config: FedXGBllrConfig, scale: float = 1.0) -> bytes:
    """Train one client's ensemble on float32[n, d] and float[n] labels, in units of `scale`; return its bytes."""
    return encode(fit_booster(X, y, trees, config, scale))


def fit_booster(X: np.ndarray, y: np.ndarray, trees: int, config: FedXGBllrConfig, scale: float = 1.0) -> Any:
    """Train one client's ensemble; return XGBoost's booster.

    The base margin is zero, so the sum of the trees is the whole prediction. For reg:squarederror, the labels must
    already be standardised: divided by `scale`.
    """
    import xgboost as xgb

    return xgb.train(booster_parameters(config, scale), xgb.DMatrix(X, label=y, nthread=1), trees)


def booster_parameters(config: FedXGBllrConfig, scale: float = 1.0) -> dict[str, Any]:
    """Return the configuration as XGBoost's parameters, for labels that were divided by `scale`.

    Under squared error this divides g by `scale` and the gain of a split by its square, and so these penalties: the
    trees are those of labels in their own unit.
    """
    return {
        "objective": config.objective,
        "max_depth": config.max_depth,
        "eta": config.eta,
        "alpha": config.reg_alpha / scale,
        "gamma": config.min_split_loss / scale**2,
        "subsample": config.subsample,
        "base_score": _BASE_SCORES[config.objective],
        "seed": config.seed,
        "nthread": 1,
    }


def encode(booster: Any) -> bytes:
    """Encode the splits and leaf weights of our own booster, and nothing else."""
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    features, values = [], []
    for tree in trees:
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        order, level = [], np.zeros(1, np.int64)
        while level.size:
            order.append(level)
            inner = level[left[level] >= 0]
            level = np.stack([left[inner], right[inner]], axis=1).reshape(-1)
        nodes = np.concatenate(order)
        features.append(np.where(left[nodes] >= 0, np.array(tree["split_indices"])[nodes], -1))
        # XGBoost stores the weight of a leaf in place of its split condition.
        values.append(np.array(tree["split_conditions"], "<f4")[nodes])
    head = np.array([len(trees), booster.num_features(), *map(len, features)], "<i4")
    return b"".join([head.tobytes(), np.concatenate(features).astype("<i4").tobytes(), *(v.tobytes() for v in values)])


def tree_outputs(ensembles: Sequence[bytes], X: np.ndarray) -> np.ndarray:
    """float32[n, d] -> float32[n, sum of trees], ensembles in order.

    Raises ProtocolDesync for bytes that are not an ensemble for tables of this width.
    """
    return np.concatenate([CheckedTrees.read(each, X.shape[1]).outputs(X) for each in ensembles], axis=1)


def _parts(data: bytes) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Return feature count, nodes per tree int64[T], feature int32[N] and value float32[N]. Raises ProtocolDesync."""
    words = np.frombuffer(data[: len(data) // 4 * 4], "<i4")
    trees, width = map(int, words[:2]) if words.size > 2 else (0, 0)
    if not 1 <= trees <= min(MOST_TREES, words.size - 2):
        raise ProtocolDesync(f"an ensemble must have 1 to {MOST_TREES} trees, {len(data)} bytes announce {trees}")
    nodes = words[2 : trees + 2].astype(np.int64)
    if nodes.min() < 1 or nodes.max() > _MOST_NODES:
        raise ProtocolDesync(f"an ensemble's trees must have 1 to {_MOST_NODES} nodes each")
    total, body = int(nodes.sum()), words[trees + 2 :]
    if len(data) != 4 * (2 + trees + 2 * total):
        raise ProtocolDesync(f"an ensemble of {total} nodes in {trees} trees must not have {len(data)} bytes")
    return width, nodes, body[:total], body[total:].view("<f4")
