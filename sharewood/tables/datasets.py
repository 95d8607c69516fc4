"""The built-in data set, and the choice of validation rows: by a fixed seed, the same in every command."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mpc.errors import DataError
from mpc.host.frames import pd

_SEED = 2026


def breast_cancer() -> tuple[pd.DataFrame, np.ndarray, str]:
    """Return scikit-learn's breast cancer set: 569 rows of 30 features, labels float64, and its title."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    return (
        pd.DataFrame(bunch.data, columns=bunch.feature_names),
        bunch.target.astype(float),
        "breast cancer (scikit-learn)",
    )


def shuffled(rows: int) -> np.ndarray:
    """Return the rows in a random order, int64."""
    return np.random.default_rng(_SEED).permutation(rows)


def hold_out(rows: int, test_size: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on, and the fraction `test_size` of all rows for validation; both shuffled, int64."""
    order = shuffled(rows)
    held = round(test_size * rows)
    return order[held:], order[:held]


def check_same_columns(first: tuple[Path, pd.DataFrame], second: tuple[Path, pd.DataFrame]) -> None:
    """Raise DataError unless two tables by rows have the same feature columns in the same order."""
    if list(first[1]) != list(second[1]):
        raise DataError(f"{second[0]}: its feature columns or their order differ from those of {first[0]}")
