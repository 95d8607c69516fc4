"""A party's input, checked on entry: features, in which NaN means missing, and, at the guest, labels.

The guest may have no features, hosts must have some.
"""

from __future__ import annotations

import numpy as np

from mpc.errors import ConfigError, DataError
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

    Raises DataError for a label that the objective does not accept, ConfigError if only a guest without features may
    split.
    """
    bare = _without_columns(X)
    if bare and config.guest_only != "none":
        raise ConfigError(f"guest_only must be 'none' if the guest has only labels, got {config.guest_only!r}")
    objective = "reg:squarederror" if config.objective == "multi:softprob" else config.objective
    table = read_training(
        np.zeros((len(X), 1)) if bare else X, y, None, TrainConfig.of(objective=objective, missing="all")
    )
    assert table.labels is not None, "read_training refuses rows without labels"
    if config.objective == "multi:softprob":
        classes = np.unique(table.labels)
        if classes.size < 2 or not np.array_equal(classes, np.arange(classes.size)):
            raise DataError("y: multi:softprob needs class numbers 0, 1, ... without a gap, and at least two of them")
    return (table.features[:, :0], (), table.labels) if bare else (table.features, table.names, table.labels)


def read_columns_of(X: TableLike, names: tuple[str, ...]) -> np.ndarray:
    """Return rows to predict, float32[n, d], with the columns of the training. Raises DataError for any others."""
    features, here = (np.zeros((len(X), 0), np.float32), ()) if _without_columns(X) else read_table(X)
    if here != names:
        odd = next((a for a, b in zip(here, names, strict=False) if a != b), f"{len(here)} columns")
        raise DataError(
            f"X: the model was trained on {len(names)} columns in this order: {', '.join(names)}; got {odd}"
        )
    return features


def _without_columns(X: TableLike) -> bool:
    return tuple(getattr(X, "shape", ())[1:]) == (0,)
