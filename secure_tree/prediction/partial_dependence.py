"""Partial dependence of the margin on a feature: a curve of up to 10 points, revealed to both if both ask for it.

Functionality  a model, the number of a feature, public values of it -> the mean margin where it has each value
How            path-dependent: a node that splits on the feature sends all rows where the value belongs, any other node
               as many to each side as in the training, by sums of hessians. A leaf counts by the product on its path
Messages       the ratios of the hessians (reasons/path_values.py) beside a comparison of all thresholds
               with the values; per node and point a choice; per level a product and a truncation; one with the leaves
Error          2^-18 of the largest leaf weight per tree
Security       semi-honest, perfect: composition of perfect protocols. A curve of many points tells thresholds of the
               feature, and the leaves behind them, so there are at most 10, by consent as for importance
Source         Friedman, Annals of Statistics 29(5), 2001; scikit-learn's method "recursion"
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import and_bits, select, to_ring
from mpc.comparison.comparison import below
from mpc.errors import ConfigError, DataError
from mpc.party import Party
from mpc.planning import planned
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, stack
from secure_tree.agreement.models import agree_on_dependence
from secure_tree.data.bins import keys_of
from secure_tree.model.ensemble import Ensemble
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.reasons.path_values import SCALE, cover_ratios
from secure_tree.prediction.routers import THRESHOLD_BITS
from secure_tree.public.names import column_of
from secure_tree.public.numerics import MARGIN_SCALE

MOST_POINTS = 10
STAGE = "partial_dependence"


def partial_dependence(party: Party, model: SharedModel, feature: str | int, points: Sequence[float]) -> np.ndarray:
    """Return the mean margin at each point, float64[points], for several classes [points, classes].

    Raises ConfigError, DataError.
    """
    names, values = model.facts.names, [float(np.float32(point)) for point in points]
    if isinstance(feature, str) and names.count(feature) != 1:
        raise ConfigError(
            f"feature must be a name that one feature of the model has, or its number, 0 .. {len(names) - 1}, got "
            f"{feature!r}"
        )
    number = names.index(feature) if isinstance(feature, str) else feature
    if not 0 <= number < len(names):
        raise ConfigError(f"feature must be a number 0 .. {len(names) - 1}, got {number}")
    if number in model.facts.layout.in_sets:
        raise ConfigError(
            f"feature must be a number or a category of its own, and column {column_of(names[number])!r} is split by "
            "sets of categories: train with a larger max_cat_to_onehot"
        )
    if not 1 <= len(values) <= MOST_POINTS or not all(map(math.isfinite, values)):
        raise ConfigError(f"points must be 1 to {MOST_POINTS} finite numbers, got {list(points)}")
    if model.ensemble.statistics is None:
        raise DataError("the model has no sums of hessians, which partial dependence needs: train or share it again")
    if party.workers or party.audit:
        raise ConfigError("partial dependence must run in one process per party and without audit")
    agree_on_dependence(party, model, number, values)
    classes = model.config.classes
    what = f"the mean margin at {len(values)} values of feature {names[number]!r}"

    def program(party: Party) -> np.ndarray:
        opened = party.reveal(party.run(dependence(party, model.ensemble, number, values, classes)), what=what)
        assert opened is not None, "revealed to both"
        return opened

    curve = planned(party, STAGE, program) * model.facts.margin_unit
    return curve if model.config.num_class else curve[:, 0]


def dependence(party: Party, trees: Ensemble, feature: int, points: Sequence[float], classes: int) -> Steps[AShare]:
    """-> [mean margin] at MARGIN_SCALE, [points, classes]."""
    keys = keys_of(np.array(points, np.float32)[:, None], [])[:, 0].astype(np.int64).tolist()
    mine = trees.features[..., feature]
    # A value goes left iff its key is below the threshold.
    split, low = yield from parallel(
        cover_ratios(party, trees), below.steps(party, trees.thresholds, [key + 1 for key in keys], THRESHOLD_BITS)
    )
    t, m, count = low.shape
    wide = mine.map(lambda b: np.repeat(b[..., None], count, axis=-1))
    turns = yield from and_bits.steps(party, wide, ~low)
    left, others = yield from parallel(
        to_ring.steps(party, turns), select.steps(party, ~mine, split[..., 0].at_scale(0))
    )
    to_left = left.times(1 << SCALE) + others.map(lambda w: np.repeat(w[..., None], count, axis=-1))
    reached = (to_left[:, :1] - to_left[:, :1]) + (1 << SCALE)
    start = 0
    while start < m:
        size = start + 1
        here = to_left[:, start : start + size]
        gone = yield from truncate.steps(party, (yield from multiply.steps(party, reached, here)), SCALE)
        gone = gone.at_scale(0)
        reached = stack([gone, reached - gone], axis=2).reshape(t, 2 * size, count)
        start += size
    leaves = trees.leaves.map(lambda w: np.repeat(w[..., None], count, axis=-1))
    weighted = yield from multiply.steps(party, reached, leaves)
    short = yield from truncate.steps(party, weighted, SCALE)
    of_classes = short.at_scale(MARGIN_SCALE).sum(axis=1).reshape(-1, classes, count).sum(axis=0)
    return of_classes.T + trees.base.map(lambda w: np.repeat(w[None], count, axis=0))
