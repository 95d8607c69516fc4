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
from mpc.rounds import Steps, Task, Tasks, beside, parallel
from mpc.shares import AShare, BShare, concatenate
from secure_tree.model.ensemble import TreeShares
from secure_tree.public.context import TrainingContext
from secure_tree.public.interactions import Interactions
from secure_tree.tree import checks
from secure_tree.tree.candidates import Candidates, Followers, follow, followers, left_sets, left_sums
from secure_tree.tree.pruning import Pruning
from secure_tree.tree.rows import TreeRows, interleave
from secure_tree.tree.score import keys, node_scales


def grow(
    party: Party, context: TrainingContext, rows: TreeRows, candidates: Candidates, sample: np.ndarray
) -> Steps[TreeShares]:
    """Grow a tree on the rows, route them to its leaves, and add the leaf weights to their margins.

    `sample` has the public numbers of the candidates to choose from, in ascending order, with the null split last.
    """
    return (yield from beside(lambda tasks: _grow(party, context, rows, candidates, sample, tasks)))


def _grow(
    party: Party, context: TrainingContext, rows: TreeRows, candidates: Candidates, sample: np.ndarray, tasks: Tasks
) -> Steps[TreeShares]:
    config, interactions, pruning = context.config, context.interactions, Pruning(party, context, tasks)
    numerics = context.numerics.ranked(party.randomness.has_dealer)
    directions = context.directions[sample[:-1]]
    # Sums stay in words of 32 bits where nothing but the ranking by log (a b) reads them.
    narrow = numerics.split is not None and not directions.any()
    winners: list[BShare] = []
    sets: list[list[BShare]] = []
    totals: list[AShare] = []
    left: AShare | None = None
    chosen: AShare | None = None
    allowed: Followers | None = None
    path: Task[tuple[BShare, BShare]] | None = None
    for level in range(config.max_depth):
        party.part("histograms")
        of_left = yield from rows.totals(party)
        of_nodes = _children(of_left, totals[-1].narrow(Z32) if totals else None)
        (scale, total, sums), allowed = yield from parallel(
            parallel(
                node_scales(party, numerics, of_nodes),
                _widened(party, of_left, narrow),
                _left_sums(party, rows, candidates, sample[:-1], narrow),
            ),
            _allowed(party, interactions, path),
        )
        checks.rows_arrived(party, total, chosen)
        above = totals[-1] if totals else None
        totals.append(_children(total, above))
        checks.children_add_up(party, totals[-1], above)
        pruning.add(totals[-1], winners[-1] if winners else None, path)
        left = _children(sums, left)
        party.part("gains")
        may = allowed.kinds[:, interactions.kind[sample[:-1]]] if interactions and allowed else None
        key = yield from keys(party, numerics, left, totals[-1], scale, config.min_child_samples, directions, may)
        party.part("best split")
        best, largest = yield from argmax.steps(party, key, numerics.key_bits)
        checks.one_winner(party, best, key, largest)
        party.part("rows to children")
        winner = _scatter(best, sample[:-1], candidates.layout.candidates)
        winners.append(winner)
        path = tasks.start(follow(party, interactions, allowed, winner)) if interactions else None
        if level < config.max_depth - 1:
            steps = left_sets(party, candidates, winner)
            if party.audit:
                level_sets, chosen = yield from parallel(steps, _chosen(party, best, left))
            else:
                level_sets = yield from steps
            yield from rows.route(party, level_sets)
            sets.append(level_sets)
    assert left is not None, "a tree has a level"
    party.part("leaf weights")
    level_sets, (chosen, leaves) = yield from parallel(
        _routed(party, rows, candidates, winner),
        _leaves(party, pruning, totals[-1], _chosen(party, best, left), winner, path),
    )
    yield from checks.rows_arrived_at_leaves(party, rows.totals, chosen)
    of_block = [concatenate([of_level[p] for of_level in [*sets, level_sets]]) for p in candidates.layout.blocks]
    tree, _ = yield from parallel(pruning.tree(concatenate(winners), of_block), rows.add_leaves(party, leaves))
    return tree


def _routed(party: Party, rows: TreeRows, candidates: Candidates, winner: BShare) -> Steps[list[BShare]]:
    """Route the rows to the leaves; return <the bins that go left>."""
    level_sets = yield from left_sets(party, candidates, winner)
    yield from rows.route(party, level_sets)
    return level_sets


def _allowed(
    party: Party, interactions: Interactions | None, path: Task[tuple[BShare, BShare]] | None
) -> Steps[Followers | None]:
    """What may follow the last winners, when it is known; None: everything."""
    if interactions is None or path is None:
        return None
    _, groups = yield from path.wait()
    return (yield from followers(party, interactions, groups))


def _leaves(
    party: Party,
    pruning: Pruning,
    parents: AShare,
    chosen: Steps[AShare],
    winner: BShare,
    path: Task[tuple[BShare, BShare]] | None,
) -> Steps[tuple[AShare, AShare]]:
    """Return [left sums] of the last winners, [v, s], and the [weights] of leaves for training rows."""
    of_left = yield from chosen
    sums = _children(of_left, parents)
    checks.children_add_up(party, sums, parents)
    pruning.add(sums, winner, path)
    return of_left, (yield from pruning.weights())


def _children(left: AShare, parents: AShare | None) -> AShare:
    """Values of left children, [v, ..], and of their parents -> those of both children; at the root, unchanged."""
    return left if parents is None else interleave(left, parents - left)


def _left_sums(party: Party, rows: TreeRows, candidates: Candidates, sample: np.ndarray, narrow: bool) -> Steps[AShare]:
    """Return [left sums] of left children at the candidates of a sample, [v, s, C']."""
    histograms = yield from rows.histograms(party)
    sums = yield from left_sums(party, candidates, histograms)
    return (yield from _widened(party, sums[..., sample], narrow))


def _widened(party: Party, sums: AShare, narrow: bool) -> Steps[AShare]:
    """[sums], uint32 -> the same in words of 64 bits, unless they stay narrow."""
    return sums if narrow else (yield from widen.steps(party, sums))


def _scatter(chosen: BShare, places: np.ndarray, count: int) -> BShare:
    """<[v, len(places)]> -> <[v, count]>, 0 elsewhere."""
    bits = np.zeros((len(chosen), count), np.uint8)
    bits[:, places] = chosen.bits
    return BShare(bits, chosen.rank)


def _chosen(party: Party, winner: BShare, left: AShare) -> Steps[AShare]:
    """<one-hot winner> and [left sums] of all candidates -> [left sums] of the winners, [v, s]."""
    return (yield from select.steps(party, winner.map(lambda b: b[:, None]), left)).sum(axis=-1)
