"""Fairness between groups that one party knows, or each party of its own rows.

parity       demographic parity: the largest less the smallest fraction of a group's rows that are selected
odds         equalised odds: the larger of these differences among rows labelled 1, and among rows labelled 0
calibration  calibration within groups: the largest less the smallest difference between a group's mean probability and
             its fraction of rows labelled 1
loss         the mean logarithmic loss of each group's rows

Functionality  <selected>, <label>, <group>, [probability], [loss] of each row -> [statistics], <whether enough groups>
Messages       a conjunction of each group with the label, if different parties know them, and with <selected>; the
               counts of these; a choice of the probability and the loss; one division; a maximum over the groups
Floors         a rate of fewer than `group_rows` rows is left out, in secret; by rows a party's own rows of it must be
               none or as many. With fewer than two groups left, the statistic is not defined
Error          2^-15 of a rate, and of a difference of rates 2^-14
Security       semi-honest, perfect: composition of perfect protocols
Source         as in fairlearn: demographic_parity_difference, equalized_odds_difference, MetricFrame
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpc.arithmetic.bits import and_bits, and_each, select, to_ring
from mpc.comparison.argmax import argmax
from mpc.comparison.comparison import below, maximum
from mpc.functions.division import divide
from mpc.party import Party
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, stack
from secure_tree.functions.curves import MARGIN_BITS
from secure_tree.monitor.config import MonitorConfig
from secure_tree.monitor.known import PROBABILITY, Known
from secure_tree.monitor.numbers import Number, above
from secure_tree.monitor.scores import counts, sums
from secure_tree.public.numerics import MARGIN_SCALE

# The scale of a sum of losses before it is divided.
LOSS = 10
# More than any rate, or twice a difference of rates, at MARGIN_SCALE.
TOP = (2 << MARGIN_SCALE) + (1 << 8)
_RATIO = 16


def fairness(
    party: Party, config: MonitorConfig, known: Known, selected: BShare, p: AShare | None, loss: AShare | None
) -> Steps[list[Number]]:
    """<selected>, [n], [probability] at scale 12, [loss] at MARGIN_SCALE -> the statistics that are asked for."""
    groups, sizes = known.groups, known.sizes
    n, k = groups.shape
    labelled = groups[:, :0]
    if config.asks("odds", "calibration"):
        if known.together:
            labelled = groups.map(lambda g: g & known.labels.bits[:, None])
        else:
            labelled = yield from and_each.steps(party, known.labels, groups)
    both = concatenate([groups, labelled], axis=1) if config.asks("odds") else groups
    chosen = yield from and_each.steps(party, selected, both)
    chosen_sums = [
        sums(party, groups, x, most) for x, most in ((p, PROBABILITY + 1), (loss, MARGIN_BITS)) if x is not None
    ]
    if known.together:
        positives = AShare(labelled.bits.sum(axis=0, dtype=np.uint64), party.rank)
        counted, *totals = yield from parallel(counts(party, chosen), *chosen_sums)
    else:
        counted, *totals = yield from parallel(counts(party, concatenate([chosen, labelled], axis=1)), *chosen_sums)
        positives, counted = counted[both.shape[1] :], counted[: both.shape[1]]
    parts: list[tuple[AShare, AShare]] = [(counted[:k], sizes)]
    if config.asks("odds"):
        hits = counted[k:]
        parts += [(hits, positives), (counted[:k] - hits, sizes - positives)]
    x, whole = (stack([pair[i] for pair in parts]) for i in (0, 1))
    x = x.times(1 << PROBABILITY)
    if p is not None:
        gap = totals.pop(0).at_scale(0) - positives.times(1 << PROBABILITY)
        x, whole = concatenate([x, gap[None]]), concatenate([whole, sizes[None]])
    high = max(2, n.bit_length() - 1)
    divisions: list[Steps[Any]] = [
        divide.steps(party, x, whole, 0, high, MARGIN_SCALE - PROBABILITY),
        _enough(party, config, known, whole, p is not None),
    ]
    if loss is not None:
        short = yield from truncate.steps(party, totals.pop(0), MARGIN_SCALE - LOSS)
        divisions.append(divide.steps(party, short.at_scale(0), sizes, 0, high, MARGIN_SCALE - LOSS))
    rates, valid, *losses = yield from parallel(*divisions)
    rates = AShare(rates.words, party.rank, MARGIN_SCALE)
    if p is not None:
        rates = concatenate([rates[:-1], rates[-1:] + (1 << MARGIN_SCALE)])
    found = list((yield from _differences(party, config, rates, valid)))
    if loss is not None:
        found.append(Number("loss", AShare(losses[0].words, party.rank, MARGIN_SCALE), None, valid[0]))
    return found


def _enough(party: Party, config: MonitorConfig, known: Known, whole: AShare, gaps: bool) -> Steps[BShare]:
    """[rows that a rate is of], [r, K] -> <they are at least the floor>, by rows at each party that has any."""
    least, n = config.floors.group_rows, len(known.groups)
    few = yield from below.steps(party, whole, [least], n.bit_length() + 2)
    if known.own is None:
        return ~few[..., 0]
    rows, positives = known.own
    own = np.stack([rows, *([positives, rows - positives] if config.asks("odds") else []), *([rows] if gaps else [])])
    mine = ((own == 0) | (own >= least)).astype(np.uint8)
    of_each = [BShare(mine if party.rank == r else np.zeros_like(mine), party.rank) for r in (0, 1)]
    consent = yield from and_bits.steps(party, *of_each)
    return (yield from and_bits.steps(party, consent, ~few[..., 0]))


def _differences(party: Party, config: MonitorConfig, rates: AShare, valid: BShare) -> Steps[list[Number]]:
    """[rates], 0 .. TOP, [r, K], and <whether each has enough rows> -> the differences between groups."""
    keys = stack([rates, TOP - rates])
    kept, ones = yield from parallel(
        select.steps(party, stack([valid, valid]), keys.at_scale(0)), to_ring.steps(party, valid)
    )
    (_, most), few = yield from parallel(
        argmax.steps(party, kept, TOP.bit_length()),
        below.steps(party, ones.sum(axis=-1), [2], rates.shape[1].bit_length() + 2),
    )
    most, defined = most.at_scale(MARGIN_SCALE), ~few[:, 0]
    largest, least = most[0], TOP - most[1]
    apart, found = largest - least, []
    if config.asks("parity"):
        ratio = least[:1].times(1 << _RATIO) - largest[:1].times(round(config.alarms.parity * (1 << _RATIO)))
        found.append(Number("parity", apart[:1], ratio, defined[:1]))
    if config.asks("odds"):
        (larger, _), both = yield from parallel(
            maximum.steps(party, apart[1:2], apart[2:3], TOP.bit_length() + 2),
            and_bits.steps(party, defined[1:2], defined[2:3]),
        )
        found.append(Number("odds", larger, above(larger, config.alarms.odds), both))
    if config.asks("calibration"):
        found.append(Number("calibration", apart[-1:], above(apart[-1:], config.alarms.calibration), defined[-1:]))
    return found
