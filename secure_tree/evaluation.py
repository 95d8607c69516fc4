"""How well the first k trees do on rows held out of the training: computed on shares, only the number revealed.

Classification: the share of rows whose margin is above a threshold and whose label is 0, or the other way round.
Regression: the root mean squared error.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from mpc.beaver import multiply
from mpc.bit_product import to_ring
from mpc.comparison import below
from mpc.party import Party
from mpc.ring import encode_signed
from mpc.shares import AShare, BShare
from mpc.tracing import Trace
from secure_tree.boost import Ensemble
from secure_tree.model import SharedModel
from secure_tree.numerics import LEAF_SCALE
from secure_tree.predict import margins, rows_of

MARGIN_BITS = 48


def learning_curve(
    party: Party,
    model: SharedModel,
    features: np.ndarray,
    labels: np.ndarray,
    rows: tuple[int, int],
    every: int,
    threshold: float,
) -> list[tuple[int, float]]:
    """Own held-out rows, float32[rows[rank], d], and labels -> [(trees, error)] after each `every` trees and all.

    Public: `rows` of both parties and the errors. `threshold` is a margin; regression does not use it.
    Stages of the meter: evaluate_offline, evaluate.
    """
    if sum(rows) == 0:
        return []
    trees = model.ensemble.leaves.shape[0]
    marks = sorted({*range(every, trees, every), trees})

    def program(party: Party) -> list[np.ndarray]:
        errors, total, done = [], None, 0
        for mark in marks:
            part = _trees(model.ensemble, slice(done, mark))
            base = 0 if done else model.base
            step = party.run(margins(party, part, base, model.edges, features, rows, "thresholds"))
            total, done = step if total is None else total + step, mark
            error = (
                _wrong(party, total, labels, rows, threshold)
                if model.config.logistic
                else _squares(party, total, labels / model.shape.label_scale, rows)
            )
            opened = party.reveal(error, what=f"error on held-out rows after {mark} trees")
            assert opened is not None, "revealed to both"
            errors.append(opened)
        return errors

    with party.stage("evaluate_offline"):
        trace = Trace(party)
        program(trace.party)
        party.randomness.provide([(trace.cut(), 1)])
    with party.stage("evaluate"):
        means = [float(error) / sum(rows) for error in program(party)]
    if not model.config.logistic:
        means = [math.sqrt(mean) / (1 << LEAF_SCALE) * model.shape.label_scale for mean in means]
    return list(zip(marks, means, strict=True))


def _trees(ensemble: Ensemble, part: slice) -> Ensemble:
    return dataclasses.replace(
        ensemble,
        sets=[sets[part] for sets in ensemble.sets],
        **{
            field.name: getattr(ensemble, field.name)[part]
            for field in dataclasses.fields(ensemble)
            if isinstance(getattr(ensemble, field.name), AShare | BShare)
        },
    )


def _wrong(party: Party, margin: AShare, labels: np.ndarray, rows: tuple[int, int], threshold: float) -> AShare:
    """[number of rows on the wrong side of the threshold]."""
    cut = math.floor(threshold * (1 << LEAF_SCALE)) + 1
    low = below(party, margin, [cut], MARGIN_BITS)[..., 0]
    own = np.zeros(sum(rows), np.uint8)
    own[rows_of(party.rank, rows)] = 1 - labels.astype(np.uint8)
    return to_ring(party, BShare(low.bits ^ own, party.rank)).sum()


def _squares(party: Party, margin: AShare, labels: np.ndarray, rows: tuple[int, int]) -> AShare:
    """[sum of squared errors] at twice LEAF_SCALE, as errors stay below 2^4 label scales."""
    own = np.zeros(sum(rows), np.int64)
    own[rows_of(party.rank, rows)] = np.round(labels * (1 << LEAF_SCALE))
    error = AShare(margin.words - encode_signed(own), party.rank)
    return multiply(party, error, error).sum()
