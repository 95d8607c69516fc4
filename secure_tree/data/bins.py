"""A party's own bins. Nothing here communicates.

Values are float32, as in XGBoost. Bin b of a feature holds cuts[b] <= x < cuts[b + 1]; the last bin holds missing
values (NaN). Every `finer`-th cut is an edge, the threshold of a candidate split. secure_tree/setup/edges.py finds
joint edges. A party's own K edges of a feature are its distinct values if there are at most K, otherwise its minimum
and K - 1 inverted-cdf quantiles. If some of these are equal, the remaining edges are quantiles of the values that are
not edges yet. The `finer` bins between two edges are cut by the same rule. Short lists are padded with the last cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

ORDER_BITS = 32


@dataclass(frozen=True)
class Counted:
    """The non-missing values of a column: distinct values in ascending order, [m], and their counts, int64[m]."""

    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, counts: np.ndarray | None = None) -> Counted:
        """Count values in any order, none of them missing, each once or as often as `counts` says."""
        if counts is None:
            return cls(*np.unique(values, return_counts=True))
        distinct, places = np.unique(values, return_inverse=True)
        sums = np.zeros(distinct.size, np.int64)
        np.add.at(sums, places, counts)
        return cls(distinct, sums)

    def without(self, known: np.ndarray) -> Counted:
        """Return the values other than `known`."""
        others = ~np.isin(self.values, known)
        return Counted(self.values[others], self.counts[others])

    def median(self) -> float:
        """Return the lower median. There must be at least one value."""
        return float(self.quantiles(1)[0])

    def distances(self, centre: float) -> Counted:
        """Return the absolute distances of the values from the centre."""
        return Counted.of(np.abs(self.values - centre), self.counts)

    def quantiles(self, count: int) -> np.ndarray:
        """Return `count` inverted-cdf quantiles, which divide the values into parts of equal size where possible.

        There must be at least one value.
        """
        up_to = np.cumsum(self.counts)
        ranks = -(-np.arange(1, count + 1) * up_to[-1] // (count + 1))
        return self.values[np.searchsorted(up_to, ranks)]

    def spread(self, size: int) -> np.ndarray:
        """Return all values if they fit, otherwise the minimum and quantiles, padded to `size`.

        There must be at least one value.
        """
        chosen, others = self.values, self
        if chosen.size > size:
            chosen = chosen[:1]
            while chosen.size < size:
                chosen = np.union1d(chosen, others.quantiles(size - chosen.size))
                others = self.without(chosen)
        return np.pad(chosen, (0, size - chosen.size), mode="edge")

    def cuts(self, size: int, finer: int) -> np.ndarray:
        """Return the cuts of `size * finer` bins."""
        if self.values.size == 0:
            return np.zeros(size * finer, np.float32)
        edges = self.spread(size)
        if finer == 1:
            return edges
        places = np.searchsorted(self.values, edges[1:])
        between = map(Counted, np.split(self.values, places), np.split(self.counts, places))
        return np.concatenate(
            [
                x.spread(finer) if x.values.size else np.repeat(edge, finer)
                for x, edge in zip(between, edges, strict=True)
            ]
        )

    def medians(self, cuts: np.ndarray) -> np.ndarray:
        """Return the lower median of the values in every bin, float32[L]; the cut if the bin is empty."""
        out, up_to = cuts.copy(), np.append(0, np.cumsum(self.counts))
        ends = up_to[np.append(np.searchsorted(self.values, cuts), self.values.size)]
        full = np.flatnonzero(ends[1:] > ends[:-1])
        out[full] = self.values[np.searchsorted(up_to, (ends[full] + ends[full + 1] + 1) // 2) - 1]
        return out


@dataclass(frozen=True)
class Bins:
    """A party's features float32[n, d] and the cuts of its bins, float32[d, L]; every `finer`-th cut is an edge.

    medians: the lower median of the party's values in every bin, float32[d, L]; the cut if the bin is empty.
    """

    features: np.ndarray
    cuts: np.ndarray
    medians: np.ndarray
    finer: int = 1

    @classmethod
    def of(cls, features: np.ndarray, columns: Iterable[Counted], size: int, finer: int = 1) -> Bins:
        """Cut bins at `size` private edges per feature, with `finer` bins per edge, from the values in `columns`."""
        cuts, medians = np.zeros((2, features.shape[1], size * finer), np.float32)
        for f, column in enumerate(columns):
            cuts[f] = column.cuts(size, finer)
            medians[f] = column.medians(cuts[f])
        return cls(features, cuts, medians, finer)

    @property
    def edges(self) -> np.ndarray:
        """The edges, float32[d, K]."""
        return self.cuts[:, :: self.finer]

    def with_indicators(self, features: np.ndarray) -> Bins:
        """Return bins in which 0 is the first bin of these features, and 1 the last one."""
        if not features.size:
            return self
        cuts, medians = self.cuts.copy(), self.medians.copy()
        for lines in (cuts, medians):
            lines[features] = 1
            lines[features, 0] = -np.finfo(np.float32).max
        return Bins(self.features, cuts, medians, self.finer)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The bin of every value, uint16[n, d]; L if it is missing, and 0 if it is below the first cut."""
        return np.maximum(bin_rows(self.features, self.cuts), 1) - np.uint16(1)


def order_key(values: np.ndarray) -> np.ndarray:
    """float32 -> int64 in 1 .. 2^32 in the same order; -0 and 0 have the same key."""
    words = (values.astype(np.float32) + np.float32(0)).view(np.uint32).astype(np.int64)
    return np.where(words >> 31, (1 << 32) - 1 - words, words + (1 << 31)) + 1


def keys_of(features: np.ndarray, optional: Sequence[int]) -> np.ndarray:
    """Return keys of values, 0 if missing; then 2^33 where an optional feature is missing: uint64[n, d + o]."""
    missing = np.isnan(features)
    keys = np.where(missing, 0, order_key(features))
    right = missing[:, list(optional)].astype(np.int64) << ORDER_BITS + 1
    return np.concatenate([keys, right], axis=1).astype(np.uint64)


def order_value(keys: np.ndarray) -> np.ndarray:
    """Invert `order_key`."""
    keys = np.asarray(keys, np.int64) - 1
    words = np.where(keys >> 31, keys - (1 << 31), (1 << 32) - 1 - keys)
    return words.astype(np.uint32).view(np.float32)


def bin_rows(features: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """features float32[n, d], cuts [d, L] -> uint16[n, d]: bin plus 1, 0 below the first cut, L + 1 if missing."""
    out = np.empty(features.shape, np.uint16)
    for f, line in enumerate(cuts):
        out[:, f] = np.searchsorted(line, features[:, f], side="right")
    out[np.isnan(features)] = cuts.shape[1] + 1
    return out


def counted(features: np.ndarray) -> list[Counted]:
    """features float32[n, d] -> the non-missing values of each feature."""
    return [Counted.of(column[~np.isnan(column)]) for column in features.T]


def make_bins(features: np.ndarray, size: int, finer: int = 1) -> Bins:
    """features float32[n, d] -> Bins with `size` private edges per feature and `finer` bins per edge."""
    return Bins.of(features, counted(features), size, finer)
