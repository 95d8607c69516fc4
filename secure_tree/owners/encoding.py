"""Labels and weights of an owner's rows as bits, which cannot be out of range, and their lift to words.

Functionality  <bits> of labels and weights -> [labels] over the bound of all labels, [weights] over the weight scale
Encoding       a bit for each class; a number as NUMBER_BITS bits of what it is over the owner's own bound, a power of
               two that is public, and a bit more if it may be negative; a weight as WEIGHT_BITS bits likewise
Error          half a unit: 2^-34 of the owner's bound, 2^-20 for weights; and as the words of a party's own rows
Messages       bits to words (mpc/arithmetic/bits.py), and a floor where a bound is below that of all rows
Security       semi-honest, perfect: composition of perfect protocols
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from mpc.arithmetic.bits import to_ring
from mpc.errors import ConfigError, DataError
from mpc.party import Party
from mpc.rounding.truncation import floor
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, public_ring
from secure_tree.data.table import Table
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerFacts, TrainingContext
from secure_tree.public.exact import ceil_log2
from secure_tree.public.numerics import LABEL_SCALE, MARGIN_SCALE, WEIGHT_INPUT_SCALE

NUMBER_BITS = LABEL_SCALE
WEIGHT_BITS = 20
# Exponents of the bounds of labels and weights.
LEAST_EXPONENT, LARGEST_EXPONENT = -100, 100
Exponent = Annotated[int, Field(ge=LEAST_EXPONENT, le=LARGEST_EXPONENT)]


def check_contributable(config: TrainConfig) -> None:
    """Raise ConfigError unless owners can contribute labels of the objective."""
    if not (config.logistic or config.squared or config.counts):
        raise ConfigError(
            f"owners cannot contribute under {config.objective} yet: use binary:logistic, multi:ova, "
            "reg:squarederror or count:poisson, or let the parties have all rows"
        )


def label_width(config: TrainConfig) -> int:
    """Return the number of bits of a row's label."""
    return config.classes if config.logistic else NUMBER_BITS + (not config.counts)


def exponents(config: TrainConfig, table: Table) -> tuple[int | None, int | None]:
    """Return the exponents of powers of two above all labels and weights; None for classes, zeros, no weights.

    Raises DataError.
    """
    assert table.labels is not None, "an owner by rows has labels"
    return None if config.logistic else _exponent("label", table.labels), (
        None if table.weights is None else _exponent("weight", table.weights) or 0
    )


def _exponent(what: str, values: np.ndarray) -> int | None:
    largest = float(np.abs(values).max())
    above = math.frexp(largest)[1]
    if largest and not LEAST_EXPONENT <= above <= LARGEST_EXPONENT:
        raise DataError(f"the largest {what} must be between 1e-30 and 1e30 in magnitude, got {largest:g}: scale them")
    return above if largest else None


def label_bits(config: TrainConfig, table: Table, exponent: int | None) -> np.ndarray:
    """Return labels as bits, uint8[label_width, n], the lowest first."""
    assert table.labels is not None, "an owner by rows has labels"
    if config.logistic:
        labels = table.labels.astype(np.int64)
        return (labels == np.arange(config.num_class)[:, None] if config.num_class else labels[None]).astype(np.uint8)
    numbers = _integers(table.labels, exponent or 0, NUMBER_BITS)
    return _bits(numbers if config.counts else numbers + (1 << NUMBER_BITS), label_width(config))


def weight_bits(weights: np.ndarray, exponent: int) -> np.ndarray:
    """Return weights as bits, uint8[WEIGHT_BITS, n], the lowest first."""
    return _bits(_integers(weights, exponent, WEIGHT_BITS), WEIGHT_BITS)


def _integers(values: np.ndarray, exponent: int, bits: int) -> np.ndarray:
    most = (1 << bits) - 1
    return np.clip(np.round(np.ldexp(values, bits - exponent)), -most, most).astype(np.int64)


def _bits(words: np.ndarray, width: int) -> np.ndarray:
    return (words >> np.arange(width)[:, None] & 1).astype(np.uint8)


def lift_labels(party: Party, context: TrainingContext, owner: OwnerFacts, bits: BShare) -> Steps[AShare]:
    """<labels>, [label_width, n] -> [labels], [classes, n]: 0 and 1, counts over the label scale at MARGIN_SCALE, or
    numbers over the label bound at LABEL_SCALE.
    """
    words = yield from to_ring.steps(party, bits)
    if context.config.logistic:
        return words
    number = words.times(_powers(len(bits))).sum(axis=0).reshape(1, -1)
    scale = MARGIN_SCALE if context.config.counts else LABEL_SCALE
    if not context.config.counts:
        number = number - (1 << NUMBER_BITS)
    below = 0 if owner.exponent is None else ceil_log2(context.facts.label_bound) - owner.exponent
    return (yield from _rescaled(party, number, NUMBER_BITS + below - scale)).at_scale(scale)


def lift_weights(party: Party, context: TrainingContext, owner: OwnerFacts, bits: BShare | None) -> Steps[AShare]:
    """<weights>, [WEIGHT_BITS, n], or None if each row counts 1 -> [weights] over the weight scale, [n]."""
    assert context.facts.weight_scale is not None, "some row has a weight"
    if bits is None or owner.weight is None:
        one = round(math.ldexp(1 / context.facts.weight_scale, WEIGHT_INPUT_SCALE))
        return public_ring(np.full(owner.rows, one), party.rank, WEIGHT_INPUT_SCALE)
    words = (yield from to_ring.steps(party, bits)).times(_powers(len(bits))).sum(axis=0)
    below = ceil_log2(context.facts.weight_scale) - owner.weight
    return (yield from _rescaled(party, words, WEIGHT_BITS + below - WEIGHT_INPUT_SCALE)).at_scale(WEIGHT_INPUT_SCALE)


def _powers(width: int) -> np.ndarray:
    return (1 << np.arange(width))[:, None]


def _rescaled(party: Party, x: AShare, down: int) -> Steps[AShare]:
    """Return x / 2^down, rounded."""
    if down <= 0:
        return x.times(1 << -down)
    shift = min(down, NUMBER_BITS + 2)
    return (yield from floor.steps(party, x + (1 << shift - 1), shift))
