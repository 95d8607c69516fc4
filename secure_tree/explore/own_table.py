"""A party's own table in an exploration, read in portions of columns. Nothing here communicates.

Bins of numbers have about equally many rows; those of a categorical column are its most frequent categories and the
rest. A party's own bins with fewer rows than the floor are merged with a neighbour, so that no bin stands for few rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.errors import DataError
from mpc.host.frames import pd
from mpc.matrix.known_matrix import BinColumns
from secure_tree.data.bins import Counted
from secure_tree.data.categories import Dictionary, dictionary, is_categorical
from secure_tree.data.inputs import ColumnLike, TableLike, frame_of
from secure_tree.data.table import Table, read_features, read_training
from secure_tree.explore.config import ExploreConfig
from secure_tree.public.config import TrainConfig

# Any column may have missing values, and a party may have no columns.
_ANY = TrainConfig.of(partition="vertical", missing="all")
# Bytes of a portion of columns as float64.
PORTION = 1 << 26
WEIGHT_BITS = 12
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class OwnTable:
    """A party's table. period: uint8[n], 0 or 1, if there are two periods. classes: uint8[n], if there are labels."""

    frame: pd.DataFrame
    labels: Table
    period: np.ndarray | None
    categories: Dictionary

    @classmethod
    def read(
        cls,
        X: TableLike,
        y: ColumnLike | None,
        weights: ColumnLike | None,
        period: ColumnLike | None,
        config: ExploreConfig,
        least: int = 1,
    ) -> OwnTable:
        """Check everything but the features, which are checked as they are read. A party has at least `least` rows.

        Raises DataError.
        """
        frame = frame_of(X)
        if frame is None:
            array: Any = np.asarray(X)
            if array.ndim != 2:
                raise DataError(f"X: features must have 2 dimensions, rows and features, got {array.ndim}")
            frame = pd.DataFrame(array, columns=[f"f{i}" for i in range(array.shape[1])], copy=False)
        names = [str(c) for c in frame.columns]
        if len(set(names)) < len(names):
            raise DataError(f"X: column {next(n for n in names if names.count(n) > 1)!r} appears twice")
        n = len(frame)
        several = {"objective": "multi:ova", "num_class": config.classes} if config.classes > 2 else {}
        kind = {"objective": "reg:squarederror"} if config.numbers else several
        empty = np.zeros((n, 0))
        if weights is not None and y is None:
            raise DataError("sample_weight must be given only at a party with labels")
        if weights is not None and n and not np.asarray(weights, np.float64).any():
            raise DataError("sample_weight: all weights are 0")
        labels = read_training(empty, y, weights, TrainConfig.of(partition="vertical", **kind), least=least)
        periods = None
        if period is not None:
            given = read_training(empty, period, None, _ANY)
            assert given.labels is not None, "given"
            periods = given.labels.astype(np.uint8)
        return cls(frame, labels, periods, dictionary(frame))

    @property
    def rows(self) -> int:
        return len(self.frame)

    @property
    def names(self) -> list[str]:
        return [str(c) for c in self.frame.columns]

    @property
    def categorical(self) -> list[int]:
        """The numbers of the categorical columns."""
        return [f for f, dtype in enumerate(self.frame.dtypes) if is_categorical(dtype)]

    def summary(self) -> pd.DataFrame:
        """Return for each column, from these rows only: rows with a value missing, mean, and standard deviation; the
        last two are NaN for categories.
        """
        parts = []
        for some, features in self.portions():
            values = pd.DataFrame(features.astype(np.float64), columns=self.names[some])
            parts.append(
                pd.DataFrame({"missing": values.isna().mean(), "mean": values.mean(), "deviation": values.std()})
            )
        found = pd.concat(parts) if parts else pd.DataFrame(columns=["missing", "mean", "deviation"], dtype=float)
        found.iloc[self.categorical, 1:] = np.nan
        return found

    def quantiles(self, names: Collection[str]) -> pd.DataFrame:
        """Return quantiles of those columns that are named and no categories, from these rows only."""
        columns = {
            str(name): pd.Series(self.frame[name].to_numpy(np.float64, na_value=np.nan)).quantile(list(QUANTILES))
            for name in self.frame
            if str(name) in names and str(name) not in self.categories
        }
        return pd.DataFrame(columns, index=list(QUANTILES)).T

    def portions(self, rows: int | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the features in portions of columns, float32[n, some]; categories are numbered. Raises DataError.

        rows: as many columns as of a table of so many rows, where the parties take portions together.
        """
        for some in portions_of(self.frame.shape[1], self.rows if rows is None else rows):
            part = self.frame.iloc[:, some]
            numbered = {c: _codes(part[c], self.categories[str(c)]) for c in part if is_categorical(part[c].dtype)}
            yield some, read_features(part.assign(**numbered) if numbered else part, _ANY)[0]


def portions_of(features: int, rows: int) -> list[slice]:
    """Return the columns of each portion of a table."""
    per = max(1, PORTION // max(1, 8 * rows))
    return [slice(first, min(features, first + per)) for first in range(0, features, per)]


def _codes(column: pd.Series, categories: list[str]) -> np.ndarray:
    """Return the place of each row's category in `categories`, NaN if it is missing."""
    places = np.array([*(categories.index(str(c)) for c in column.cat.categories), np.nan])
    return places[np.asarray(column.cat.codes)]


@dataclass(frozen=True)
class OwnBins:
    """Bins of a party's own features: numbers uint8[n, d], `size` for missing values; for each feature, where its bins
    begin: edges of numbers, or categories, the last of which stands for all others if there are more.
    """

    numbers: np.ndarray
    size: int
    starts: list[list[float] | list[str]]

    @classmethod
    def of(cls, table: OwnTable, size: int, least: int) -> OwnBins:
        """Cut the features of a party by columns; bins have at least `least` rows where the feature has as many."""
        numbers = np.empty((table.rows, len(table.names)), np.uint8)
        starts: list[list[float] | list[str]] = []
        for some, features in table.portions():
            for f, column in zip(range(some.start, some.stop), features.T, strict=True):
                known = table.categories.get(table.names[f])
                numbers[:, f], begin = _cut(np.ascontiguousarray(column), size, least, known)
                starts.append(begin)
        return cls(numbers, size, starts)

    @property
    def missing(self) -> bool:
        return bool((self.numbers == self.size).any())


def _cut(
    column: np.ndarray, size: int, least: int, categories: list[str] | None
) -> tuple[np.ndarray, list[float] | list[str]]:
    """Cut one column: uint8[n], and where its bins begin."""
    there = ~np.isnan(column)
    values = column[there]
    numbers = np.full(column.size, size, np.uint8)
    if categories is not None:
        counts = np.bincount(values.astype(int), minlength=len(categories))
        order = np.argsort(-counts, kind="stable")
        kept = [c for c in order[: size - (len(categories) > size)] if counts[c] >= least]
        place = np.full(len(categories), max(0, min(len(kept), size - 1)))
        place[kept] = np.arange(len(kept))
        found, begin = place[values.astype(int)], [categories[c] for c in kept]
        if 0 < (found == len(kept)).sum() < least and kept:
            found[found == len(kept)] = len(kept) - 1
        numbers[there] = found
        return _few_missing(numbers, size, least), begin
    edges = Counted.of(values).spread(size) if values.size else np.zeros(1, np.float32)
    edges = np.unique(edges)
    found = np.searchsorted(edges, values, side="right") - 1
    joined = _merged(np.bincount(found, minlength=edges.size), least)
    numbers[there] = joined[found]
    return _few_missing(numbers, size, least), [float(edges[joined == b][0]) for b in range(joined[-1] + 1)]


def _merged(counts: np.ndarray, least: int) -> np.ndarray:
    """Return new numbers of bins, neighbours of which are merged until each has `least` rows, or one is left."""
    numbers, total = np.zeros(counts.size, np.int64), 0
    for b, count in enumerate(counts):
        numbers[b:] += b > 0 and total >= least
        total = count if b == 0 or total >= least else total + count
    if total < least:
        numbers[numbers == numbers[-1]] = max(0, numbers[-1] - 1)
    return numbers


def _few_missing(numbers: np.ndarray, size: int, least: int) -> np.ndarray:
    """Count missing values that are fewer than the floor with the largest bin."""
    counts = np.bincount(numbers, minlength=size + 1)
    if 0 < counts[size] < least:
        numbers[numbers == size] = counts[:size].argmax()
    return numbers


def label_vectors(table: OwnTable, config: ExploreConfig, edges: np.ndarray | None, exponent: int | None) -> np.ndarray:
    """Return for each class compared, and then for all rows, what each row counts: uint16[groups + 1, n].

    Labels that are numbers are cut at `edges`. Weights are in units of 2^(exponent - 12), rounded.
    """
    labels = class_of(table, edges)
    compared = range(1, 2) if config.classes == 2 else range(config.classes)
    ones = np.stack([*(labels == c for c in compared), np.ones(labels.size, bool)]).astype(np.uint16)
    if exponent is None:
        return ones
    weights = np.ones(labels.size) if table.labels.weights is None else table.labels.weights
    return ones * np.round(np.ldexp(weights, WEIGHT_BITS - exponent)).astype(np.uint16)


def class_of(table: OwnTable, edges: np.ndarray | None) -> np.ndarray:
    """Return the class of each row, int64[n]; labels that are numbers are cut at `edges`, float32[classes]."""
    labels = table.labels.labels
    assert labels is not None, "the caller has asked"
    if edges is None:
        return labels.astype(np.int64)
    return np.maximum(np.searchsorted(edges, labels.astype(np.float32), side="right") - 1, 0)


def sums(numbers: np.ndarray, size: int, vectors: np.ndarray) -> np.ndarray:
    """Bins [n, d] below size, vectors [v, n] -> their sums by feature and bin, uint64[v, d, size]."""
    if not len(numbers):
        return np.zeros((len(vectors), numbers.shape[1], size), np.uint64)
    found = BinColumns(np.ascontiguousarray(numbers), size).apply(vectors.astype(np.uint64))
    return found.reshape(len(vectors), -1, size)


def numbers_at(features: np.ndarray, edges: np.ndarray, categorical: np.ndarray) -> np.ndarray:
    """Bins of features float32[n, d] at joint edges [d, K], K for missing values; categories number their own bins."""
    out = np.empty(features.shape, np.uint8)
    size = edges.shape[1]
    for f, line in enumerate(edges):
        column = features[:, f]
        found = column if categorical[f] else np.searchsorted(line, column, side="right") - 1
        out[:, f] = np.where(np.isnan(column), size, np.clip(np.nan_to_num(found), 0, size - 1))
    return out
