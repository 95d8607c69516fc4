"""A client's rows, checked at its door."""

from __future__ import annotations

import numpy as np

from mpc.errors import DataError
from secure_tree.inputs import ColumnLike, TableLike
from secure_tree.schema import read_features


def read_rows(
    source: str, X: TableLike, y: ColumnLike, classes: bool
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Features float32[n, d], labels float64[n], 0 or 1 where `classes`, and the features' names.

    Raises DataError, which names `source`.
    """
    features, names = read_features(X, source=source)
    try:
        labels = np.asarray(y, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise DataError(f"{source}: y: labels must be numbers") from None
    if len(labels) != len(features) or not len(labels):
        raise DataError(
            f"{source}: y must have a label per row, and X rows: got {len(labels)} labels for {len(features)} rows"
        )
    bad = ~np.isin(labels, (0, 1)) if classes else ~np.isfinite(labels)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        wanted = "0 or 1" if classes else "a finite number"
        raise DataError(f"{source}: y: row {row}: label must be {wanted}, got {labels[row]:g}")
    return features, labels, names
