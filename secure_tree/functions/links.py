"""Predictions from margins. The owner of a row computes them in the clear from the margins revealed to it."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from secure_tree.public.objectives import TRAITS

Output = Literal["margin", "probability"]


class Linked(Protocol):
    """What a link depends on, of a training's parameters."""

    @property
    def objective(self) -> str: ...


def probabilities(config: Linked, margins: np.ndarray) -> np.ndarray:
    """Margins, float64[n] or [n, classes] -> probabilities of classes 0, 1, ..., float64[n, classes].

    Two classes: the logistic function. Several classes: softmax under multi:softprob, and under multi:ova the logistic
    function of each margin, normalised over the classes.
    """
    if config.objective == "multi:softprob":
        grown = np.exp(margins - margins.max(axis=1, keepdims=True))
        return grown / grown.sum(axis=1, keepdims=True)
    each = 1 / (1 + np.exp(-margins))
    return each / each.sum(axis=1, keepdims=True) if each.ndim == 2 else np.stack([1 - each, each], axis=1)


def values(config: Linked, margins: np.ndarray) -> np.ndarray:
    """Return predicted numbers, float64[n]: margins, their exponentials or logistic functions, as the link says."""
    link = TRAITS[config.objective].link
    return np.exp(margins) if link == "log" else 1 / (1 + np.exp(-margins)) if link == "logit" else margins


def classes(margins: np.ndarray) -> np.ndarray:
    """Return the most probable class, int64[n]: the first of equal ones, and class 0 for a binary margin of 0."""
    return margins.argmax(axis=1) if margins.ndim == 2 else (margins > 0).astype(np.int64)
