"""Pruning of a grown tree: exact gains of all nodes at once, and the tree without the splits that do not last.

A split lasts if both children have the least weight and the least number of rows, their gains exceed that of the node
by more than min_split_loss, their weights are in the order required by a constraint (secure_tree/tree/monotone.py), and
all splits above it last. The other nodes get the null split, which sends all rows left at a left child and right
elsewhere. So one leaf below such a node has its weight, and the others have weight 0. But training rows are at the
leaves to which the search has routed them, so every leaf below the node gives them the node's weight.
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import and_each, select
from mpc.comparison.comparison import below
from mpc.lookup.one_hot import all_of
from mpc.party import Party
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, public_bits, stack
from secure_tree.model.ensemble import TreeShares, left_children
from secure_tree.public.context import TrainingContext
from secure_tree.public.numerics import learning_rate
from secure_tree.tree import checks
from secure_tree.tree.monotone import constrained, hold, in_order
from secure_tree.tree.score import COUNT_BITS
from secure_tree.tree.weights import weights


def prune(
    party: Party, context: TrainingContext, winner: BShare, sets: list[BShare], sums: AShare
) -> Steps[tuple[TreeShares, AShare]]:
    """<winners>, [m, C + 1], <their left sets>, [m, d_p, bins_p], and [G, H (, rows)] of all nodes, leaves last,
    [2 m + 1, s] -> the tree, and the weights for training rows, [leaves].

    The winners are valid or invalid candidates, but not null splits yet.
    """
    m = len(winner)
    by_weight, w, leaf, heavy = yield from weights(party, context.numerics, sums[:, 0], sums[:, 1])
    rate, scale = learning_rate(context.config)
    ways = constrained(context, winner) if context.directions.any() else None
    (gains, pays), shrunk, more = yield from parallel(
        _net_gains(party, context, by_weight, w, m),
        truncate.steps(party, leaf.times(-rate, scale), scale),
        parallel(_many_rows(party, context, sums), *(() if ways is None else (in_order(party, ways, w),))),
    )
    many, *right = more
    tests = [pays, *right, *(test[side::2][:m] for test in (heavy, *many) for side in (1, 2))]
    paths = _paths(m)
    lasts, *held = yield from parallel(
        _lasting(party, stack(tests, axis=1), paths[:m, :-1]),
        *(() if ways is None else (hold(party, ways, shrunk, context.numerics.leaf_bits),)),
    )
    (shrunk,) = held or (shrunk,)
    to_leaves = paths[m:]
    on_path = lasts[to_leaves[:, :-1]]
    root_heavy = heavy[np.zeros((m + 1, 1), int)]
    (steps, covers), kept = yield from parallel(
        parallel(
            # As in XGBoost, 0 if the root is below min_child_weight.
            _at_end(party, on_path, root_heavy, shrunk[to_leaves]),
            _at_end(party, on_path, public_bits(np.ones((m + 1, 1)), party.rank), sums[:, 1][to_leaves]),
        ),
        _of_lasting(party, lasts, [winner, *sets]),
    )
    reached = _reached(to_leaves)
    tree = TreeShares(
        winner=concatenate([kept[0][:, :-1], ~lasts[:, None]], axis=1),
        sets=kept[1:],
        leaves=steps.times(reached).sum(axis=1),
        gains=gains,
        covers=concatenate([sums[:m, 1], covers.times(reached).sum(axis=1)]),
    )
    checks.one_split(party, tree.winner)
    return tree, steps.sum(axis=1)


def _lasting(party: Party, tests: BShare, above: np.ndarray) -> Steps[BShare]:
    """<conditions of every node>, [m, tests], and the path to every node -> <its split lasts>, [m]."""
    own = yield from all_of.steps(party, tests)
    nothing = public_bits(np.ones(1), party.rank)
    return (yield from all_of.steps(party, concatenate([own, nothing])[above]))


def _net_gains(
    party: Party, context: TrainingContext, by_weight: AShare, w: AShare, m: int
) -> Steps[tuple[AShare, BShare]]:
    """[gain / w], [w] of all nodes -> [gain of every split], [m], and <it exceeds min_split_loss>, [m]."""
    gain = yield from multiply.steps(party, by_weight, w)
    net = gain[1::2] + gain[2::2] - gain[:m]
    small = yield from below.steps(party, net, [context.numerics.split_loss + 1], 64)
    return net, ~small[:, 0]


def _many_rows(party: Party, context: TrainingContext, sums: AShare) -> Steps[list[BShare]]:
    """Return <a node has the least number of rows> for all nodes; nothing if rows are not counted."""
    if sums.shape[1] == 2:
        return []
    few = yield from below.steps(party, sums[:, 2], [context.config.min_child_samples], COUNT_BITS)
    return [~few[:, 0]]


def _paths(m: int) -> np.ndarray:
    """Return the path from the root to every node, int[2 m + 1, depth + 1], padded with m, which is not a split."""
    depth = m.bit_length()
    paths = np.full((2 * m + 1, depth + 1), m)
    for node in range(2 * m + 1):
        way = [node]
        while way[0]:
            way.insert(0, (way[0] - 1) // 2)
        paths[node, : len(way)] = way
    return paths


def _reached(to_leaves: np.ndarray) -> np.ndarray:
    """Return, for every node on the path to each leaf, 1 if null splits lead from it to this leaf, int64."""
    (count, length), leaves = to_leaves.shape, to_leaves[:, -1]
    m, reached = count - 1, np.ones(to_leaves.shape, np.int64)
    for level in range(length - 1):
        node = to_leaves[:, level]
        while (node < m).all():
            node = 2 * node + 2 - left_children(m)[node]
        reached[:, level] = node == leaves
    return reached


def _at_end(party: Party, on_path: BShare, first: BShare, values: AShare) -> Steps[AShare]:
    """[values along the path to every leaf], [leaves, depth + 1] -> the same, 0 except at the first node without split.

    on_path: <split lasts> for the nodes above the leaf. first: whether the root counts at all.
    """
    lasting = concatenate([first, on_path, first.map(np.zeros_like)], axis=1)
    return (yield from select.steps(party, lasting[:, :-1] ^ lasting[:, 1:], values))


def _of_lasting(party: Party, lasts: BShare, parts: list[BShare]) -> Steps[list[BShare]]:
    """<bits of every node>, [m, ..] each -> the same, 0 if the split does not last. One round."""
    m = len(lasts)
    flat = concatenate([part.reshape(m, -1) for part in parts], axis=1)
    kept = yield from and_each.steps(party, lasts, flat)
    ends = np.cumsum([part.size // m for part in parts]).tolist()
    return [kept[:, end - part.size // m : end].reshape(*part.shape) for part, end in zip(parts, ends, strict=True)]
