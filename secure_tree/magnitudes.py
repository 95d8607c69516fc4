"""How large labels and weights are: the powers of two that a party tells, and what the arithmetic cannot carry."""

from __future__ import annotations

import numpy as np

from mpc.errors import DataError
from secure_tree.config import TrainConfig
from secure_tree.context import TrainingContext
from secure_tree.numerics import MARGIN_SCALE
from secure_tree.public import ceil_log2
from secure_tree.schema import Table

SMALLEST_LABEL, LARGEST_LABEL = 1e-30, 1e30
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-6, 1e12
# A row has at least so many units of a histogram; of labels, half of the rows differ by as many.
LEAST_UNITS = 16


def label_exponent(config: TrainConfig, *tables: Table) -> int | None:
    """The power of two that no label of a number exceeds, nor a given base_score; None where all are 0, or there is
    none. Raises DataError.
    """
    if config.logistic:
        return None
    labels = [np.abs(t.labels) for t in tables if t.labels is not None and t.labels.size]
    largest = max((float(own.max()) for own in labels), default=0.0)
    if largest and not SMALLEST_LABEL <= largest <= LARGEST_LABEL:
        raise DataError(
            f"y: the largest label must be between {SMALLEST_LABEL:g} and {LARGEST_LABEL:g} in magnitude, got "
            f"{largest:g}: scale the labels of both parties"
        )
    largest = max(largest, abs(config.base_score or 0.0))
    return ceil_log2(largest) if largest else None


def weight_exponents(table: Table) -> tuple[int, int] | None:
    """The powers of two that no weight, and not the sum of all, exceeds; None without weights. Raises DataError."""
    if table.weights is None:
        return None
    largest = float(table.weights.max())
    if largest and not SMALLEST_WEIGHT <= largest <= LARGEST_WEIGHT:
        raise DataError(
            f"sample_weight: the largest weight must be between {SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g}, got "
            f"{largest:g}: scale the weights of both parties"
        )
    return ceil_log2(max(largest, SMALLEST_WEIGHT)), ceil_log2(max(float(table.weights.sum()), SMALLEST_WEIGHT))


def check_resolution(context: TrainingContext, table: Table) -> None:
    """Raises DataError where the units, which the largest weight or label of both parties sets, are too coarse for most
    of this party's rows.
    """
    config, facts = context.config, context.facts
    unit = 2.0**-context.numerics.histogram_scale
    if table.weights is not None and facts.weight_scale is not None and (table.weights > 0).any():
        median = float(np.median(table.weights[table.weights > 0]))
        most = median / unit / LEAST_UNITS
        if facts.weight_scale > most:
            raise DataError(
                f"sample_weight: weights reach {facts.weight_scale:g}, and half of this party's are at most "
                f"{median:g}: beside these the largest must be at most {most:.3g}"
            )
    if table.labels is None or config.logistic:
        return
    labels = table.labels if table.weights is None else table.labels[table.weights > 0]
    distances = np.abs(labels - np.median(labels)) if not config.counts else labels
    if not (distances > 0).any():
        return
    typical = float(np.median(distances[distances > 0]))
    if typical >= LEAST_UNITS * facts.label_scale * max(unit, 2.0**-MARGIN_SCALE):
        return
    centre = float(np.median(labels))
    if config.base_score is not None and abs(centre - config.base_score) > distances.max():
        raise DataError(
            f"base_score must be near the labels, whose differences, about {typical:g}, would be lost beside their "
            f"distance from it, got {config.base_score:g} for labels about {centre:g}: leave it out"
        )
    row = int(np.abs(table.labels - centre).argmax())
    raise DataError(
        f"y: row {row}: label {table.labels[row]:g} is so far from the others that their differences, about "
        f"{typical:g}, would be lost: clip it, or give it sample_weight 0"
    )
