"""A client's rows, checked on entry. A missing value is replaced by one below all others, which always goes left."""

from __future__ import annotations

import numpy as np

from mpc.errors import DataError
from protocols.baselines.federated.objectives import check_labels
from secure_tree.data.inputs import ColumnLike, TableLike
from secure_tree.data.table import read_features
from secure_tree.public.config import TrainConfig

_MISSING = TrainConfig.of(missing="all")
_BELOW_ALL = np.float32(-(2.0**126))


def without_missing(X: np.ndarray) -> np.ndarray:
    """Replace NaN in float32[n, d] by a number below all others. Raises DataError for an infinite value."""
    if np.isinf(X).any():
        raise DataError("X: every value must be finite, or NaN where it is missing")
    return np.where(np.isnan(X), _BELOW_ALL, X)


def read_rows(
    source: str, X: TableLike, y: ColumnLike, objective: str
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return features float32[n, d], labels float64[n] that suit the objective, and the features' names.

    Raises DataError, which names `source`.
    """
    features, names = read_features(X, _MISSING, source)
    features = without_missing(features)
    try:
        labels = np.asarray(y, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise DataError(f"{source}: y: labels must be numbers") from None
    if len(labels) != len(features) or not len(labels):
        raise DataError(
            f"{source}: y must have one label per row of X: got {len(labels)} labels for {len(features)} rows"
        )
    check_labels(source, objective, labels)
    return features, labels, names
