"""Statistics of each feature on shares, rounded on shares, and what of them is revealed.

Functionality  shared histograms of the labels -> <one of the `top` features>, opened; for these, numbers rounded to
               their standard errors and, where both classes have enough rows in a bin, its weight of evidence
Reveals        the bits of the `top` features; each rounded number; for each bin whether it is shown, and its rounded
               weight of evidence, 0 where it is not
Security       semi-honest, perfect: composition of perfect protocols
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mpc.arithmetic.bits import and_bits, select
from mpc.comparison.comparison import below
from mpc.comparison.largest import largest
from mpc.party import Party
from mpc.rounding.truncation import floor
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, stack
from secure_tree.explore.agreement import Explored
from secure_tree.explore.config import Statistic
from secure_tree.explore.own_table import WEIGHT_BITS
from secure_tree.explore.precision import WOE_FRACTION, fraction
from secure_tree.functions.divergence import divergence
from secure_tree.functions.metrics import auc_of_counts, ks_of_counts
from secure_tree.public.numerics import MARGIN_SCALE

# Bits of a statistic at MARGIN_SCALE, or of the difference of two: below 2^12 even as a sum over 100 classes.
_BITS = MARGIN_SCALE + 13
_CURVE_BITS = 21


def curve_counts(facts: Explored, cells: AShare) -> AShare:
    """[p] and [q], [2, d, bins] -> [counts up to each bin], [2, d, bins' + 1]; missing values are left out."""
    cells = cells[..., : facts.config.bins]
    return concatenate([cells[..., :1] - cells[..., :1], cells.cumsum(axis=-1)], axis=-1)


def statistic(party: Party, name: Statistic, facts: Explored, p: AShare, q: AShare) -> Steps[tuple[AShare, AShare]]:
    """[p], [q], [groups, d, bins] -> [statistic] at MARGIN_SCALE, [groups, d]; of `iv` and `psi` also [w], as p."""
    groups, d, bins = p.shape
    flat = p.reshape(groups * d, bins), q.reshape(groups * d, bins)
    woe = p
    if name in ("iv", "psi"):
        values, woe = yield from divergence(party, *flat, facts.bits_of_counts)
        woe = woe.reshape(*p.shape)
    else:
        # Pairs of rows must fit a word: large counts lose their last digits.
        shift, cells = max(0, facts.bits_of_counts - _CURVE_BITS), stack(list(flat))
        if shift:
            cells = yield from floor.steps(party, cells, shift)
        most = (1 << facts.bits_of_counts - shift) - 1
        curves = curve_counts(facts, cells)
        if name == "ks":
            values = yield from ks_of_counts(party, curves, most)
        else:
            # Without any pair of values of both classes, the quotient is 0, and the area one half.
            values, none = yield from parallel(
                auc_of_counts(party, curves, most), below.steps(party, curves[..., -1], [1], facts.bits_of_counts + 1)
            )
            pairs = yield from and_bits.steps(party, ~none[0, ..., 0], ~none[1, ..., 0])
            half = values - values + (1 << MARGIN_SCALE - 1) / 2.0**MARGIN_SCALE
            values = values + (yield from select.steps(party, ~pairs, half - values))
    return values.reshape(groups, d), woe


def scores(party: Party, facts: Explored, p: AShare, q: AShare) -> Steps[AShare]:
    """[p], [q] -> [the number by which features are ranked], [d]."""
    rank = facts.config.rank
    values, _ = yield from statistic(party, rank, facts, p, q)
    if rank == "auc":
        values = values - (1 << MARGIN_SCALE - 1)
        low = yield from below.steps(party, values, [0], _BITS)
        values = values - (yield from select.steps(party, low[..., 0], values + values))
    return values.sum(axis=0)


def best(party: Party, facts: Explored, p: AShare, q: AShare) -> Steps[BShare]:
    """[p], [q] -> <the feature is one of the `top` best>, [d]."""
    ranked = yield from scores(party, facts, p, q)
    return (yield from largest.steps(party, ranked.reshape(1, -1), facts.config.top, _BITS))[0]


def rounded(party: Party, values: AShare, fractions: int) -> Steps[AShare]:
    """[x] -> [x rounded to a multiple of 2^-fractions], at scale `fractions`, which is less than that of x."""
    shift = values.scale - fractions
    return (yield from floor.steps(party, values + (1 << shift - 1), shift))


def shown_bins(
    party: Party, facts: Explored, p: AShare, q: AShare, own: np.ndarray | None, owners: Sequence[AShare] = ()
) -> Steps[BShare]:
    """[p], [q], [groups, d, bins] -> <each class has enough rows in the bin>.

    By rows, a bin is shown if each party's own rows of each class are none or enough: `own` are its counts of p and q,
    [2, groups, d, bins]; and likewise those of every owner, [2, groups, d, bins].
    """
    # A weight is at most a unit of 2^12, so that as many units are no fewer rows.
    unit = 0 if facts.exponent is None else WEIGHT_BITS
    least = facts.config.floors.cell_rows << unit
    if own is None:
        bits = facts.bits_of_counts + 1
        few = yield from below.steps(party, stack([p, q]), [least], bits)
        return (yield from and_bits.steps(party, ~few[0, ..., 0], ~few[1, ..., 0]))
    enough = ((own == 0) | (own >= least)).all(axis=0).astype(np.uint8)
    parts = [BShare(enough if party.rank == r else np.zeros_like(enough), party.rank) for r in (0, 1)]
    if not owners:
        return (yield from and_bits.steps(party, *parts))
    few = yield from below.steps(party, stack(list(owners)), [least, 1], facts.bits_of_counts + 1)
    # Few, but not none.
    conditions = [~(few[k, i, ..., 0] ^ few[k, i, ..., 1]) for k in range(len(owners)) for i in (0, 1)]
    return (yield from _all(party, stack([*parts, *conditions])))


def few_rows(party: Party, facts: Explored, classes: AShare, least: Sequence[int]) -> Steps[BShare]:
    """[rows of each class], [owners, classes], and the fewest of each owner -> <it has fewer of one>, [owners]."""
    bits = facts.row_count.bit_length() + 1
    short = classes - np.array(least)[:, None]
    few = yield from below.steps(party, short, [0], bits)
    return ~(yield from _all(party, ~few[..., 0].map(np.transpose)))


def _all(party: Party, bits: BShare) -> Steps[BShare]:
    """<b>, [k, ..] -> <all of the first axis>, [..]."""
    while len(bits) > 1:
        half = len(bits) // 2
        both = yield from and_bits.steps(party, bits[:half], bits[half : 2 * half])
        bits = concatenate([both, bits[2 * half :]])
    return bits[0]


def shown(
    party: Party,
    facts: Explored,
    compared: Mapping[Statistic, tuple[AShare, AShare]],
    own: np.ndarray | None,
    owners: Sequence[AShare] = (),
) -> Steps[tuple[dict[Statistic, AShare], tuple[AShare, BShare] | None]]:
    """[p], [q] of each statistic -> the statistics to be shown, rounded, [groups, d], and weights of evidence by bin, 0
    where they are not shown, with the bits of where they are. own, owners: as of `shown_bins`.
    """
    names = list(compared)
    found = yield from parallel(*(statistic(party, name, facts, *compared[name]) for name in names))
    fractions = {name: fraction(name, facts.config, facts.rows, facts.bins) for name in names}
    coarse = yield from parallel(
        *(rounded(party, value, fractions[name]) for name, (value, _) in zip(names, found, strict=True))
    )
    numbers = {name: x for name, x in zip(names, coarse, strict=True) if name in facts.config.shown}
    if facts.config.reveal != "woe":
        return numbers, None
    where, woe = yield from parallel(
        shown_bins(party, facts, *compared["iv"], own, owners),
        rounded(party, found[names.index("iv")][1], WOE_FRACTION),
    )
    return numbers, ((yield from select.steps(party, where, woe)), where)


def reveal_rounded(party: Party, facts: Explored, values: Mapping[Statistic, AShare]) -> dict[str, np.ndarray]:
    """Open rounded statistics; at a party that does not learn them, nothing."""
    found: dict[str, np.ndarray] = {}
    for name, value in values.items():
        what = f"the {name} of {value.shape[-1]} features, to {2.0**-value.scale:.2g}"
        opened = party.reveal(value, to=facts.config.to, what=what)
        if opened is not None:
            found[name] = opened
    return found


def reveal_woe(party: Party, facts: Explored, masked: AShare, shown: BShare) -> np.ndarray | None:
    """Open which bins are shown, and their rounded weights of evidence: NaN where they are not."""
    to = facts.config.to
    bits = party.reveal(shown, to=to, what="which bins have enough rows of both classes")
    values = party.reveal(masked, to=to, what=f"the weight of evidence of these bins, to {2.0**-WOE_FRACTION:g}")
    return None if bits is None or values is None else np.where(bits == 1, values, np.nan)
