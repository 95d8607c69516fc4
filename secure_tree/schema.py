"""What a party brings, checked at the door: a table of float32 features and, in training, a label per row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.errors import DataError
from secure_tree.config import TrainConfig


@dataclass(frozen=True)
class Table:
    """features float32[n, d] with their names; labels float64[n], or None where the other party has them."""

    features: np.ndarray
    names: tuple[str, ...]
    labels: np.ndarray | None = None


def read_features(X, config: TrainConfig, source: str = "X") -> tuple[np.ndarray, tuple[str, ...]]:
    """An array or a DataFrame -> (float32[n, d], names). Raises DataError that names column and row.

    NaN stands for a missing value, where the configuration declares that the feature may have some.
    """
    names = tuple(str(c) for c in X.columns) if hasattr(X, "columns") else None
    if names is not None:
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise DataError(f"{source}: column {twice!r} appears twice")
        for name, dtype in zip(names, X.dtypes, strict=True):
            if dtype.kind not in "biuf":
                raise DataError(f"{source}: column {name!r} is not numeric")
    try:
        values = np.asarray(X, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{source}: features are not numeric") from None
    if values.ndim != 2:
        raise DataError(f"{source}: expected a table of rows and features, got {values.ndim} dimension(s)")
    if values.shape[1] == 0:
        raise DataError(f"{source}: there are no features")
    names = names or tuple(f"f{i}" for i in range(values.shape[1]))
    with np.errstate(over="ignore"):
        features = values.astype(np.float32)
    allowed = np.isnan(features) & np.array([config.may_miss(name) for name in names])
    if not (np.isfinite(features) | allowed).all():
        row, column = np.argwhere(~(np.isfinite(features) | allowed))[0]
        what = "missing" if np.isnan(features[row, column]) else "infinite, or beyond float32"
        raise DataError(f"{source}: column {names[column]!r}, row {row}: value is {what}")
    return features, names


def read_training(X, y, config: TrainConfig) -> Table:
    """Features and labels of one party's rows; vertical data may have its labels at the other. Raises DataError."""
    features, names = read_features(X, config)
    if len(features) == 0:
        raise DataError("X: a party needs at least one row to train")
    if y is None:
        if config.partition == "horizontal":
            raise DataError("y: labels are needed; without them only vertical data can be trained on")
        return Table(features, names)
    try:
        labels = np.asarray(y, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise DataError("y: labels are not numeric") from None
    if labels.size != len(features):
        raise DataError(f"y: {labels.size} labels for {len(features)} rows")
    if not np.isfinite(labels).all():
        raise DataError(f"y: row {int(np.flatnonzero(~np.isfinite(labels))[0])}: label is missing or infinite")
    if config.logistic and not np.isin(labels, (0, 1)).all():
        row = int(np.flatnonzero(~np.isin(labels, (0, 1)))[0])
        raise DataError(f"y: row {row}: label {labels[row]:g} is not 0 or 1, as binary:logistic needs")
    return Table(features, names, labels)
