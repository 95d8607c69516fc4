"""The margin before the first tree, estimated on shares as in XGBoost.

Functionality  labels and weights of the parties' rows -> [base] of `Ensemble`. Logistic: the log-odds of the weighted
               frequency of a class, or with scale_pos_weight, as in XGBoost, a Newton step from log-odds of 0; squared
               error: the weighted mean (secure_tree/setup/unit.py); counts, gamma, Tweedie: its logarithm; pseudo-
               Huber: a Newton step from 0; softmax: the logarithms of the frequencies, less their mean. A base_score
               given by the user is public
Error          log-odds and logarithms: 2e-4. They are clipped to -13.8 .. 13.8, as XGBoost clips probabilities at 1e-6;
               a mean count is clipped likewise, relative to the label scale. Newton step of pseudo-Huber: relative
               2^-15, for up to 2^NEWTON_OCTAVES slopes
Messages       each party shares sums over its own rows, so the cost is that of a few rows
Security       semi-honest, perfect: composition of perfect protocols
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.bits import select
from mpc.comparison.comparison import below
from mpc.functions.division import divide
from mpc.party import Party
from mpc.planning import planned
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps
from mpc.shares import AShare, concatenate, public_ring, stack
from mpc.sharing import rerandomise
from secure_tree.data.contributed import ContributedLabels
from secure_tree.data.own_rows import OwnRows, Part, labels_of_owners
from secure_tree.functions.curves import MARGIN_BITS, logarithm
from secure_tree.public.config import LEAST_PROBABILITY
from secure_tree.public.context import TrainingContext
from secure_tree.public.exact import ln
from secure_tree.public.numerics import MARGIN_SCALE, NEWTON_OCTAVES, given_margin
from secure_tree.setup.masses import contributed_sums, mass_scale, own_part, weights_over_scale
from secure_tree.setup.unit import QUOTIENT_SCALE, Moments, find_unit, moments_of, over_unit
from secure_tree.tree.rows import targets_of

# The highest bit of the sums of a Newton step of numbers, for a quotient of up to 2^NEWTON_OCTAVES.
NEWTON_HIGH = 61 - 18 - NEWTON_OCTAVES


def settle(party: Party, context: TrainingContext, own: OwnRows) -> tuple[TrainingContext, AShare]:
    """Return the context, with the label scale of a regression, and [base] of `Ensemble`, [classes]. Stage: setup."""
    config = context.config
    if config.squared:
        moments = Moments.total(own.each(moments_of, context.facts)).with_held_out(context.facts, own.validation)
        more = labels_of_owners(own)
        exact, unit = planned(party, "setup", lambda party: find_unit(party, context, moments, more))
        context = context.with_label_scale(unit)
        if more:
            settle_contributed(party, context, more)
        return context, planned(party, "setup", lambda party: party.run(over_unit(party, exact, context.facts)))
    if (given := given_margin(config)) is not None:
        return context, public_ring(np.full(config.classes, given), party.rank, MARGIN_SCALE)
    sums = np.sum(own.each(_sums, context), axis=0)
    more = labels_of_owners(own)
    return context, planned(party, "setup", lambda party: party.run(_estimate(party, context, sums, more)))


def settle_contributed(party: Party, context: TrainingContext, contributed: ContributedLabels) -> None:
    """Express numbers as labels in the unit of margins. Stage: setup."""

    def settled(labels: AShare | None) -> AShare:
        assert labels is not None, "owners have contributed"
        return planned(party, "setup", lambda party: party.run(over_unit(party, labels, context.facts)))

    contributed.targets = settled(contributed.targets)
    contributed.validation_targets = settled(contributed.validation_targets)


def _sums(part: Part, context: TrainingContext) -> np.ndarray:
    """Return the sum of weights and, for every class, the weighted sum of targets over a part, float64[1 + classes]."""
    labels, weights = part.table.labels, weights_over_scale(context.facts, part.table)
    if labels is None:
        return np.zeros(1 + context.config.classes)
    if context.config.pseudo_huber:
        # First and second derivatives at a margin of 0.
        distances = labels / context.facts.label_scale
        roots = np.hypot(1, distances)
        return np.array([roots**-3 @ weights, (distances / roots) @ weights])
    labels = labels[None] / context.facts.label_scale if context.config.power else targets_of(context, labels)
    return np.append(weights.sum(), labels @ weights)


def _estimate(
    party: Party, context: TrainingContext, own: np.ndarray, contributed: ContributedLabels | None = None
) -> Steps[AShare]:
    """A party's `_sums`, and contributed rows -> [log-odds] of every class, or [logarithm] of the mean label."""
    config, facts = context.config, context.facts
    scale, high = mass_scale(facts)
    if config.pseudo_huber:
        scale -= max(0, high - NEWTON_HIGH)
    total, sums = own[0], own[1:]
    over, whole = own_part(party, sums, scale), own_part(party, np.full(len(sums), total), scale)
    if contributed:
        mass, of_targets = yield from contributed_sums(party, contributed, scale)
        over, whole = over + of_targets, whole + mass
    under = whole - over if config.log_odds else whole
    if config.pseudo_huber:
        step = yield from divide.steps(party, over, whole, 0, min(high, NEWTON_HIGH), QUOTIENT_SCALE)
        return rerandomise(party, step)
    if config.scale_pos_weight != 1:
        # With gradients 1/2 - y and hessians 1/4, the step is 4 over / whole - 2.
        part = yield from divide.steps(party, over, whole, max(0, scale - 2), high, QUOTIENT_SCALE)
        return rerandomise(party, part.times(4) - (2 << MARGIN_SCALE))
    # A sum of 0 counts as one unit, and the quotient is clipped to the range.
    logs = yield from logarithm(party, concatenate([over, under]), 0, high)
    margin = logs[: len(sums)] - logs[len(sums) :]
    most = round(ln(1 / LEAST_PROBABILITY - 1) * (1 << MARGIN_SCALE))
    bits = yield from below.steps(party, margin, [-most, most], MARGIN_BITS)
    beyond, moved = stack([bits[..., 0], ~bits[..., 1]]), stack([-margin - most, -margin + most])
    within = margin + (yield from select.steps(party, beyond, moved)).sum(axis=0)
    if config.softmax:
        # As in XGBoost, the mean over the classes is 0.
        inverse = round((1 << MARGIN_SCALE) / config.classes)
        mean = yield from truncate.steps(party, within.sum().reshape(1).times(inverse, MARGIN_SCALE), MARGIN_SCALE)
        return rerandomise(party, within - mean)
    return rerandomise(party, within + round((ln(facts.label_scale) if config.power else 0) * (1 << MARGIN_SCALE)))
