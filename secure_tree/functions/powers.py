"""Losses of margins that are logarithms, with a variance that is a power p of the mean: Tweedie, and gamma at p = 2.

Functionality  [m] and [l], the logarithm of the label -> [A] = e^((2 - p) m) / U and [B] = e^(l - (p - 1) m) / U, U
               being the power of two `PublicFacts.power_unit`. From them follow the gradient A - B, the hessian
               (2 - p) A + (p - 1) B and the losses. `log_labels` makes l, and B is exactly 0 for a label of 0
Range          A <= 2.01, B <= 2.01 2^reach; either stays there beyond
Error          that of EXP, relative 1e-3 at most and 1.2e-4 in the mean, then 2e-7 for A and 2e-7 2^reach for B
Messages       one truncation if p < 2, and quadratics of both exponents together
Security       semi-honest, perfect: composition of perfect protocols
Source         XGBoost's reg:gamma and reg:tweedie
"""

from __future__ import annotations

import math

import numpy as np

from mpc.party import Party
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps
from mpc.shares import AShare, concatenate, public_ring, stack
from secure_tree.functions.curves import EXP, EXP_SCALE, quadratics
from secure_tree.public.config import POWER_SCALE
from secure_tree.public.context import TrainingContext
from secure_tree.public.exact import ceil_log2, ln
from secure_tree.public.numerics import MARGIN_SCALE

# The octaves of B above U, in losses, per unit of p - 1: labels of up to 2^15 times their prediction.
LOSS_OCTAVES = 14


def log_labels(labels: np.ndarray, margin_bits: int) -> np.ndarray:
    """Return the logarithms of labels, float64[n]; for 0 less than any margin can make up for."""
    least = -math.ldexp(1.0, margin_bits - 1 - MARGIN_SCALE)
    return np.log(labels, out=np.full(labels.shape, least), where=labels > 0)


def terms(party: Party, context: TrainingContext, margin: AShare, labels: AShare, reach: int) -> Steps[AShare]:
    """[m], [l] at MARGIN_SCALE -> [A], [B] at EXP_SCALE, [2, n]."""
    power, bits = context.config.power, context.numerics.margin_bits + 2
    assert power is not None, "a log link has a power"
    unit, octave = ceil_log2(context.facts.power_unit), ln(2) * (1 << MARGIN_SCALE)
    if power == 2:
        means = public_ring(np.full(margin.shape, 1 << EXP_SCALE), party.rank, EXP_SCALE)
        over = yield from quadratics(party, labels - margin - round(reach * octave), EXP, bits, EXP_SCALE)
        return stack([means, over.times(1 << reach)])
    lean = round((power - 1) * (1 << POWER_SCALE))
    leaning = stack([margin.times((1 << POWER_SCALE) - lean, POWER_SCALE), margin.times(lean, POWER_SCALE)])
    parts = yield from truncate.steps(party, leaning, POWER_SCALE)
    exponents = [parts[0] - round(unit * octave), labels - parts[1] - round((unit + reach) * octave)]
    both = yield from quadratics(party, concatenate(exponents), EXP, bits, EXP_SCALE)
    n = len(margin)
    return stack([both[:n], both[n:].times(1 << reach)])


def loss_terms(party: Party, context: TrainingContext, margin: AShare, labels: AShare) -> Steps[AShare]:
    """[m], [l] -> [A], [B] at MARGIN_SCALE, [2, n], with a reach for losses."""
    power = context.config.power
    assert power is not None, "a log link has a power"
    both = yield from terms(party, context, margin, labels, math.ceil((power - 1) * LOSS_OCTAVES))
    return (yield from truncate.steps(party, both, EXP_SCALE - MARGIN_SCALE))


def gamma_deviance(party: Party, context: TrainingContext, margin: AShare, labels: AShare) -> Steps[AShare]:
    """[m], [l] -> [2 (y e^-m - 1 - l + m)] at MARGIN_SCALE."""
    over = (yield from loss_terms(party, context, margin, labels))[1]
    return (over - (1 << MARGIN_SCALE) - labels + margin).times(2)


def gamma_nloglik(party: Party, context: TrainingContext, margin: AShare, labels: AShare) -> Steps[AShare]:
    """[m], [l] -> [y e^-m + m] at MARGIN_SCALE."""
    over = (yield from loss_terms(party, context, margin, labels))[1]
    return over + margin


def tweedie_nloglik(party: Party, context: TrainingContext, margin: AShare, labels: AShare) -> Steps[AShare]:
    """[m], [l] -> [A / (2 - p) + B / (p - 1)] at MARGIN_SCALE, over `power_unit`."""
    both = yield from loss_terms(party, context, margin, labels)
    power = context.config.power
    assert power is not None, "a log link has a power"
    of_means, of_labels = (round((1 << POWER_SCALE) / x) for x in (2 - power, power - 1))
    weighted = both[0].times(of_means, POWER_SCALE) + both[1].times(of_labels, POWER_SCALE)
    return (yield from truncate.steps(party, weighted, POWER_SCALE))
