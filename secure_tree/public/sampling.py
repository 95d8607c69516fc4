"""Samples of rows and features for every tree. Neither party can determine them by itself.

Rows      a secret bit per row, 1 with probability `subsample` rounded to 2^-15. Each party draws a share of a uniform
          word, which is compared with an interval. Two rounds. Nobody, not even the dealer, learns which rows a tree
          was grown on
Features  a fraction `colsample_bytree` by a public coin, seeded by the pairing id, which the tokens of both parties
          determine. Of the edges of an indicator only the last is a candidate: it is 1 if any row of the party has the
          category, and the edges before it split nothing or give the same split. A column that is split by sets is
          one feature
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from mpc.comparison.comparison import below
from mpc.party import Party
from mpc.rounds import Steps
from mpc.shares import AShare, BShare
from mpc.words import U64
from secure_tree.public.context import TrainingContext
from secure_tree.public.exact import choose

WORD_BITS = 16
# The candidates of several trees, int[...] each.
Samples = list[np.ndarray]


def row_mask(party: Party, share: float, rows: int) -> Steps[BShare]:
    """<1 with probability `share`> for every row, independently, [n]."""
    drawn = party.audit.once(lambda: party.draw(8 * rows))
    word = AShare(np.frombuffer(drawn, U64), party.rank)
    # `below` gives the sign of x - t in Z_2^16: 1 on half of the circle. Half circles w apart differ in 2 w places.
    width = round(share * (1 << WORD_BITS - 1))
    bits = yield from below.steps(party, word, [0, width], WORD_BITS)
    return bits[:, 0] ^ bits[:, 1]


def column_samples(context: TrainingContext) -> Samples:
    """Return for every tree the candidates of its features, in ascending order, including the null split."""
    config, facts, layout = context.config, context.facts, context.layout
    features = layout.candidate_features
    useful = layout.useful & (layout.last_edges | ~np.isin(features, facts.indicators))
    if config.colsample_bytree == 1:
        return [np.append(np.flatnonzero(useful), layout.candidates - 1)] * config.trees
    columns = layout.columns
    every = int(columns[-1]) + 1
    count = max(1, int(config.colsample_bytree * every))
    chosen = (choose(count, every, f"columns {facts.pairing} {tree}") for tree in range(config.trees))
    of_candidates = columns[features]
    return [np.append(np.flatnonzero(useful & np.isin(of_candidates, some)), layout.candidates - 1) for some in chosen]


def samples_by_round(context: TrainingContext) -> list[Samples]:
    """Return for every round the sample of candidates of each of its trees."""
    every, count = column_samples(context), context.config.trees_of_round
    return [every[i : i + count] for i in range(0, len(every), count)]


def sizes(context: TrainingContext, samples: Samples) -> tuple[tuple[int, int], ...]:
    """Return what the cost of a round depends on: the numbers of candidates and of constrained ones in each sample."""
    return tuple((len(sample), int(np.count_nonzero(context.directions[sample[:-1]]))) for sample in samples)


def alike(context: TrainingContext, rounds: Sequence[Samples]) -> Iterator[tuple[Samples, int]]:
    """Yield runs of rounds whose samples have the same sizes, hence the same cost: the first, and their number."""
    for _, run in groupby(rounds, key=lambda samples: sizes(context, samples)):
        first, *others = run
        yield first, 1 + len(others)
