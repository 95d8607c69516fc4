"""Gradients and hessians in float64, as the formulas of XGBoost state them."""

from __future__ import annotations

import numpy as np

from secure_tree.public.config import TrainConfig


def derivatives(config: TrainConfig, margin: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Margins and labels, float64[n] -> first and second derivatives of the loss, float64[n] each.

    Under multi:softprob, all are float64[classes, n].

    Under reg:pseudohubererror margins, labels and first derivatives are over `huber_slope`.
    """
    if config.softmax:
        grown = np.exp(margin - margin.max(axis=0))
        p = grown / grown.sum(axis=0)
        return p - labels, 2 * p * (1 - p)
    if config.log_odds:
        p = 1 / (1 + np.exp(-np.clip(margin, -12, 12)))
        return p - labels, p * (1 - p)
    if config.pseudo_huber:
        root = np.sqrt(1 + (margin - labels) ** 2)
        return (margin - labels) / root, root**-3
    if config.squared:
        return margin - labels, np.ones(len(labels))
    if config.counts:
        return np.exp(margin) - labels, np.exp(margin + config.max_delta_step)
    assert config.power is not None, "the objectives are those above, gamma and Tweedie"
    means, over = np.exp((2 - config.power) * margin), labels * np.exp((1 - config.power) * margin)
    return means - over, (2 - config.power) * means + (config.power - 1) * over
