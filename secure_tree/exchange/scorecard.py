"""A revealed model of stumps as a scorecard: the points of each feature's intervals, which add up to a score.

Stumps (`max_depth=1`) of one feature are a step function of it, so a model of stumps is a sum of step functions, and
its margin is a linear function of the points. Points are not rounded.
Source     points to double the odds: Siddiqi, Credit Risk Scorecards, 2006
"""

from __future__ import annotations

import math

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.host.frames import pd
from secure_tree.exchange.plain_model import NO_SPLIT, PlainModel


def scorecard(model: PlainModel, points: float = 600.0, odds: float = 50.0, double: float = 20.0) -> pd.DataFrame:
    """Return the intervals of each feature, `from` <= x < `to` or missing, and their points; first the base points.

    A row whose odds against label 1 are `odds` to 1 has `points`, and `double` points more double them. Raises
    ConfigError unless the model has stumps and two classes, and the scale is positive; and DataError if both parties
    have a feature of the same name.
    """
    if model.features.shape[1] != 1 or model.objective != "binary:logistic":
        raise ConfigError("a scorecard must have stumps and two classes: train binary:logistic with max_depth=1")
    if not (0 < double < math.inf and 0 < odds < math.inf and math.isfinite(points)):
        raise ConfigError(f"double and odds must be positive, and points finite, got {double}, {odds} and {points}")
    if model.sets:
        raise ConfigError(
            "a scorecard must have splits on numbers and single categories: train with a larger max_cat_to_onehot"
        )
    factor = double / math.log(2)
    split = model.features[:, 0]
    used = [name for f, name in enumerate(model.names) if f in split]
    if len(set(used)) < len(used):
        twice = next(name for name in used if used.count(name) > 1)
        raise DataError(f"a scorecard must have features of different names, but both parties have {twice!r}")
    unsplit = split == NO_SPLIT
    # A tree without a split sends every row right.
    base = model.base_margins[0] + model.leaves[unsplit, 1].sum()
    rows = [("", np.nan, np.nan, False, points - factor * (math.log(odds) + base))]
    for f, name in enumerate(model.names):
        mine = split == f
        if not mine.any():
            continue
        cuts = model.thresholds[mine, 0]
        edges = [-np.inf, *np.unique(cuts), np.inf]
        goes_left = [(start < cuts, False) for start in edges[:-1]] + [(model.missing_left[mine, 0].astype(bool), True)]
        for place, (left, missing) in enumerate(goes_left):
            margin = np.where(left, model.leaves[mine, 0], model.leaves[mine, 1]).sum()
            ends = (np.nan, np.nan) if missing else (float(edges[place]), float(edges[place + 1]))
            rows.append((name, *ends, missing, -factor * margin))
    return pd.DataFrame(rows, columns=["feature", "from", "to", "missing", "points"])


def scored(card: pd.DataFrame, X: pd.DataFrame) -> np.ndarray:
    """Return the points of each row, float64[n]. Raises DataError."""
    total = np.full(len(X), card["points"].iloc[0])
    for name, lines in card[1:].groupby("feature", sort=False):
        if name not in X:
            raise DataError(f"X has no column {name!r}, which the scorecard needs")
        values = X[name].to_numpy(np.float32)
        steps = lines[~lines["missing"]]
        places = np.searchsorted(steps["to"].to_numpy(np.float32), values, side="right")
        points = np.append(steps["points"], lines.loc[lines["missing"], "points"])
        total += points[np.where(np.isnan(values), len(steps), np.minimum(places, len(steps) - 1))]
    return total
