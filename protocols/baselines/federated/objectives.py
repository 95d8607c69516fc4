"""The objectives of the systems by rows: two classes, numbers or counts, under XGBoost's names.

Source  Chen and Guestrin, XGBoost, KDD 2016, section 2.2; for counts, a leaf weight is at most LARGEST_STEP, and the
        hessian has a factor e^LARGEST_STEP, as in XGBoost's code (max_delta_step)
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from mpc.errors import DataError

Objective = Literal["binary:logistic", "reg:squarederror", "count:poisson"]
LARGEST_STEP = 0.7


def sigmoid(margin: np.ndarray) -> np.ndarray:
    """Return the probability of class 1, float64[n]."""
    return 1 / (1 + np.exp(-margin))


def predicted(objective: str, margin: np.ndarray) -> np.ndarray:
    """Margins float64[n] -> probabilities of class 1, numbers, or expected counts."""
    if objective == "reg:squarederror":
        return margin
    return np.exp(margin) if objective == "count:poisson" else sigmoid(margin)


def derivatives(objective: str, margin: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return g and h of each row, float64[n]."""
    p = predicted(objective, margin)
    if objective == "reg:squarederror":
        return p - y, np.ones(len(p))
    return p - y, p * math.exp(LARGEST_STEP) if objective == "count:poisson" else p * (1 - p)


def losses(objective: str, margin: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return each row's loss: cross-entropy in nats, squared error, or Poisson's without log y!."""
    if objective == "reg:squarederror":
        return (margin - y) ** 2
    return np.exp(margin) - y * margin if objective == "count:poisson" else np.logaddexp(0, margin) - y * margin


def prior_margin(objective: str, rows: float, labels: float) -> float:
    """Return the margin that predicts the mean label, from number and sum. Raises DataError if there is none."""
    if objective == "reg:squarederror":
        return labels / rows
    if objective == "count:poisson":
        if labels > 0:
            return math.log(labels / rows)
        raise DataError(f"all {rows:g} labels are 0: training needs a count above 0")
    if 0 < labels < rows:
        return math.log(labels / (rows - labels))
    raise DataError(f"{labels:g} of {rows:g} labels are 1: training needs both classes")


def check_labels(source: str, objective: str, labels: np.ndarray) -> None:
    """Raise DataError, which names `source` and the row, for a label that the objective does not accept."""
    bad, wanted = ~np.isfinite(labels), "a finite number"
    if objective == "binary:logistic":
        bad, wanted = ~np.isin(labels, (0, 1)), "0 or 1"
    elif objective == "count:poisson":
        bad, wanted = bad | (labels < 0) | (labels != np.floor(labels)), "a count"
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(f"{source}: y: row {row}: label must be {wanted}, got {labels[row]:g}")
