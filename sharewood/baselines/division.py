"""Divisions of a table's rows among clients, into parts of equal size: clients that are alike, and that differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

Division = Literal["equal", "component", "labels"]
DIVISIONS: tuple[Division, ...] = get_args(Division)
_NOISE = 2.0


def divide(X: np.ndarray, y: np.ndarray, clients: int, division: Division, seed: int) -> list[np.ndarray]:
    """Divide rows float[n, d] with labels float[n] among clients: each client's row numbers, int64.

    equal      in the order of the table, which the caller has shuffled
    component  along the first principal component of the standardised features, so that clients have different features
    labels     by the rank of the label, as a fraction of all ranks, plus noise from 0 to 2, so that they have
               different shares of positives, or different labels
    """
    orders: dict[Division, Callable[[], np.ndarray]] = {
        "equal": lambda: np.zeros(len(y)),
        "component": lambda: _first_component(X),
        "labels": lambda: _noisy_ranks(y, np.random.default_rng(seed)),
    }
    return np.array_split(orders[division]().argsort(kind="stable"), clients)


def _first_component(X: np.ndarray) -> np.ndarray:
    """Return the projection of each row on the first principal component; a missing value counts as the mean."""
    deviation = np.nanstd(X, axis=0, dtype=np.float64)
    centred = np.nan_to_num((X - np.nanmean(X, axis=0, dtype=np.float64)) / np.where(deviation > 0, deviation, 1))
    _, vectors = np.linalg.eigh(centred.T @ centred)
    first = vectors[:, -1]
    return np.asarray(centred @ first * np.sign(first[np.abs(first).argmax()]))


def _noisy_ranks(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    ranks = np.lexsort((rng.random(len(y)), y)).argsort()
    return ranks / len(y) + _NOISE * rng.random(len(y))
