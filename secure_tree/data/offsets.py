"""Offsets of margins (`base_margin`): read, checked, and where the link allows it made part of labels and weights.

With an offset o, the margin of a row is o plus its trees; there is no base score. With margins that are numbers, only
label and margin's difference matters, so that the label becomes y - o. With margins that are logarithms, gradients and
hessians of y at o + t are those of y e^-o at t with the weight e^((2 - p) o), p being the power of the mean that the
variance is: for counts, rates with exposures as weights. Other offsets stay, and are shared as first margins.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpc.errors import ConfigError, DataError
from secure_tree.data.inputs import ColumnLike
from secure_tree.data.table import Table, read_numbers
from secure_tree.public.config import TrainConfig

# Offsets that are logarithms, and others of margins of classes and probabilities.
MOST_LOGARITHM, MOST_LOG_ODDS = 60.0, 1000.0
# The base score whose margin is 0.
NO_BASE = {"logit": 0.5, "log": 1.0, "softmax": 0.0, "identity": 0.0}


def without_base(config: TrainConfig) -> TrainConfig:
    """Return the parameters of a training with offsets. Raises ConfigError if they have a base score."""
    if config.base_score is not None:
        raise ConfigError("base_score must not be set with base_margin, which takes its place")
    return TrainConfig.of(**{**config.model_dump(), "base_score": NO_BASE[config.traits.link]})


def read_offsets(values: ColumnLike, config: TrainConfig, rows: int, source: str = "base_margin") -> np.ndarray:
    """Convert offsets, [n] or for several classes [n, classes], to float64[classes, n]. Raises DataError."""
    given = read_numbers(values, f"{source}: offsets", "convert them")
    shape = (rows, config.classes) if config.num_class else (rows,)
    if given.shape not in (shape, (*shape, 1) if len(shape) == 1 else shape):
        raise DataError(f"{source}: must have the shape {shape}, an offset of the margin per row, got {given.shape}")
    offsets = np.ascontiguousarray(given.reshape(rows, -1).T)
    most = {"identity": np.inf, "log": MOST_LOGARITHM}.get(config.traits.link, MOST_LOG_ODDS)
    strange = ~(np.isfinite(offsets) & (np.abs(offsets) <= most)).all(axis=0)
    if strange.any():
        row = int(strange.argmax())
        bound = "a finite number" if most == np.inf else f"at most {most:g} in magnitude"
        what = ", a logarithm, as of an exposure," if config.power else ""
        raise DataError(
            f"{source}: row {row}: an offset{what} must be {bound} under {config.objective}, got "
            f"{', '.join(f'{x:g}' for x in offsets[:, row])}"
        )
    return offsets


def trained_on(table: Table, config: TrainConfig) -> Table:
    """Return rows to train on from a base margin of 0, with offsets only if the link does not allow less."""
    if table.offsets is None or table.labels is None or config.traits.link not in ("identity", "log"):
        return table
    offset = table.offsets[0]
    if config.power is None:
        return replace(table, labels=table.labels - offset, offsets=None)
    weights = table.weights
    if config.power < 2:
        weights = np.exp((2 - config.power) * offset) * (1.0 if weights is None else weights)
    return replace(table, labels=table.labels * np.exp(-offset), weights=weights, offsets=None)


def held_out(table: Table, config: TrainConfig) -> Table:
    """Return held-out rows, whose metrics need labels as they are unless margins are numbers."""
    return trained_on(table, config) if config.traits.link == "identity" else table
