"""Joint edges of two tables in the clear, the twin of `secure_tree.setup.edges`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from mpc.comparison.pooled_quantiles import PooledColumn
from secure_tree.setup.edges import Known, columns, joint_edges, without


def quantile(column: PooledColumn, rank: int, parts: int) -> int:
    """Return the smallest key up to which keys have at least rank / parts of the mass; 0 if the mass is 0."""
    wanted = rank * column.masses[-1]
    return int(column.keys[np.searchsorted(parts * column.masses[1:], wanted)]) if wanted else 0


def pooled_edges(
    tables: Sequence[np.ndarray],
    masses: Sequence[np.ndarray],
    size: int,
    bits: int,
    fixed: Mapping[int, np.ndarray] = MappingProxyType({}),
) -> np.ndarray:
    """Features float32[n, d] and masses int64[n] of both parties -> joint edges, float32[d, K]."""
    values = columns(np.concatenate(tables), np.concatenate(masses), bits)

    def quantiles(known: Known, rank: np.ndarray, parts: np.ndarray) -> np.ndarray:
        found = [
            [quantile(column, r, s) for r, s in zip(*lines, strict=True)]
            for column, *lines in zip(without(values, known), rank, parts, strict=True)
        ]
        return np.array(found)

    return joint_edges(quantiles, len(values), size, bits, fixed)
