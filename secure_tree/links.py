"""What margins say of the label. The owner of a row computes it in the clear, from the margins revealed to it."""

from __future__ import annotations

import numpy as np

from secure_tree.config import TrainConfig


def probabilities(config: TrainConfig, margins: np.ndarray) -> np.ndarray:
    """Margins, float64[n] or [n, classes] -> probabilities of classes 0, 1, ..., float64[n, classes].

    Of two classes: logistic. Of several: softmax for a model that was trained with it; under multi:ova each class's own
    probability, normalised over the classes.
    """
    if config.objective == "multi:softprob":
        grown = np.exp(margins - margins.max(axis=1, keepdims=True))
        return grown / grown.sum(axis=1, keepdims=True)
    each = 1 / (1 + np.exp(-margins))
    return each / each.sum(axis=1, keepdims=True) if each.ndim == 2 else np.stack([1 - each, each], axis=1)


def values(config: TrainConfig, margins: np.ndarray) -> np.ndarray:
    """What is expected of a number, float64[n]: the margin, or under count:poisson its exponential."""
    return np.exp(margins) if config.counts else margins


def classes(margins: np.ndarray) -> np.ndarray:
    """The most probable class, int64[n]; margin 0 of two classes is class 0, and of equal classes the first counts."""
    return margins.argmax(axis=1) if margins.ndim == 2 else (margins > 0).astype(np.int64)
