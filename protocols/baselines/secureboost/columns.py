"""One party's columns: bins, histograms of values in the clear, and the splits that stay at the party."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from secure_tree.data.bins import make_bins


@dataclass
class Records:
    """The splits that a party owns: column, threshold, and whether missing values go left.

    A row goes left if its value is below the threshold. Other parties name a split by its place in these lists.
    """

    column: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    missing_left: list[bool] = field(default_factory=list)

    def left(self, features: np.ndarray, records: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return whether row `rows[q]` of float32[n, d] goes left at `records[q]`, bool[q]. Raises IndexError."""
        values = features[rows, np.asarray(self.column, np.int64)[records]]
        below = values < np.asarray(self.threshold, np.float32)[records]
        return np.where(np.isnan(values), np.asarray(self.missing_left, bool)[records], below)


@dataclass(frozen=True)
class BinnedColumns:
    """features float32[n, d], edges float32[d, K], bin numbers int8[n, d] from 0 to K; bin K has the missing values."""

    features: np.ndarray
    edges: np.ndarray
    numbers: np.ndarray

    @property
    def buckets(self) -> int:
        """K + 1, or K if no value is missing."""
        return self.edges.shape[1] + int(np.isnan(self.features).any())

    def record(self, records: Records, columns: np.ndarray, bins: np.ndarray, missing_left: np.ndarray) -> np.ndarray:
        """Add the splits "bin at most b" to `records`; return their places, int64. Raises IndexError."""
        beyond = np.concatenate([self.edges, np.full((len(self.edges), 1), np.inf, np.float32)], axis=1)
        first = len(records.column)
        records.threshold.extend(beyond[columns, bins + 1].tolist())
        records.column.extend(columns.tolist())
        records.missing_left.extend(missing_left.tolist())
        return np.arange(first, len(records.column))


def bin_columns(features: np.ndarray, size: int) -> BinnedColumns:
    """float32[n, d] with NaN for missing values -> quantile bins of the other values; size below 128."""
    if not features.shape[1]:
        return BinnedColumns(features, np.zeros((0, size), np.float32), np.zeros(features.shape, np.int8))
    bins = make_bins(features, size)
    return BinnedColumns(features, bins.edges, bins.numbers.astype(np.int8))


def histograms(numbers: np.ndarray, group: np.ndarray, groups: int, size: int, values: np.ndarray) -> np.ndarray:
    """numbers int8[n, d], group int64[n] below `groups`, values int64[n, 2] -> sums int64[groups, d, size, 2]."""
    d = numbers.shape[1]
    place = (group[:, None] * d + np.arange(d)) * size + numbers
    sums = np.empty((groups, d, size, 2), np.int64)
    for part in range(2):
        # float64 sums of integers are exact below 2^53, which Layout.plan has checked.
        weights = np.repeat(values[:, part], d).astype(np.float64)
        sums[..., part] = np.bincount(place.ravel(), weights, groups * d * size).reshape(groups, d, size)
    return sums
