"""Validation of a party's input: a table of float32 features and, for training, labels and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mpc.errors import DataError
from secure_tree.data.categories import Dictionary, indicators, is_categorical
from secure_tree.data.inputs import ColumnLike, Labelled, TableLike, frame_of
from secure_tree.public.config import TrainConfig
from secure_tree.public.exact import choose
from secure_tree.public.names import indicator

# The kinds of numpy's dtypes for real numbers.
_NUMERIC = "biuf"


@dataclass(frozen=True)
class Table:
    """A party's rows.

    features: float32[n, d], with their names. labels: float64[n], or None if the other party has them. weights:
    float64[n], or None if all rows have the same weight. indicators: the features that are indicators of a category.
    ids: a digest of the ids, if rows of shards have ids. offsets: what to add to the margins of the trees,
    float64[classes, n], or None.
    """

    features: np.ndarray
    names: tuple[str, ...]
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    indicators: tuple[int, ...] = ()
    ids: bytes | None = None
    offsets: np.ndarray | None = None


def read_features(
    X: TableLike, config: TrainConfig | None = None, source: str = "X", known: Dictionary | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Convert an array or a DataFrame to (float32[n, d], names). Raises DataError, which names the column and the row.

    NaN is a missing value if the configuration declares that the feature may have missing values; otherwise, and
    without a configuration, it is an error. Categorical columns become indicators of the `known` categories; without
    these, they are an error.
    """
    frame = frame_of(X)
    names = None if frame is None else tuple(str(c) for c in frame.columns)
    if frame is not None and names is not None:
        if (levels := getattr(frame.columns, "nlevels", 1)) > 1:
            raise DataError(f"{source}: names of columns must have one level, got {levels}: join them")
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise DataError(f"{source}: column {twice!r} appears twice")
        parts = [_features(frame[c], (known or {}).get(str(c)), source) for c in frame.columns]
        names = tuple(name for each, _ in parts for name in each)
        X = np.concatenate([part for _, part in parts], axis=1) if parts else np.zeros((len(frame), 0))
    values = read_numbers(
        X, f"{source}: features", "convert them, or pass a DataFrame whose text columns have the dtype category"
    )
    if values.ndim != 2:
        raise DataError(f"{source}: features must have 2 dimensions, rows and features, got {values.ndim}")
    if values.shape[1] == 0 and (config is None or config.partition == "horizontal"):
        raise DataError(f"{source}: there are no features")
    names = names or tuple(f"f{i}" for i in range(values.shape[1]))
    return checked_features(values, names, config, source), names


def checked_features(values: np.ndarray, names: Sequence[str], config: TrainConfig | None, source: str) -> np.ndarray:
    """Convert numbers to float32[n, d]. Raises DataError as `read_features` does."""
    with np.errstate(over="ignore"):
        features = values.astype(np.float32)
    allowed = np.isnan(features) & np.array([config is not None and config.may_miss(name) for name in names], bool)
    if not (np.isfinite(features) | allowed).all():
        row, column = np.argwhere(~(np.isfinite(features) | allowed))[0]
        what = "infinite, or beyond float32"
        if np.isnan(features[row, column]):
            what = "missing, and `missing` does not name the column" if config is not None else "missing"
        raise DataError(f"{source}: column {names[column]!r}, row {row}: value is {what}")
    return features


def _features(column: Any, categories: list[str] | None, source: str) -> tuple[list[str], np.ndarray]:
    """Convert a column of a DataFrame to features: their names and float64[n, features]."""
    name = str(column.name)
    if categories is not None and is_categorical(column.dtype):
        return [indicator(name, c) for c in categories], indicators(column, categories, source)
    if column.dtype.kind not in _NUMERIC:
        raise DataError(
            f"{source}: column {name!r} must be numeric, got dtype {column.dtype}: convert it to numbers, or to the "
            "dtype category"
        )
    return [name], column.to_numpy(np.float64, na_value=np.nan)[:, None]


