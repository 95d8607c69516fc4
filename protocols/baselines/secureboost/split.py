"""The best split of every node of a level from its histograms.

gain = T(G_L)^2 / (H_L + lambda) + T(G_R)^2 / (H_R + lambda) - T(G)^2 / (H + lambda), T the soft threshold by alpha:
twice the paper's, as in XGBoost's code. A node is split if the gain exceeds min_split_loss and zero. For counts, the
weight w = -T(G) / (H + lambda) is limited to the largest step, and each term is -2 w T(G) - w^2 (H + lambda).

If sums have noise, the most gain that noise alone can cause is subtracted first, so that noise rarely wins a split.

Source  Chen and Guestrin, KDD 2016, equation 7 and algorithm 3 (missing values with a learned direction).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from protocols.baselines.secureboost.config import SecureBoostConfig
from protocols.baselines.secureboost.encoding import FRACTION_BITS, Derivatives

_LEAST_HESSIAN = 2.0**-24  # a side without rows has no hessian at all


@dataclass(frozen=True)
class NodeSplits:
    """For every node: the gain, -inf for no split; feature and last bin on the left; where missing values go.

    left int64[v, 2]: sums of g and h of the left side.
    """

    gain: np.ndarray
    feature: np.ndarray
    bin: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray


def soft_threshold(G: np.ndarray, alpha: float) -> np.ndarray:
    return np.sign(G) * np.maximum(np.abs(G) - alpha, 0)


def leaf_weights(config: SecureBoostConfig, totals: np.ndarray, scales: Derivatives) -> np.ndarray:
    """Sums int64[v, 2] -> weights float64[v], shrunk by the learning rate."""
    G, H = totals[:, 0] / scales.g_scale, totals[:, 1] / scales.h_scale + config.reg_lambda
    return config.learning_rate * _weights(config, soft_threshold(G, config.reg_alpha), H)


def best_splits(
    config: SecureBoostConfig, histograms: np.ndarray, totals: np.ndarray, scales: Derivatives, deviation: float = 0.0
) -> NodeSplits:
    """histograms int64[v, d, K + 1, 2], missing values in bin K, and totals int64[v, 2] -> Splits of v nodes.

    `deviation` is that of the noise in the histograms, in units of the largest g.

    In a tie the first candidate wins, in the order of feature, bin, and missing left before missing right.
    """
    nodes, features, width, _ = histograms.shape
    if features == 0:
        nothing = np.zeros(nodes, np.int64)
        return NodeSplits(
            np.full(nodes, -np.inf), nothing, nothing, nothing.astype(bool), np.zeros((nodes, 2), np.int64)
        )
    present = histograms[:, :, :-1].cumsum(axis=2)
    left = np.stack([present + histograms[:, :, -1:], present], axis=3)  # [v, d, K, direction, 2]
    right = totals[:, None, None, None] - left
    with np.errstate(invalid="ignore"):  # if the node itself is too light, -inf - -inf is NaN: no gain
        gain = _score(config, left, scales) + _score(config, right, scales)
        gain = gain - _score(config, totals, scales)[:, None, None, None]
    if deviation:
        gain = gain - _luck(config, left, right, scales, deviation)
    gain = gain.reshape(nodes, -1)
    gain[~(gain > config.min_split_loss)] = -np.inf
    best = gain.argmax(axis=1)
    feature, bin_, direction = np.unravel_index(best, (features, width - 1, 2))
    each = np.arange(nodes)
    return NodeSplits(gain[each, best], feature, bin_, direction == 0, left[each, feature, bin_, direction])


def _luck(
    config: SecureBoostConfig, left: np.ndarray, right: np.ndarray, scales: Derivatives, deviation: float
) -> np.ndarray:
    """Return the most gain that noise causes among a node's candidates; sums int64[v, d, K, 2, 2] of either side.

    Noise in G exceeds t deviations with probability below exp(-t^2 / 2); with t^2 = 2 ln(20 candidates), it exceeds
    them for any candidate with probability below 1/20. The noise of all K + 1 buckets sums to 0, so the noise of j
    buckets has j (1 - j / (K + 1)) times the variance of one.
    """
    _, features, bins, _, _ = left.shape
    summed = np.arange(1, bins + 1)[:, None] + [1, 0]  # the buckets on the left: with the missing values, and without
    variance = (deviation * 2.0**FRACTION_BITS / scales.g_scale) ** 2 * summed * (1 - summed / (bins + 1))
    H_left, H_right = (np.maximum(side[..., 1], 1) / scales.h_scale + config.reg_lambda for side in (left, right))
    return 2 * np.log(20 * features * bins) * variance * (1 / H_left + 1 / H_right)


def _score(config: SecureBoostConfig, sums: np.ndarray, scales: Derivatives) -> np.ndarray:
    """Return T(G)^2 / (H + lambda), and -inf for a side that is too light."""
    G, H = soft_threshold(sums[..., 0] / scales.g_scale, config.reg_alpha), sums[..., 1] / scales.h_scale
    heavy = np.maximum(config.min_child_weight, _LEAST_HESSIAN) <= H
    if config.largest_step is None:
        return np.divide(G * G, H + config.reg_lambda, out=np.full_like(G, -np.inf), where=heavy)
    weights = _weights(config, G, H + config.reg_lambda)
    return np.where(heavy, -weights * (2 * G + weights * (H + config.reg_lambda)), -np.inf)


def _weights(config: SecureBoostConfig, G: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Return -G / H within the largest step, 0 where H is not positive."""
    weights = np.divide(-G, H, out=np.zeros_like(G), where=H > 0)
    return weights if config.largest_step is None else weights.clip(-config.largest_step, config.largest_step)
