"""A party's own bins. Nothing here communicates.

Values are float32, as in XGBoost. Bin b of a feature holds cuts[b] <= x < cuts[b + 1]; missing values (NaN) have a bin
of their own, the last. Every `finer`-th cut is an edge, the threshold of a candidate split. Joint edges are found by
secure_tree/edges.py. A party's own K edges of a feature are its distinct values if there are at most K of them, else
its minimum and K - 1 inverted-cdf quantiles; where some of these are equal, the places that they leave go to quantiles
of the values that are no edge yet. `finer` bins between two edges are cut in the same way. Short lists are padded by
repeating the last cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

ORDER_BITS = 32


@dataclass(frozen=True)
class Bins:
    """A party's features float32[n, d] and the cuts of its bins, float32[d, L]: every `finer`-th one is an edge."""

    features: np.ndarray
    cuts: np.ndarray
    finer: int = 1

    @property
    def edges(self) -> np.ndarray:
        """float32[d, K]."""
        return self.cuts[:, :: self.finer]

    @cached_property
    def numbers(self) -> np.ndarray:
        """The bin of every value, uint16[n, d], L where it is missing. No value is below the least cut."""
        return bin_rows(self.features, self.cuts) - np.uint16(1)

    @cached_property
    def medians(self) -> np.ndarray:
        """The lower median of the values in every bin, float32[d, L]; of an empty one the cut."""
        out = self.cuts.copy()
        for line, column, cuts in zip(out, self.features.T, self.cuts, strict=True):
            present = np.sort(column[~np.isnan(column)])
            ends = np.append(np.searchsorted(present, cuts), present.size)
            full = np.flatnonzero(ends[1:] > ends[:-1])
            line[full] = present[(ends[full] + ends[full + 1] - 1) // 2]
        return out


def order_key(values: np.ndarray) -> np.ndarray:
    """float32 -> int64 in 1 .. 2^32 in the same order; -0 and 0 share a key."""
    words = (values.astype(np.float32) + np.float32(0)).view(np.uint32).astype(np.int64)
    return np.where(words >> 31, (1 << 32) - 1 - words, words + (1 << 31)) + 1


def order_value(keys: np.ndarray) -> np.ndarray:
    """Inverse of `order_key`."""
    keys = np.asarray(keys, np.int64) - 1
    words = np.where(keys >> 31, keys - (1 << 31), (1 << 32) - 1 - keys)
    return words.astype(np.uint32).view(np.float32)


def _spread(present: np.ndarray, size: int) -> np.ndarray:
    """Values, at least one -> the distinct ones, or the minimum and quantiles, padded to `size`."""
    chosen, others = np.unique(present), present
    if chosen.size > size:
        chosen = chosen[:1]
        while chosen.size < size:
            chosen = np.union1d(chosen, _quantiles(others, size - chosen.size))
            others = present[~np.isin(present, chosen)]
    return np.pad(chosen, (0, size - chosen.size), mode="edge")


def _quantiles(values: np.ndarray, count: int) -> np.ndarray:
    """Inverted-cdf quantiles that cut values, at least one, into parts of equal size, if possible."""
    return np.quantile(values, np.arange(1, count + 1) / (count + 1), method="inverted_cdf")


def _cuts(column: np.ndarray, size: int, finer: int) -> np.ndarray:
    """A column -> the cuts of its `size * finer` bins."""
    present = np.sort(column[~np.isnan(column)])
    if present.size == 0:
        return np.zeros(size * finer)
    edges = _spread(present, size)
    if finer == 1:
        return edges
    between = np.split(present, np.searchsorted(present, edges[1:]))
    return np.concatenate(
        [_spread(x, finer) if x.size else np.repeat(edge, finer) for x, edge in zip(between, edges, strict=True)]
    )


def bin_rows(features: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """features float32[n, d], cuts [d, L] -> uint16[n, d]: bin plus 1, 0 below the least cut, L + 1 missing."""
    out = np.empty(features.shape, np.uint16)
    for f, line in enumerate(cuts):
        out[:, f] = np.searchsorted(line, features[:, f], side="right")
    out[np.isnan(features)] = cuts.shape[1] + 1
    return out


def make_bins(features: np.ndarray, size: int, finer: int = 1) -> Bins:
    """features float32[n, d] -> Bins with `size` private edges a feature, and `finer` bins for each."""
    cuts = [_cuts(column, size, finer) for column in features.T]
    return Bins(features, np.stack(cuts).astype(np.float32), finer)