def read_training(
    X: TableLike,
    y: ColumnLike | None,
    weights: ColumnLike | None,
    config: TrainConfig,
    known: Dictionary | None = None,
    least: int = 1,
) -> Table:
    """Read features, labels and weights of one party's rows, at least `least`. Raises DataError.

    A party of vertical data may have no labels, and then no weights. `known` are the categories of categorical columns.
    """
    features, names = read_features(X, config, known=known)
    hot = {indicator(column, c) for column, categories in (known or {}).items() for c in categories}
    table = Table(features, names, indicators=tuple(f for f, name in enumerate(names) if name in hot))
    n = len(features)
    if n < least:
        raise DataError("X: a party needs at least one row to train")
    if y is None:
        if config.partition == "horizontal":
            raise DataError("y must be given: only a party of vertical data may have no labels")
        if weights is not None:
            raise DataError("sample_weight must be given only at the party with the labels")
        return table
    labels = _column("y", "label", y, n)
    allowed = range(config.num_class or 2)
    if config.logistic and not np.isin(labels, allowed).all():
        row = int(np.flatnonzero(~np.isin(labels, allowed))[0])
        classes = f"one of 0 .. {len(allowed) - 1}" if config.num_class else "0 or 1"
        raise DataError(f"y: row {row}: label must be {classes} under {config.objective}, got {labels[row]:g}")
    if (strange := config.traits.strange(labels)).any():
        row = int(strange.argmax())
        raise DataError(
            f"y: row {row}: label must be {config.traits.says} under {config.objective}, got {labels[row]:g}"
        )
    if weights is not None:
        weights = _column("sample_weight", "weight", weights, n)
        if weights.min(initial=0) < 0:
            raise DataError(
                f"sample_weight: row {int(weights.argmin())}: weight must be at least 0, got {weights.min():g}"
            )
    if config.scale_pos_weight != 1:
        weights = np.where(labels == 1, config.scale_pos_weight, 1.0) * (1.0 if weights is None else weights)
    return replace(table, labels=labels, weights=weights)


def read_validation(
    pair: Labelled, config: TrainConfig, known: Dictionary, names: tuple[str, ...], labelled: bool
) -> Table:
    """Read (X, y), the held-out rows that a party provides, with the same features as its training rows.

    They must have labels exactly if the training rows have labels. Raises DataError.
    """
    table = read_training(*pair, None, config, known)
    if table.names != names:
        raise DataError("eval_set must have the features of X in the same order")
    if (table.labels is not None) != labelled:
        raise DataError("eval_set must have labels at the party with the labels of X, and none at the other")
    return table


def hold_out(table: Table, config: TrainConfig) -> tuple[Table, Table]:
    """Divide the rows into (training, validation), of which the latter is a fraction `test_size`.

    The public `random_state` determines the choice. Raises DataError if no row is left to train on.
    """
    n = len(table.features)
    chosen = held_rows(config, n)
    if n and chosen.size == n:
        raise DataError(f"test_size must leave at least one row to train on, got {config.test_size:g} for {n} rows")
    return rows_of(table, np.delete(np.arange(n), chosen)), rows_of(table, chosen)


def held_count(config: TrainConfig, rows: int) -> int:
    """Return how many of a party's rows `test_size` holds out."""
    return round(config.test_size * rows)


def held_rows(config: TrainConfig, rows: int) -> np.ndarray:
    """Return which of a party's rows `test_size` holds out, in ascending order."""
    return choose(held_count(config, rows), rows, f"held out {config.random_state}")


def rows_of(table: Table, rows: np.ndarray) -> Table:
    """Select rows of a table."""
    labels, weights = (None if x is None else x[rows] for x in (table.labels, table.weights))
    offsets = None if table.offsets is None else table.offsets[:, rows]
    return replace(table, features=table.features[rows], labels=labels, weights=weights, offsets=offsets)


def _column(source: str, what: str, values: ColumnLike, rows: int) -> np.ndarray:
    """Convert a column with a number for each row to float64[n]. Raises DataError."""
    column = read_numbers(values, f"{source}: {what}s", "convert them; classes are numbered from 0").reshape(-1)
    if column.size != rows:
        raise DataError(f"{source}: there must be a {what} for each of the {rows} rows, got {column.size}")
    if not np.isfinite(column).all():
        raise DataError(f"{source}: row {int(np.flatnonzero(~np.isfinite(column))[0])}: {what} is missing or infinite")
    return column


def read_numbers(values: TableLike | ColumnLike, what: str, instead: str) -> np.ndarray:
    """Convert real numbers to float64. Raises DataError for other values, with `instead` as what to do."""
    if hasattr(values, "toarray"):
        raise DataError(f"{what} must be a dense array, got a sparse one: pass its toarray()")
    try:
        given = np.asarray(values)
    except ValueError:
        raise DataError(f"{what} must have the same number of values in each row") from None
    try:
        if given.dtype.kind in _NUMERIC + "O":
            return given.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise DataError(f"{what} must be numeric, got dtype {given.dtype}: {instead}")
