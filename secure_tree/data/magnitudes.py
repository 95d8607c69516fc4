"""The magnitudes of labels and weights: the powers of two that a party makes public, and the arithmetic's limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc.errors import DataError
from secure_tree.data.own_rows import OwnRows, Part
from secure_tree.data.table import Table
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import TrainingContext
from secure_tree.public.exact import ceil_log2
from secure_tree.public.numerics import MARGIN_SCALE, MOST_SLOPES, NEWTON_OCTAVES

SMALLEST_LABEL, LARGEST_LABEL = 1e-30, 1e30
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-6, 1e12
# The least resolution, in units of the histogram: of the weight of half of the rows, and of the spread of labels.
# Counts spread by themselves, so that rounding to a quarter of a typical count adds little.
LEAST_UNITS, LEAST_UNITS_OF_COUNTS = 16, 4


@dataclass(frozen=True)
class Magnitudes:
    """Magnitudes of a set of rows.

    rows: their number. labelled: whether they have labels. label: the largest label in magnitude. weight: the largest
    weight, None without weights. weights: the sum of all weights.
    """

    rows: int = 0
    labelled: bool = False
    label: float = 0.0
    weight: float | None = None
    weights: float = 0.0

    @classmethod
    def of(cls, table: Table) -> Magnitudes:
        labels, weights = table.labels, table.weights
        largest = float(np.abs(labels).max()) if labels is not None and labels.size else 0.0
        heaviest = None if weights is None else float(weights.max(initial=0.0))
        mass = 0.0 if weights is None else float(weights.sum())
        return cls(len(table.features), labels is not None, largest, heaviest, mass)

    @classmethod
    def total(cls, parts: Sequence[Magnitudes]) -> Magnitudes:
        """Combine the magnitudes of all parts."""
        heaviest = [part.weight for part in parts if part.weight is not None]
        return cls(
            sum(part.rows for part in parts),
            parts[0].labelled,
            max(part.label for part in parts),
            max(heaviest, default=None),
            math.fsum(part.weights for part in parts),
        )


def magnitudes(own: OwnRows) -> Magnitudes:
    """Return the magnitudes of a party's training rows."""
    return Magnitudes.total(own.each(_magnitudes))


def label_exponent(config: TrainConfig, *rows: Magnitudes) -> int | None:
    """Return the exponent of the power of two that bounds labels and a given base_score.

    None for classes and labels of reg:logistic, or if all labels are 0. Raises DataError.
    """
    if not config.scaled:
        return None
    largest = max(each.label for each in rows)
    if largest and not SMALLEST_LABEL <= largest <= LARGEST_LABEL:
        raise DataError(
            f"y: the largest label must be between {SMALLEST_LABEL:g} and {LARGEST_LABEL:g} in magnitude, got "
            f"{largest:g}: scale the labels of both parties"
        )
    largest = max(largest, abs(config.base_score or 0.0))
    return ceil_log2(largest) if largest else None


def weight_exponents(rows: Magnitudes) -> tuple[int, int] | None:
    """Return the exponents of the powers of two that bound each weight and the sum of all; None without weights.

    Raises DataError.
    """
    largest = rows.weight
    if largest is None:
        return None
    if largest and not SMALLEST_WEIGHT <= largest <= LARGEST_WEIGHT:
        raise DataError(
            f"sample_weight: the largest weight must be between {SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g}, got "
            f"{largest:g}: scale the weights of both parties"
        )
    return ceil_log2(max(largest, SMALLEST_WEIGHT)), ceil_log2(max(rows.weights, SMALLEST_WEIGHT))


def check_resolution(context: TrainingContext, own: OwnRows) -> None:
    """Raise DataError if the units of the arithmetic are too coarse for most of this party's rows.

    The largest weight or label of both parties determines these units.
    """
    config, facts = context.config, context.facts
    unit = 2.0**-context.numerics.histogram_scale
    if facts.weight_scale is not None:
        weights = own.values(_weights)
        if weights.values.size and facts.weight_scale > (most := weights.median() / unit / LEAST_UNITS):
            given = "sample_weight: the" if config.scale_pos_weight == 1 else "scale_pos_weight: with it, the"
            raise DataError(
                f"{given} largest weight must be at most {most:.3g}, since half of this party's weights are at most "
                f"{weights.median():g}, got weights up to {facts.weight_scale:g}"
            )
    if not config.scaled:
        return
    if config.power and config.power > 1:
        _check_powers(context, own)
        return
    if config.pseudo_huber:
        _check_slopes(context, own)
    labels = own.values(_labels)
    ends = _every_end(own)
    if not ends:
        return
    median = labels.median()
    centre = 0.0 if config.counts else median
    distances = labels.distances(centre).without(np.zeros(1))
    if not distances.values.size:
        return
    typical, least = distances.median(), LEAST_UNITS_OF_COUNTS if config.counts else LEAST_UNITS
    if facts.label_scale <= (most := typical / least / max(unit, 2.0**-MARGIN_SCALE)):
        return
    if config.pseudo_huber:
        raise DataError(
            f"huber_slope must be at most {most:.3g}, since half of this party's labels are within {typical:g} of "
            f"their median, got {config.huber_slope:g}: use reg:squarederror for labels that lie so near each other"
        )
    if config.counts:
        largest, row = max(ends)
        # The label scale is a power of two, at least the largest count of both parties.
        most = 2.0 ** (math.frexp(most)[1] - 1)
        raise DataError(
            f"y: {f'row {row}: ' if largest > most else ''}the largest count must be at most {most:g}, since half of "
            f"this party's counts above 0 are at most {typical:g}, got {max(largest, facts.label_scale / 2):g}: clip "
            "it, or set its sample_weight to 0"
        )
    reach = max(abs(label - centre) for label, _ in ends)
    if config.base_score is not None and abs(median - config.base_score) > reach:
        raise DataError(
            f"base_score must be near the labels, got {config.base_score:g} for labels near {median:g}, whose "
            f"differences of about {typical:g} would be lost: leave base_score out"
        )
    farthest, row = max(ends, key=lambda end: abs(end[0] - median))
    raise DataError(
        f"y: row {row}: labels must be near each other, got {farthest:g}, beside which the differences of the others, "
        f"about {typical:g}, would be lost: clip this label, or set its sample_weight to 0"
    )


