"""Digests of all public numbers that the parties compute with, compared before the first share is made.

Each party derives these numbers by itself, and they are the same on every machine (secure_tree/public/exact.py). If a
processor, a library or a modified source makes one of them differ, both parties refuse to begin, because shares would
become noise. Requests to the dealer are not included: the dealer compares the parties' plans request by request.
"""

from __future__ import annotations

import numpy as np

from mpc.errors import ConfigError
from mpc.functions import reciprocal, sigmoid, sigmoid_table
from mpc.kernels import trigonometry
from mpc.party import Party
from secure_tree.agreement.messages import Hexadecimal, Message, Text, exchange
from secure_tree.data.table import held_rows
from secure_tree.functions import curves, metrics
from secure_tree.model.shared_model import SharedModel
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import TrainingContext
from secure_tree.public.exact import digest
from secure_tree.public.numerics import given_margin
from secure_tree.public.sampling import column_samples

# Angles at which both parties must compute the same sines.
_PROBE = np.arange(1000, dtype=np.uint32) * np.uint32(268_435)


class Numbers(Message):
    """Digests of public numbers, by name."""

    digests: dict[Text, Hexadecimal]


def of_training(context: TrainingContext) -> dict[str, str]:
    """Return the digests that must be equal at both parties. Raises RangeError if the arithmetic cannot hold it."""
    config, facts = context.config, context.facts
    # By columns, everyone has the same rows.
    rows = zip(facts.validation_rows, facts.layout.rows, strict=True)
    held_out = [held_rows(config, own + trained_on) for own, trained_on in rows]
    return {
        "tables of functions": _tables(config),
        "public facts": digest(facts),
        "samples of features": digest(*column_samples(context)),
        "held-out rows": digest(*held_out),
        **({} if config.squared else of_scales(context)),
    }


def of_scales(context: TrainingContext) -> dict[str, str]:
    """Return the digest of the scales. Squared error needs the unit of its labels for them. Raises RangeError."""
    return {"scales": digest(context.numerics, given_margin(context.config))}


def of_model(model: SharedModel) -> str:
    """Return a digest of everything public in one half of a model."""
    e = model.ensemble
    shapes = [list(x.shape) for x in (*e.sets, e.features, e.null, e.thresholds, e.chosen, e.leaves, e.base)]
    return digest(model.config.model_dump(), model.facts, shapes, e.paths is not None)


def agree_on_numbers(party: Party, tag: str, digests: dict[str, str]) -> None:
    """Raise ConfigError at both parties unless all digests are equal."""
    theirs = exchange(party, tag, Numbers.of(digests=digests)).digests
    for what in digests | theirs:
        if digests.get(what) != theirs.get(what):
            raise ConfigError(
                f"the parties differ in the {what:.40}, which must be the same at both: install the same release of "
                "Sharewood and of its libraries at both"
            )


def _tables(config: TrainConfig) -> str:
    """Return a digest of all constants and, for classes, of the sines that this machine computes from an angle."""
    ends = [sigmoid.AT_CLIP, sigmoid.SLOPE_AT_CLIP, reciprocal.START_CONSTANT, reciprocal.START_SLOPE]
    every = [curves.SOFTPLUS, curves.LOG_SIGMOID, curves.EXP, curves.LOG]
    every += [curves.SOFT_EXP, curves.HUBER_LOSS, curves.HUBER_SLOPE, curves.HUBER_CURVATURE]
    steps = [curve.steps for curve in every]
    knots = [[curve.knots, curve.scale] for curve in every]
    parts = [sigmoid.factors(), sigmoid.constants(), ends, metrics.CUTS, knots, *steps]
    parts.append(sigmoid_table.table().tables)
    if config.log_odds:
        ones = np.ones((trigonometry.TERMS, 2, _PROBE.size), np.uint64)
        parts.append(trigonometry.series(_PROBE, ones, sigmoid.factors()))
    return digest(*parts)
