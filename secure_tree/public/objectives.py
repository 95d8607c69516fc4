"""What distinguishes the objectives: the link of their margins, the labels and metrics that suit them, in one table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

Metric = Literal[
    "error",
    "logloss",
    "auc",
    "aucpr",
    "ks",
    "gini",
    "rmse",
    "mae",
    "gamma-deviance",
    "gamma-nloglik",
    "tweedie-nloglik",
    "mphe",
]
# Metrics for which larger values are better, and metrics for two classes only.
RISING: tuple[Metric, ...] = ("auc", "aucpr", "ks", "gini")
OF_TWO_CLASSES: tuple[Metric, ...] = ("aucpr", "ks", "gini")
Objective = Literal[
    "binary:logistic",
    "multi:ova",
    "multi:softprob",
    "reg:squarederror",
    "reg:logistic",
    "count:poisson",
    "reg:gamma",
    "reg:tweedie",
    "reg:pseudohubererror",
]
# Margins are log-odds, logarithms of what is predicted, logarithms of probabilities plus any number, or predictions.
Link = Literal["logit", "log", "softmax", "identity"]


@dataclass(frozen=True)
class Traits:
    """The traits of an objective.

    metrics: those that suit it, its default first. classes: whether labels are classes. least, most: the range of
    labels, which the least may belong to if it is `closed`. says: what a label must be. power: for a log link, the
    power of the mean that the variance is; None if `tweedie_variance_power` gives it.
    """

    link: Link
    metrics: tuple[Metric, ...]
    classes: bool = False
    least: float = -math.inf
    most: float = math.inf
    closed: bool = True
    says: str = "a number"
    power: float | None = None

    def strange(self, labels: np.ndarray) -> np.ndarray:
        """Return which labels are out of the range, bool[n]; for classes none."""
        low = labels < self.least if self.closed else labels <= self.least
        return np.asarray(low | (labels > self.most))


_OF_CLASSES: tuple[Metric, ...] = ("logloss", "error", "auc")
_OF_NUMBERS: tuple[Metric, ...] = ("rmse", "mae")
TRAITS: dict[str, Traits] = {
    "binary:logistic": Traits("logit", _OF_CLASSES + OF_TWO_CLASSES, classes=True),
    "multi:ova": Traits("logit", ("error", "logloss", "auc"), classes=True),
    "multi:softprob": Traits("softmax", _OF_CLASSES, classes=True),
    "reg:squarederror": Traits("identity", _OF_NUMBERS),
    "reg:pseudohubererror": Traits("identity", ("mphe",)),
    "reg:logistic": Traits("logit", (*_OF_NUMBERS, "logloss"), least=0, most=1, says="between 0 and 1"),
    "count:poisson": Traits("log", _OF_NUMBERS, least=0, says="at least 0", power=1.0),
    "reg:gamma": Traits("log", ("gamma-deviance", "gamma-nloglik"), least=0, closed=False, says="above 0", power=2.0),
    "reg:tweedie": Traits("log", ("tweedie-nloglik",), least=0, says="at least 0"),
}
