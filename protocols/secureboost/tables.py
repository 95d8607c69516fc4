"""A party's input, checked on entry: features, in which NaN means missing, and, at the guest, labels."""

from __future__ import annotations

import numpy as np

from mpc.errors import DataError
from protocols.secureboost.config import SecureBoostConfig
from secure_tree.config import TrainConfig
from secure_tree.inputs import ColumnLike, TableLike
from secure_tree.schema import read_features, read_training


def read_table(X: TableLike) -> tuple[np.ndarray, tuple[str, ...]]:
    """An array or a DataFrame -> (float32[n, d], names); NaN is a missing value. Raises DataError."""
    return read_features(X, TrainConfig.of(missing="all"))


def read_labelled_table(
    X: TableLike, y: ColumnLike, config: SecureBoostConfig
) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    """Return the guest's rows: (float32[n, d], names, labels float64[n]). Labels are class numbers or targets.

    Raises DataError for a label that the objective does not accept.
    """
    objective = "reg:squarederror" if config.objective == "multi:softprob" else config.objective
    table = read_training(X, y, None, TrainConfig.of(objective=objective, missing="all"))
    assert table.labels is not None, "read_training refuses rows without labels"
    if config.objective == "multi:softprob":
        classes = np.unique(table.labels)
        if classes.size < 2 or not np.array_equal(classes, np.arange(classes.size)):
            raise DataError("y: multi:softprob needs class numbers 0, 1, ... without a gap, and at least two of them")
    return table.features, table.names, table.labels
