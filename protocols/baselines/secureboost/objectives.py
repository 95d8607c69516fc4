"""Losses: first and second derivatives with respect to the margin, and predictions from a margin.

Source  Chen and Guestrin, XGBoost, KDD 2016, section 2.2; the factor 2 in the softmax hessian and the largest step for
        counts are those of XGBoost's code.
"""

from __future__ import annotations

import numpy as np

from protocols.baselines.secureboost.config import SecureBoostConfig


def predicted(config: SecureBoostConfig, margins: np.ndarray) -> np.ndarray:
    """margins float64[n, C] -> P(1) float64[n], class probabilities float64[n, C], or values float64[n]."""
    if config.counts:
        return np.exp(margins[:, 0])
    if config.logistic:
        return 1 / (1 + np.exp(-margins[:, 0]))
    if config.objective == "multi:softprob":
        powers = np.exp(margins - margins.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    return margins[:, 0]


def derivatives(config: SecureBoostConfig, margins: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """margins float64[n, C], labels float64[n] -> g and h, float64[n, C] each. |g|, h <= 1 in classification."""
    p = predicted(config, margins).reshape(margins.shape)
    if config.logistic:
        return p - labels[:, None], p * (1 - p)
    if config.objective == "multi:softprob":
        return p - (labels[:, None] == np.arange(margins.shape[1])), 2 * p * (1 - p)
    if config.largest_step is not None:
        return p - labels[:, None], p * np.exp(config.largest_step)
    return p - labels[:, None], np.ones_like(p)


def loss(config: SecureBoostConfig, margins: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean loss: logistic or cross-entropy; for counts Poisson without log y!; else half squared error."""
    p = predicted(config, margins)
    if config.counts:
        return float(np.mean(p - labels * margins[:, 0]))
    if not config.classifies:
        return float(np.mean((p - labels) ** 2) / 2)
    if config.logistic:
        p = np.stack([1 - p, p], axis=1)
    return float(-np.mean(np.log(np.clip(p[np.arange(len(p)), labels.astype(int)], 1e-15, None))))
