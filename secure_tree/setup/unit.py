"""The base of a regression's margins, and their unit.

Functionality  labels and weights of all rows -> [their weighted mean], and the unit, which is revealed: a power of two
               above the root mean square distance of the labels from the base, and at most six times that distance
Error          mean: 2^-33 of the label bound, plus 2^-16 of the distance between the parties' means if rows have
               weights. With contributed rows, 2^-25, and 2^-19 if rows have weights
Messages       each party shares moments of its own rows, so the cost is that of a few rows. Contributed rows
               are squared
Security       semi-honest, perfect: composition of perfect protocols; the unit is revealed to both parties
How            the mean over both parties is one party's mean plus a fraction of the difference of the means. The square
               of the unit exceeds four squares: for each party, its deviation and the distance of its mean from the
               base, weighted by the party's fraction of the weight. The unit is also at least 2^-9 of the largest
               distance of a held-out row, so that metrics stay in range. Contributed labels are a fifth square, the
               mean of their squared distances at a resolution of 2^-18 of the label bound for 100,000 rows, of 2^-13 if
               rows have weights: the unit is not less
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import to_ring
from mpc.comparison.comparison import below
from mpc.functions.division import divide
from mpc.lookup.one_hot import all_of
from mpc.party import Party
from mpc.rounding.truncation import floor, truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, public_ring
from mpc.sharing import rerandomise
from secure_tree.data.contributed import ContributedLabels
from secure_tree.data.own_rows import Part
from secure_tree.data.table import Table
from secure_tree.public.context import PublicFacts, TrainingContext
from secure_tree.public.exact import ceil_log2
from secure_tree.public.numerics import LABEL_SCALE, MARGIN_SCALE, WEIGHT_INPUT_SCALE
from secure_tree.setup.masses import contributed_sums, mass_scale, own_part, weights_over_scale

UNIT = "the power of two above the spread of the labels"
# Shift of the base over the unit. It suffices for all units, so that the cost does not depend on the unit.
UNIT_SHIFT = 16
QUOTIENT_SCALE = 20
SPREAD_BITS = 9
# For a fifth square, the other four are made larger.
_FIVE_SQUARES = math.sqrt(1.25)
# Bits of sums of squares of contributed labels, of weights in them, and of one over the number of rows.
_SUM_BITS, _COARSE_WEIGHT, _FRACTION_BITS = 56, 10, 26
# A number over the unit is at most 2^LARGEST_RATIO times what it is over the label bound.
LARGEST_RATIO = 61 - UNIT_SHIFT - MARGIN_SCALE
# Exponents of the thresholds of the spread over the label bound, at LABEL_SCALE + SPREAD_BITS: from 2^-25 to 2.
SPREADS = range(LABEL_SCALE + SPREAD_BITS - 25, LABEL_SCALE + SPREAD_BITS + 2)


@dataclass(frozen=True)
class Moments:
    """Weighted moments of a party's labels, divided by the label bound.

    mass: the sum of weights. least, largest: the extremes of the held-out labels, or the mean if no row is held out.
    """

    mass: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    least: float = 0.0
    largest: float = 0.0

    @classmethod
    def of(cls, facts: PublicFacts, table: Table) -> Moments:
        """Compute the moments of training rows."""
        if table.labels is None or not table.labels.size:
            return cls()
        labels, weights = table.labels / facts.label_bound, weights_over_scale(facts, table)
        mass = float(weights.sum())
        shares = weights / mass if mass else np.full(len(labels), 1 / len(labels))
        mean = float(labels @ shares)
        return cls(mass, mean, math.sqrt(float((labels - mean) ** 2 @ shares)), mean, mean)

    @classmethod
    def total(cls, parts: Sequence[Moments]) -> Moments:
        """Combine the moments of all parts."""
        masses = np.array([part.mass for part in parts])
        shares = masses / masses.sum() if masses.any() else np.full(len(parts), 1 / len(parts))
        means = np.array([part.mean for part in parts])
        mean = float(means @ shares)
        spread = np.array([part.deviation for part in parts]) ** 2 + (means - mean) ** 2
        return cls(float(masses.sum()), mean, math.sqrt(float(spread @ shares)), mean, mean)

    def with_held_out(self, facts: PublicFacts, validation: Table) -> Moments:
        """Return these moments with the extremes of the held-out labels."""
        held_out = validation.labels
        if held_out is None or not held_out.size:
            return self
        far = held_out / facts.label_bound
        return replace(self, least=float(far.min()), largest=float(far.max()))


def moments_of(part: Part, facts: PublicFacts) -> Moments:
    return Moments.of(facts, part.table)


def find_unit(
    party: Party, context: TrainingContext, own: Moments, contributed: ContributedLabels | None
) -> tuple[AShare, float]:
    """Return [base] over the label bound at LABEL_SCALE, [1], and the revealed unit of margins."""
    base, reached = party.run(_spread(party, context, own, contributed))
    count = party.reveal(reached, what=UNIT)
    assert count is not None, "revealed to both"
    largest = SPREADS.start + int(count[0])
    return base, context.facts.label_bound * 2.0 ** (largest + 1 - LABEL_SCALE - SPREAD_BITS)


def _spread(
    party: Party, context: TrainingContext, own: Moments, contributed: ContributedLabels | None
) -> Steps[tuple[AShare, AShare]]:
    """Return [base], [1], and [number of thresholds that at least one distance reaches], [1]."""
    scale, given, facts = LABEL_SCALE, context.config.base_score, context.facts
    if given is not None:
        base = public_ring(np.array([given / facts.label_bound]), party.rank, scale)
    else:
        base = yield from _mean(party, facts, own, contributed)
    distances = []
    holder = facts.label_holder
    for p in (0, 1) if holder is None else (holder,) if holder < 2 else ():
        mine = own if party.rank == p else Moments()
        part = _part(facts, p) * (_FIVE_SQUARES if contributed else 1.0)
        off = (own_part(party, [mine.mean], scale) - base).times(round(part * 2**SPREAD_BITS), SPREAD_BITS)
        distances += [own_part(party, [mine.deviation * part], scale + SPREAD_BITS), off, -off]
        if any(facts.validation_rows):
            far = own_part(party, [mine.largest], scale) - base, base - own_part(party, [mine.least], scale)
            distances += [x.times(1, SPREAD_BITS) for x in far]
    bits = []
    if distances:
        limits = [1 << j for j in SPREADS]
        bits = [(yield from below.steps(party, concatenate(distances), limits, SPREADS.stop + 2))]
    if contributed:
        bits += yield from _squares_below(party, contributed, base)
    none = yield from all_of.steps(party, concatenate(bits).map(np.transpose))
    reached = yield from to_ring.steps(party, ~none)
    return base, reached.sum().reshape(1)


def _squares_below(party: Party, contributed: ContributedLabels, base: AShare) -> Steps[tuple[BShare, ...]]:
    """Return <the mean square of the distance of contributed labels from the base is below>, and <the sum of squares of
    held-out ones over 4^SPREAD_BITS is below>, the square of every threshold; [1, thresholds] each.
    """
    targets, weights, held_out = contributed.targets, contributed.row_weights, contributed.validation_targets
    assert targets is not None and held_out is not None, "owners have contributed"
    means = _below_squares(party, targets[0] - base, weights, 1 / _FIVE_SQUARES**2)
    if not held_out.shape[1]:
        return ((yield from means),)
    return (yield from parallel(means, _below_squares(party, held_out[0] - base, None, 4.0**SPREAD_BITS, mean=False)))


def _below_squares(
    party: Party, distances: AShare, weights: AShare | None, factor: float, mean: bool = True
) -> Steps[BShare]:
    """Return <sum of squared distances, over the mass if `mean`, is below the factor times each squared threshold>.

    What is below the resolution counts as not below.
    """
    n, wide = len(distances), _COARSE_WEIGHT if weights is not None else 0
    scale = (_SUM_BITS - wide - ceil_log2(n)) // 2
    short = yield from truncate.steps(party, distances, LABEL_SCALE - scale)
    squares = yield from multiply.steps(party, short, short)
    mass = public_ring(np.full(1, n if mean else 1), party.rank)
    if weights is not None:
        coarse = (yield from floor.steps(party, weights, WEIGHT_INPUT_SCALE - wide)).at_scale(0)
        squares, mass = (yield from multiply.steps(party, squares, coarse)), coarse.sum().reshape(1)
    exponents = np.array(SPREADS) - LABEL_SCALE - SPREAD_BITS
    most = [min(int(math.ldexp(factor, 2 * (int(e) + scale))), 1 << _SUM_BITS + 2) for e in exponents]
    sums = squares.sum().at_scale(0).reshape(1) - mass.times(np.array(most))
    return (yield from below.steps(party, sums, [0], _SUM_BITS + 5)).reshape(1, -1)


def _part(facts: PublicFacts, p: int) -> float:
    """Return the square root of an upper bound of party p's fraction of the weight."""
    if facts.label_holder is not None:
        return 1.0
    if facts.masses is None or not facts.layout.rows[p]:
        return math.sqrt(facts.layout.rows[p] / facts.layout.row_count)
    # The sum of a party's weights is at least half of its power of two.
    return math.sqrt(min(1.0, 2 * facts.masses[p] / max(facts.masses[:2])))


