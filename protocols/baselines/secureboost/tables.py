"""A party's input, checked on entry: features, in which NaN means missing, and, at the guest, labels.

The guest may have no features, hosts must have some.
"""

from __future__ import annotations

import numpy as np

from mpc.errors import ConfigError, DataError
from protocols.baselines.secureboost.config import SecureBoostConfig
from secure_tree.data.inputs import ColumnLike, TableLike
from secure_tree.data.table import read_features, read_training
from secure_tree.public.config import TrainConfig


def read_table(X: TableLike) -> tuple[np.ndarray, tuple[str, ...]]:
    """An array or a DataFrame -> (float32[n, d], names); NaN is a missing value. Raises DataError."""
    return read_features(X, TrainConfig.of(missing="all"))


def read_labelled_table(
    X: TableLike, y: ColumnLike, config: SecureBoostConfig
) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    """Return the guest's rows: (float32[n, d], names, labels float64[n]). Labels are class numbers or targets.

    Raises DataError for a label that the objective does not accept, ConfigError if only a guest without features may
    split.
    """
    rows = _rows_without_columns(X)
    if rows is not None and config.guest_only != "none":
        raise ConfigError(f"guest_only must be 'none' if the guest has only labels, got {config.guest_only!r}")
    objective = "reg:squarederror" if config.objective == "multi:softprob" else config.objective
    table = read_training(
        X if rows is None else np.zeros((rows, 1)), y, None, TrainConfig.of(objective=objective, missing="all")
    )
    assert table.labels is not None, "read_training refuses rows without labels"
    if config.objective == "multi:softprob":
        classes = np.unique(table.labels)
        if classes.size < 2 or not np.array_equal(classes, np.arange(classes.size)):
            raise DataError("y: multi:softprob needs class numbers 0, 1, ... without a gap, and at least two of them")
    if rows is not None:
        return table.features[:, :0], (), table.labels
    return table.features, table.names, table.labels


def read_columns_of(X: TableLike, names: tuple[str, ...]) -> np.ndarray:
    """Return rows to predict, float32[n, d], with the columns of the training. Raises DataError for any others."""
    rows = _rows_without_columns(X)
    features, here = read_table(X) if rows is None else (np.zeros((rows, 0), np.float32), ())
    if here != names:
        odd = next((a for a, b in zip(here, names, strict=False) if a != b), f"{len(here)} columns")
        raise DataError(
            f"X: the model was trained on {len(names)} columns in this order: {', '.join(names)}; got {odd}"
        )
    return features


def _rows_without_columns(X: TableLike) -> int | None:
    """Return the number of rows of a table that has no columns, None for any other."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return int(shape[0]) if len(shape) == 2 and shape[1] == 0 else None
