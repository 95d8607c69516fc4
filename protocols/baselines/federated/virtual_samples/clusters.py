"""Virtual samples: clusters of rows, sums over clusters, and the minimum number of rows behind a sum."""

from __future__ import annotations

import numpy as np


def assign(boundaries: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Assign a cluster to every value: ascending boundaries float32[d, v - 1], X float32[n, d] -> int32[n, d] < v.

    Cluster c of feature j has boundaries[j, c - 1] < x <= boundaries[j, c] (algorithm 1, lines 3 and 4).
    """
    columns = [np.searchsorted(edges, X[:, j], side="left") for j, edges in enumerate(boundaries)]
    return np.stack(columns, axis=1).astype(np.int32)


def cluster_sums(
    clusters: np.ndarray, slot: np.ndarray, slots: int, v: int, weights: list[np.ndarray]
) -> list[np.ndarray]:
    """Run algorithm 1 at one node: for each of `weights` float64[n] (g, h, ...) its sums, float64[slots, d, v].

    clusters int32[n, d]; slot int64[n] is the tree node of each row.
    """
    d = clusters.shape[1]
    sums = [np.empty((slots, d, v)) for _ in weights]
    base = slot * v
    for j in range(d):
        cell = base + clusters[:, j]
        for out, weight in zip(sums, weights, strict=True):
            out[:, j] = np.bincount(cell, weight, slots * v).reshape(slots, v)
    return sums


def merge_small_groups(sums: np.ndarray, counts: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Merge groups of fewer than `least` rows: sums float64[k, slots, d, v], counts [slots, d, v].

    In each tree node and feature, clusters are visited in order; rows are carried to the next cluster until `least`
    rows are together, and the rest joins the last group. Totals do not change, except that a tree node with fewer than
    `least` rows is dropped entirely.
    """
    if least == 1:
        return sums, counts
    merged, sizes = np.zeros_like(sums), np.zeros_like(counts)
    carried, waiting = np.zeros_like(sums[..., 0]), np.zeros_like(counts[..., 0])
    last = np.full(waiting.shape, -1)
    for c in range(counts.shape[-1]):
        carried, waiting = carried + sums[..., c], waiting + counts[..., c]
        full = waiting >= least
        merged[..., c], sizes[..., c] = carried * full, waiting * full
        last = np.where(full, c, last)
        carried, waiting = carried * ~full, waiting * ~full
    slot, feature = np.nonzero((last >= 0) & (waiting > 0))
    end = last[slot, feature]
    merged[:, slot, feature, end] += carried[:, slot, feature]
    sizes[slot, feature, end] += waiting[slot, feature]
    return merged, sizes


def smallest_group(counts: np.ndarray) -> int:
    """Return the fewest rows behind any nonempty sum; 0 if all are empty."""
    return int(counts[counts > 0].min(initial=np.iinfo(np.int64).max)) if (counts > 0).any() else 0
