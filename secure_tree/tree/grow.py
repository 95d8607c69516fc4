"""Growing of one tree: level by level, all nodes of a level in parallel. Nothing is revealed.

The children of node i of a level are nodes 2i (left) and 2i + 1 (right) of the next level. A node without a valid split
repeats that of its parent, as in the published algorithm: a left child then sends all its rows left, a right child and
the root send all rows right.
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.bits import select
from mpc.comparison.argmax import argmax
from mpc.party import Party
from mpc.rings import Z32
from mpc.rounding.widening import widen
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate
from secure_tree.model.ensemble import TreeShares
from secure_tree.public.context import TrainingContext
from secure_tree.tree import checks
from secure_tree.tree.candidates import Candidates, left_sets, left_sums
from secure_tree.tree.pruning import prune
from secure_tree.tree.rows import TreeRows, interleave
from secure_tree.tree.score import keys, node_scales


def grow(
    party: Party, context: TrainingContext, rows: TreeRows, candidates: Candidates, sample: np.ndarray
) -> Steps[TreeShares]:
    """Grow a tree on the rows, route them to its leaves, and add the leaf weights to their margins.

    `sample` has the public numbers of the candidates to choose from, in ascending order, with the null split last.
    """
    config, numerics = context.config, context.numerics
    winners: list[BShare] = []
    sets: list[list[BShare]] = []
    totals: list[AShare] = []
    left: AShare | None = None
    chosen: AShare | None = None
    for level in range(config.max_depth):
        party.part("histograms")
        of_left = yield from rows.totals(party)
        narrow = _children(of_left, totals[-1].narrow(Z32) if totals else None)
        scale, total, sums = yield from parallel(
            node_scales(party, numerics, narrow),
            widen.steps(party, of_left),
            _left_sums(party, rows, candidates, sample[:-1]),
        )
        checks.rows_arrived(party, total, chosen)
        above = totals[-1] if totals else None
        totals.append(_children(total, above))
        checks.children_add_up(party, totals[-1], above)
        left = _children(sums, left)
        party.part("gains")
        directions = context.directions[sample[:-1]]
        key = yield from keys(party, numerics, left, totals[-1], scale, config.min_child_samples, directions)
        party.part("best split")
        best, largest = yield from argmax.steps(party, key, numerics.key_bits)
        checks.one_winner(party, best, key, largest)
        party.part("rows to children")
        winner = _scatter(best, sample[:-1], candidates.layout.candidates)
        if level < config.max_depth - 1 and not party.audit:
            level_sets = yield from left_sets(party, candidates, winner)
        else:
            level_sets, chosen = yield from parallel(left_sets(party, candidates, winner), _chosen(party, best, left))
        yield from rows.route(party, level_sets)
        winners.append(winner)
        sets.append(level_sets)
    assert chosen is not None, "a tree has a level"
    yield from checks.rows_arrived_at_leaves(party, rows.totals, chosen)
    leaf_sums = _children(chosen, totals[-1])
    checks.children_add_up(party, leaf_sums, totals[-1])
    party.part("leaf weights")
    of_block = [concatenate([level_sets[p] for level_sets in sets]) for p in candidates.layout.blocks]
    sums = concatenate([*totals, leaf_sums])
    tree, steps = yield from prune(party, context, concatenate(winners), of_block, sums)
    yield from rows.add_leaves(party, steps)
    return tree


def _children(left: AShare, parents: AShare | None) -> AShare:
    """Values of left children, [v, ..], and of their parents -> those of both children; at the root, unchanged."""
    return left if parents is None else interleave(left, parents - left)


def _left_sums(party: Party, rows: TreeRows, candidates: Candidates, sample: np.ndarray) -> Steps[AShare]:
    """Return [left sums] of left children at the candidates of a sample, uint64 [v, s, C']."""
    histograms = yield from rows.histograms(party)
    narrow = (yield from left_sums(party, candidates, histograms))[..., sample]
    return (yield from widen.steps(party, narrow))


def _scatter(chosen: BShare, places: np.ndarray, count: int) -> BShare:
    """<[v, len(places)]> -> <[v, count]>, 0 elsewhere."""
    bits = np.zeros((len(chosen), count), np.uint8)
    bits[:, places] = chosen.bits
    return BShare(bits, chosen.rank)


def _chosen(party: Party, winner: BShare, left: AShare) -> Steps[AShare]:
    """<one-hot winner> and [left sums] of all candidates -> [left sums] of the winners, [v, s]."""
    return (yield from select.steps(party, winner.map(lambda b: b[:, None]), left)).sum(axis=-1)