def _check_slopes(context: TrainingContext, own: OwnRows) -> None:
    """Raise DataError if labels are too many slopes from 0, for the arithmetic or for XGBoost's base score."""
    config, facts = context.config, context.facts
    if facts.label_bound > (most := MOST_SLOPES * config.huber_slope):
        row, largest = max(
            ((row, abs(label)) for label, row in _every_end(own)), key=lambda end: end[1], default=(0, 0.0)
        )
        raise DataError(
            f"y: {f'row {row}: ' if largest > most / 2 else ''}labels and base_score must be at most {most / 2:g} in "
            f"magnitude with a huber_slope of {config.huber_slope:g}, got {max(largest, facts.label_bound / 2):g}: "
            "raise huber_slope, or subtract a number from all labels"
        )
    mass, curvature = np.sum(own.each(_curvature, config.huber_slope), axis=0)
    if config.base_score is None and curvature < mass * 2.0**-NEWTON_OCTAVES:
        raise DataError(
            f"y: base_score must be set, for example to the median of the labels: half of this party's labels are "
            f"beyond {abs(own.values(_labels).median()):g}, which is too far from 0 with a huber_slope of "
            f"{config.huber_slope:g} for the base score of XGBoost, one Newton step from 0"
        )


def _curvature(part: Part, slope: float) -> tuple[float, float]:
    """Return the sum of weights, and that of second derivatives of the pseudo-Huber loss at 0."""
    labels, weights = part.table.labels, part.table.weights
    if labels is None:
        return 0.0, 0.0
    each = np.hypot(1, labels / slope) ** -3
    return (float(len(labels)), float(each.sum())) if weights is None else (weights.sum(), float(weights @ each))


def _check_powers(context: TrainingContext, own: OwnRows) -> None:
    """Raise DataError if the largest label is too far above the mean of a party's labels, or the base score.

    The mean of all rows is not below that of both parties, so at the first margin no B is beyond its reach, and A has
    LEAST_UNITS_OF_COUNTS (secure_tree/functions/powers.py).
    """
    config, facts, numerics = context.config, context.facts, context.numerics
    assert config.power is not None, "the objective has one"
    mass, total = np.sum(own.each(_sums), axis=0)
    mean = config.base_score or (total / mass if mass else 0.0)
    if not mean:
        return
    ratio = 2.0 ** (numerics.reach / (config.power - 1))
    if config.power < 2:
        ratio = min(ratio, (2.0**numerics.histogram_scale / LEAST_UNITS_OF_COUNTS / 2) ** (1 / (2 - config.power)))
    if facts.label_scale > 2 * mean * ratio:
        row, largest = max(((row, label) for label, row in _every_end(own)), key=lambda end: end[1])
        # The label scale is a power of two, at least the largest label of both parties.
        most = 2.0 ** math.floor(math.log2(2 * mean * ratio))
        of = "base_score is" if config.base_score else "the mean of this party's labels is"
        raise DataError(
            f"y: {f'row {row}: ' if largest > most else ''}the largest label must be at most {most:g}, since {of} "
            f"{mean:g}, got {max(largest, facts.label_scale / 2):g}: clip it, or set its sample_weight to 0"
        )


def _every_end(own: OwnRows) -> list[tuple[float, int]]:
    return [end for each in own.each(_ends) for end in each]


def _sums(part: Part) -> tuple[float, float]:
    """Return the sum of weights, and the weighted sum of labels."""
    labels, weights = part.table.labels, part.table.weights
    if labels is None:
        return 0.0, 0.0
    return (float(len(labels)), float(labels.sum())) if weights is None else (weights.sum(), float(weights @ labels))


def _magnitudes(part: Part) -> Magnitudes:
    return Magnitudes.of(part.table)


def _weights(part: Part) -> np.ndarray:
    """Return the weights other than 0."""
    weights = part.table.weights
    return np.zeros(0) if weights is None else weights[weights > 0]


def _counting(part: Part) -> np.ndarray:
    """Return the rows of a part with a label and a weight other than 0, int64[n]."""
    table = part.table
    if table.labels is None:
        return np.zeros(0, np.int64)
    return np.arange(len(table.labels)) if table.weights is None else np.flatnonzero(table.weights > 0)


def _labels(part: Part) -> np.ndarray:
    rows = _counting(part)
    return np.zeros(0) if part.table.labels is None else part.table.labels[rows]


def _ends(part: Part) -> list[tuple[float, int]]:
    """Return the smallest and the largest label, each with its position among all rows; nothing if there is none."""
    rows, labels = _counting(part), _labels(part)
    if not rows.size:
        return []
    return [(float(labels[at]), part.first + int(rows[at])) for at in (labels.argmin(), labels.argmax())]
