"""Split search on cluster sums, at the server (algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from protocols.baselines.federated.objectives import LARGEST_STEP
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig


@dataclass(frozen=True)
class TreeSplits:
    """The best split of each of `a` tree nodes: feature and threshold int32[a]; feature -1 if no split has a gain.

    left, right float64[a, 2]: sums of g and h on the two sides.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray


def best_splits(gradients: np.ndarray, hessians: np.ndarray, config: VirtualSamplesConfig) -> TreeSplits:
    """Sums of g and h, float64[a, d, v] each -> the split of the highest gain, formula (5); the first in a tie.

    A split is not allowed if the hessians of a side sum to less than `min_child_weight`. The totals of a tree node are
    those of its first feature.
    """
    nodes, features, _ = gradients.shape
    best = np.full(nodes, config.min_split_loss)
    feature = np.full(nodes, -1, np.int32)
    threshold = np.zeros(nodes, np.int32)
    left = np.zeros((nodes, 2))
    total = np.stack([gradients[:, 0].sum(axis=-1), hessians[:, 0].sum(axis=-1)], axis=1)
    rows = np.arange(nodes)
    for j in range(features):
        g_left, h_left = np.cumsum(gradients[:, j, :-1], axis=1), np.cumsum(hessians[:, j, :-1], axis=1)
        g_right, h_right = total[:, :1] - g_left, total[:, 1:] - h_left
        gain = 0.5 * (_score(g_left, h_left, config) + _score(g_right, h_right, config))
        gain -= 0.5 * _score(total[:, :1], total[:, 1:], config)
        gain[(h_left < config.min_child_weight) | (h_right < config.min_child_weight)] = -np.inf
        at = gain.argmax(axis=1)
        better = gain[rows, at] > best + 1e-12
        best[better], feature[better], threshold[better] = gain[rows, at][better], j, at[better]
        left[better] = np.stack([g_left[rows, at], h_left[rows, at]], axis=1)[better]
    return TreeSplits(feature, threshold, left, total - left)


def leaf_values(sums: np.ndarray, config: VirtualSamplesConfig) -> np.ndarray:
    """Evaluate formula (6) times the learning rate: float64[..., 2] sums of g and h -> float64[...]."""
    return config.learning_rate * _weights(sums[..., 0], _curvature(sums[..., 1], config), config)


def _weights(g: np.ndarray, curvature: np.ndarray, config: VirtualSamplesConfig) -> np.ndarray:
    weights = -g / curvature
    return np.clip(weights, -LARGEST_STEP, LARGEST_STEP) if config.objective == "count:poisson" else weights


def _curvature(h: np.ndarray, config: VirtualSamplesConfig) -> np.ndarray:
    return np.maximum(h, 0) + config.reg_lambda


def _score(g: np.ndarray, h: np.ndarray, config: VirtualSamplesConfig) -> np.ndarray:
    """Return g^2 / (h + lambda); for counts, the same with the weight limited to the largest step."""
    curvature = _curvature(h, config)
    if config.objective != "count:poisson":
        return g * g / curvature
    weights = _weights(g, curvature, config)
    return -weights * (2 * g + curvature * weights)
