"""SimFL in one process: the baseline of the FedXGBllr paper.

Functionality  K parties with rows of the same features -> one ensemble, whose trees the parties grow in turn
Before         every row has `HASHES` p-stable hashes; each party learns, for each of its rows, which row of every other
               party has most hashes in common with it
Tree           every party computes g and h of its own rows and sends them to the party whose turn it is, which adds
               them to its own row that is most similar, and grows a tree on its own rows with these sums
Security       not modelled: hashes and sums of g and h are in the clear
Source         Li, Wen, He: Practical Federated Gradient Boosting Decision Trees, AAAI 2020. Features are standardised
               before they are hashed, which the paper leaves open
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np

from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.fedxgbllr.trees import booster_parameters

HASHES, WIDTH = 40, 4.0


def margins(
    X: np.ndarray,
    y: np.ndarray,
    parts: Sequence[np.ndarray],
    test: np.ndarray,
    config: FedXGBllrConfig,
    scale: float = 1.0,
) -> np.ndarray:
    """Train on the rows `parts` of each party, and predict the rows `test`: margins or labels, float64.

    `config` gives the number of trees and XGBoost's parameters; labels of a regression are divided by `scale`.
    """
    import xgboost as xgb

    training = np.concatenate(parts)
    place = np.split(np.arange(len(training)), np.cumsum([len(part) for part in parts])[:-1])
    rng = np.random.default_rng(config.seed)
    hashes = _hashes(X[training], rng)
    # The row to which the g and h of every row are added when a party grows a tree: its most similar row, or one of
    # several.
    similar = []
    for own in place:
        to = _most_similar(hashes, hashes[own], rng.integers(len(own), size=len(training)))
        to[own] = np.arange(len(own))
        similar.append(to)
    targets, everything = y[training], xgb.DMatrix(X[np.r_[training, test]], nthread=1)
    tables = [xgb.DMatrix(X[part], nthread=1) for part in parts]
    margin = np.zeros(len(training) + len(test))
    for tree in range(config.total_trees):
        turn = tree % len(parts)
        g, h = _derivatives(margin[: len(training)], targets, config)
        sums = tuple(np.bincount(similar[turn], each, len(parts[turn])) for each in (g, h))
        parameters = booster_parameters(config, scale) | {"seed": config.seed + tree}
        booster = xgb.train(parameters, tables[turn], 1, obj=lambda margin, table, sums=sums: sums)
        margin += booster.predict(everything, output_margin=True)
    return margin[len(training) :]


def _derivatives(margin: np.ndarray, y: np.ndarray, config: FedXGBllrConfig) -> tuple[np.ndarray, np.ndarray]:
    if not config.classification:
        return margin - y, np.ones(len(y))
    p = 1 / (1 + np.exp(-margin))
    return p - y, np.maximum(p * (1 - p), 1e-16)


def _hashes(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """int16[n, HASHES]: floor((a x + b) / WIDTH) with normal a and uniform b."""
    deviation = X.std(axis=0, dtype=np.float64)
    scaled = (X - X.mean(axis=0, dtype=np.float64)) / np.where(deviation > 0, deviation, 1)
    a, b = rng.normal(size=(X.shape[1], HASHES)), rng.uniform(0, WIDTH, HASHES)
    return np.clip(np.floor((scaled @ a + b) / WIDTH), -(2**15), 2**15 - 1).astype(np.int16)


@numba.njit(cache=True)
def _most_similar(rows: np.ndarray, candidates: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return, for each of int16[n, H], one of int16[m, H] with most hashes in common: int64[n].

    Of several it is the first from candidate `start` int64[n] on.
    """
    found = np.empty(len(rows), np.int64)
    by_hash = np.ascontiguousarray(candidates.T)
    for i in range(len(rows)):
        common = np.zeros(len(candidates), np.uint8)
        for k in range(rows.shape[1]):
            common += by_hash[k] == rows[i, k]
        later, first = common[start[i] :], common[: start[i]]
        found[i] = start[i] + later.argmax()
        if len(first) and first.max() > later.max():
            found[i] = first.argmax()
    return found
