"""One tree: level by level, all nodes of a level together, nothing opened.

Children of node i of a level are nodes 2i (left) and 2i + 1 (right) of the next. A node without a valid split repeats
its parent's (the rule of the published algorithm): a left child then sends all its rows left, a right child and the
root all right.
"""

from __future__ import annotations

import numpy as np

from mpc.argmax import argmax
from mpc.bit_product import select
from mpc.one_hot import one_hot
from mpc.party import Party
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, stack
from mpc.truncation import truncate
from secure_tree.candidates import Candidates, left_sets, left_sums
from secure_tree.context import TrainingContext
from secure_tree.ensemble import TreeShares, left_children
from secure_tree.gain import keys, weights
from secure_tree.numerics import GAIN_KEY_BITS, RATE_SCALE
from secure_tree.rows import TreeRows, interleave


def grow(
    party: Party, context: TrainingContext, rows: TreeRows, candidates: Candidates, sample: np.ndarray
) -> Steps[TreeShares]:
    """Grow a tree on the rows, which reach their leaves.

    `sample` numbers the candidates to choose from: public, ascending, the null split the last.
    """
    config, numerics = context.config, context.numerics
    winners: list[BShare] = []
    sets: list[list[BShare]] = []
    gains: list[AShare] = []
    covers: list[AShare] = []
    sums: list[AShare] = []
    for level in range(config.max_depth):
        party.part("histograms")
        of_left = yield from rows.histograms(party)
        # Right children by subtraction from their parents.
        sums = [interleave(x, parent - x) for x, parent in zip(of_left, sums, strict=True)] if sums else of_left
        left = (yield from left_sums(party, candidates, sums))[..., sample]
        total = stack([sums[p][:, :, 0].sum(axis=-1) for p in context.layout.cover]).sum(axis=0)
        party.part("gains")
        key = yield from keys(party, numerics, left, total, candidates.rank[sample], config.min_child_samples)
        party.part("best split")
        best, gain = yield from _best(party, key)
        winner = _scatter(best, sample, candidates.layout.candidates)
        party.part("rows to children")
        is_left = left_children(2 * len(winner) - 1)[-len(winner) :]
        if level < config.max_depth - 1:
            level_sets = yield from left_sets(party, candidates, winner)
        else:
            level_sets, leaf_sums = yield from parallel(
                left_sets(party, candidates, winner), _child_sums(party, best, left, total, is_left)
            )
        yield from rows.route(party, level_sets, winner[:, -1].masked(is_left))
        winners.append(winner)
        sets.append(level_sets)
        gains.append(gain)
        covers.append(total[:, 1])
    party.part("leaf weights")
    leaves = yield from _leaf_weights(party, context, leaf_sums)
    yield from rows.add_leaves(party, leaves)
    return TreeShares(
        winner=concatenate(winners),
        sets=[concatenate([level_sets[p] for level_sets in sets]) for p in (0, 1)],
        leaves=leaves,
        gains=concatenate(gains),
        covers=concatenate([*covers, leaf_sums[:, 1]]),
    )


def _scatter(chosen: BShare, places: np.ndarray, count: int) -> BShare:
    """<[v, len(places)]> -> <[v, count]>, 0 elsewhere."""
    bits = np.zeros((len(chosen), count), np.uint8)
    bits[:, places] = chosen.bits
    return BShare(bits, chosen.rank)


def _best(party: Party, key: AShare) -> Steps[tuple[BShare, AShare]]:
    """[key], [v, C + 1] -> <one-hot of the largest>, [v, C + 1], and [by how much it exceeds the null split's], [v]."""
    place, largest = yield from argmax.steps(party, key, GAIN_KEY_BITS)
    hot = yield from one_hot.steps(party, place)
    return hot[:, : key.shape[1]], largest - key[:, -1]


def _child_sums(party: Party, winner: BShare, left: AShare, total: AShare, is_left: np.ndarray) -> Steps[AShare]:
    """[G, H] of both children of the last level's nodes, [2 v, 2]: the winner's left sums, and the rest."""
    left, total = left[:, :2], total[:, :2]
    of_null = total.map(lambda t: t * is_left.astype(t.dtype)[:, None])
    sums = concatenate([left[..., :-1], of_null.map(lambda t: t[..., None])], axis=-1)
    chosen = (yield from select.steps(party, winner.map(lambda b: b[:, None]), sums)).sum(axis=-1)
    return interleave(chosen, total - chosen)


def _leaf_weights(party: Party, context: TrainingContext, sums: AShare) -> Steps[AShare]:
    """[G, H], [leaves, 2] -> [-eta w] at MARGIN_SCALE; as in XGBoost, 0 where H is below min_child_weight."""
    numerics = context.numerics
    _, w, heavy = yield from weights(party, numerics, sums[:, 0], sums[:, 1], numerics.leaf_shift)
    kept = yield from select.steps(party, heavy, w)
    shrunk = kept.times(-round(context.config.learning_rate * (1 << RATE_SCALE)), RATE_SCALE)
    return (yield from truncate.steps(party, shrunk, RATE_SCALE))
