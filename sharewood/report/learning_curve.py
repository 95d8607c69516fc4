"""Predictions after increasing numbers of rounds, revealed to the owner of the row; the training is not involved.

A round's contribution to the margin is a prediction by the trees of that round only, so that all points of a curve
together cost as much computation as one prediction of the same rows, plus the messages of each.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpc.host.frames import pd
from mpc.party import Party
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.public.config import Method

POINTS = 50


def points(rounds: int) -> list[int]:
    """Return the rounds after which a curve has a point: all, or POINTS of them including the last."""
    return sorted({round(share * rounds) for share in np.linspace(0, 1, min(rounds, POINTS) + 1)[1:]})


def staged_margins(
    party: Party, fitted: SecureXGBClassifier | SecureXGBRegressor, features: pd.DataFrame, method: Method
) -> np.ndarray:
    """Return margins of own rows at each of the `points`, float64[points, n], or [points, n, classes].

    Both parties call it. Raises DataError.
    """
    model = fitted.model
    assert model is not None, "the estimator has been fitted"
    part = type(fitted)(**fitted.get_params())
    staged: list[np.ndarray] = []
    start = 0
    for count in points(model.rounds):
        trees = slice(start * model.config.trees_of_round, count * model.config.trees_of_round)
        part.model = replace(model, ensemble=model.ensemble.part(trees))
        margin = part.predict_margin(party, features, method)
        staged.append(margin if not staged else staged[-1] + margin)
        start = count
    return np.stack(staged)
