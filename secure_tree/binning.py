"""A party's own bins: edges, bin numbers, and the largest training value in every bin. Nothing here communicates.

Values are float32, as in XGBoost. A feature's edges are its distinct values if there are at most K of them, else its
minimum and K - 1 inverted-cdf quantiles, padded to K by repeating the last edge; bin b holds E[b] <= x < E[b + 1].
Missing values (NaN) have a bin of their own, the last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

KEY_BITS = 32


@dataclass(frozen=True)
class Bins:
    """One party's bins of d features: edges float32[d, K], largest float32[d, K], numbers uint16[n, d] up to K."""

    edges: np.ndarray
    largest: np.ndarray
    numbers: np.ndarray

    @property
    def size(self) -> int:
        return self.edges.shape[1]


def order_key(values: np.ndarray) -> np.ndarray:
    """float32 -> int64 in 1 .. 2^32 in the same order; -0 and 0 share a key."""
    words = (values.astype(np.float32) + np.float32(0)).view(np.uint32).astype(np.int64)
    return np.where(words >> 31, (1 << 32) - 1 - words, words + (1 << 31)) + 1


def order_value(keys: np.ndarray) -> np.ndarray:
    """Inverse of `order_key`."""
    keys = np.asarray(keys, np.int64) - 1
    words = np.where(keys >> 31, keys - (1 << 31), (1 << 32) - 1 - keys)
    return words.astype(np.uint32).view(np.float32)


def _edges(column: np.ndarray, size: int) -> np.ndarray:
    present = column[~np.isnan(column)]
    if present.size == 0:
        return np.zeros(size)
    distinct = np.unique(present)
    if distinct.size > size:
        quantiles = np.quantile(present, np.arange(1, size) / size, method="inverted_cdf")
        distinct = np.unique(np.concatenate([distinct[:1], quantiles]))
    return np.pad(distinct, (0, size - distinct.size), mode="edge")


def bin_rows(features: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """features float32[n, d], edges [d, K] -> uint16[n, d]: bin plus 1, 0 below the least edge, K + 1 missing."""
    out = np.empty(features.shape, np.uint16)
    for f, line in enumerate(edges):
        out[:, f] = np.searchsorted(line, features[:, f], side="right")
    out[np.isnan(features)] = edges.shape[1] + 1
    return out


def make_bins(features: np.ndarray, size: int) -> Bins:
    """features float32[n, d] -> Bins with `size` edges a feature."""
    d = features.shape[1]
    edges = np.stack([_edges(features[:, f], size) for f in range(d)]).astype(np.float32)
    numbers = bin_rows(features, edges) - np.uint16(1)
    largest = np.full(edges.shape, -np.inf, np.float32)
    for f in range(d):
        present = numbers[:, f] < size
        np.maximum.at(largest[f], numbers[present, f], features[present, f])
    # Only repeated edges leave a bin empty; the running maximum gives those a value that orders them.
    return Bins(edges, np.maximum.accumulate(largest, axis=1), numbers)