def _mean(party: Party, facts: PublicFacts, own: Moments, contributed: ContributedLabels | None) -> Steps[AShare]:
    """Return [weighted mean of all labels] over the label bound at LABEL_SCALE, [1]."""
    if contributed:
        return (yield from _mean_with(party, facts, own, contributed))
    if facts.label_holder is not None:
        return own_part(party, [own.mean], LABEL_SCALE)
    if facts.masses is None:
        return own_part(party, [own.mean * facts.layout.rows[party.rank] / facts.layout.row_count], LABEL_SCALE)
    scale, high = mass_scale(facts)
    whole, of_second = own_part(party, [own.mass], scale), own_part(party, [own.mass * party.rank], scale)
    part = yield from divide.steps(party, of_second, whole, max(0, scale - 2), high, QUOTIENT_SCALE)
    first = own_part(party, [own.mean * (1 - party.rank)], LABEL_SCALE)
    difference = own_part(party, [own.mean * (2 * party.rank - 1)], LABEL_SCALE)
    moved = yield from multiply.steps(party, part, difference)
    return first + (yield from floor.steps(party, moved, QUOTIENT_SCALE))


def _mean_with(party: Party, facts: PublicFacts, own: Moments, contributed: ContributedLabels) -> Steps[AShare]:
    """As `_mean`, with contributed rows."""
    if facts.masses is None:
        targets, rows = contributed.targets, facts.layout.rows
        assert targets is not None, "owners have contributed"
        mine = own_part(party, [own.mean * rows[party.rank] / facts.layout.row_count], LABEL_SCALE)
        fewer = max(1, ceil_log2(targets.shape[1]))
        sums = yield from floor.steps(party, targets.sum(axis=1), fewer)
        part = sums.times(round(math.ldexp(1 / facts.layout.row_count, _FRACTION_BITS + fewer)))
        return mine + (yield from floor.steps(party, part, _FRACTION_BITS)).at_scale(LABEL_SCALE)
    scale, high = mass_scale(facts)
    mass, of_labels = yield from contributed_sums(party, contributed, scale)
    over, whole = of_labels + own_part(party, [own.mean * own.mass], scale), mass + own_part(party, [own.mass], scale)
    quotient = yield from divide.steps(party, over, whole, max(0, scale - 2), high, QUOTIENT_SCALE)
    return quotient.times(1 << LABEL_SCALE - QUOTIENT_SCALE, LABEL_SCALE - QUOTIENT_SCALE)


def over_unit(party: Party, base: AShare, facts: PublicFacts) -> Steps[AShare]:
    """[base] over the label bound at LABEL_SCALE -> over the unit of margins at MARGIN_SCALE."""
    finer = UNIT_SHIFT + MARGIN_SCALE - LABEL_SCALE
    raised = base.times(1 << ceil_log2(facts.label_bound / facts.label_scale) + finer, finer)
    # The floor is exact, so a resumed training computes the same number.
    return rerandomise(party, (yield from floor.steps(party, raised, UNIT_SHIFT)))
