"""Pruning of a tree while it grows: exact gains of its nodes, and the tree without the splits that do not last.

A split lasts if both children have the least weight and the least number of rows, their gains exceed that of the node
by more than min_split_loss, their weights are in the order required by a constraint (secure_tree/tree/monotone.py), its
feature may follow those above (secure_tree/tree/candidates.py), and the split above it lasts. The other nodes get the
null split, which sends all rows left at a left child and right elsewhere. So one leaf below such a node has its weight,
and the others have weight 0. But training rows are at the leaves to which the search has routed them, so every leaf
below the node gives them the node's weight: that of the node at which its path ends.

What depends on the sums of a level begins when they are known, beside the search for the splits of the next levels.
After the last search, only what depends on the leaves is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import and_bits, and_each, select
from mpc.comparison.comparison import below
from mpc.lookup.one_hot import all_of
from mpc.party import Party
from mpc.rings import Z32
from mpc.rounding.truncation import truncate
from mpc.rounding.widening import widen
from mpc.rounds import Steps, Task, Tasks, parallel
from mpc.shares import AShare, BShare, S, concatenate, public_bits, stack
from secure_tree.model.ensemble import TreeShares, left_children
from secure_tree.public.context import TrainingContext
from secure_tree.public.numerics import leaf_rate
from secure_tree.tree import checks
from secure_tree.tree.monotone import clip, constrained, in_order, narrowed, widest
from secure_tree.tree.score import COUNT_BITS
from secure_tree.tree.weights import Normalised, normalised, weights


@dataclass(frozen=True)
class Values:
    """Of nodes, [v] each: [gain], [-weight] at the weight scale, and [weight] at MARGIN_SCALE before any bounds."""

    gain: AShare
    w: AShare
    weight: AShare


@dataclass(frozen=True)
class Splits:
    """Of splits: [gain] and <it exceeds min_split_loss>; <all else lets the split last>; <it lasts>."""

    pays: Task[tuple[AShare, BShare]]
    rest: Task[BShare]
    lasts: Task[BShare]


@dataclass(frozen=True)
class Level:
    """The nodes of a level, [v] each, and below the root the splits above them, [v / 2] each.

    wide: [G, H (, rows)] in words of 64 bits. enough: <the least weight> and, if rows are counted, <the least number of
    rows>. weight: [weight] within `bounds`. end: [weight] of the node at which the path to each node ends.
    """

    wide: Task[AShare]
    enough: Task[list[BShare]]
    values: Task[Values]
    bounds: Task[AShare] | None
    weight: Task[AShare]
    splits: Splits | None
    end: Task[AShare]


class Pruning:
    """The pruning of one tree, whose levels are added one after the other, the leaves last."""

    def __init__(self, party: Party, context: TrainingContext, tasks: Tasks) -> None:
        self._party, self._context, self._tasks = party, context, tasks
        self._levels: list[Level] = []

    def add(self, sums: AShare, winner: BShare | None, path: Task[tuple[BShare, BShare]] | None = None) -> None:
        """Begin with a level: [G, H (, rows)] of its nodes, [v, s], and <one-hot winner> of the splits above, if any.

        Sums are in words of 64 bits, or of 32 without an alpha, a largest step and constraints.
        The winners, [v / 2, C + 1], are valid or invalid candidates, but not null splits yet. `path`: what
        `candidates.follow` returns of them, if there are interaction constraints.
        """
        party, context, start = self._party, self._context, self._tasks.start
        above = self._levels[-1] if self._levels else None
        constraints = context.directions.any()
        ways = constrained(context, winner) if winner is not None and constraints else None
        wide = start(_wide(party, sums))
        normal = start(normalised(party, context.numerics, sums[:, 1]))
        enough = start(_enough(party, context, sums, normal))
        values = start(_values(party, context, wide, normal))
        bounds = start(_bounds(party, context, above, values, ways)) if constraints else None
        weight = start(_held(party, context, values, bounds if above else None))
        splits = self._splits(above, enough, values, ways, path) if above else None
        end = start(_end(party, above, enough, weight, splits))
        self._levels.append(Level(wide, enough, values, bounds, weight, splits, end))

    def _splits(
        self,
        above: Level,
        enough: Task[list[BShare]],
        values: Task[Values],
        ways: BShare | None,
        path: Task[tuple[BShare, BShare]] | None,
    ) -> Splits:
        party, context, start = self._party, self._context, self._tasks.start
        pays = start(_pays(party, context, above.values, values))
        rest = start(_rest(party, above, enough, values, ways, path))
        return Splits(pays, rest, start(_lasting(party, pays, rest)))

    def weights(self) -> Steps[AShare]:
        """Return the weights for training rows, [leaves], when they are known."""
        return (yield from self._levels[-1].end.wait())

    def tree(self, winner: BShare, sets: list[BShare]) -> Steps[TreeShares]:
        """<winners>, [m, C + 1], and <their left sets>, [m, d_p, bins_p] -> the tree, once `weights` are known."""
        party, m = self._party, len(winner)
        splits = [level.splits for level in self._levels if level.splits]
        lasts = concatenate([each.lasts.result for each in splits])
        (heavy, *_), nothing = self._levels[0].enough.result, public_bits(np.ones(1), party.rank)
        weight = concatenate([level.weight.result for level in self._levels])
        sums = concatenate([level.wide.result for level in self._levels])
        to_leaves = _paths(m)[m:]
        on_path = concatenate([lasts, nothing])[to_leaves[:, :-1]]
        (steps, covers), kept = yield from parallel(
            parallel(
                # As in XGBoost, 0 if the root is below min_child_weight.
                _at_end(party, on_path, heavy[np.zeros((m + 1, 1), int)], weight[to_leaves]),
                _at_end(party, on_path, public_bits(np.ones((m + 1, 1)), party.rank), sums[:, 1][to_leaves]),
            ),
            _of_lasting(party, lasts, [winner, *sets]),
        )
        reached = _reached(to_leaves)
        tree = TreeShares(
            winner=concatenate([kept[0][:, :-1], ~lasts[:, None]], axis=1),
            sets=kept[1:],
            leaves=steps.times(reached).sum(axis=1),
            gains=concatenate([each.pays.result[0] for each in splits]),
            covers=concatenate([sums[:m, 1], covers.times(reached).sum(axis=1)]),
        )
        checks.one_split(party, tree.winner)
        return tree


def _wide(party: Party, sums: AShare) -> Steps[AShare]:
    return (yield from widen.steps(party, sums)) if sums.ring == Z32 else sums


def _enough(party: Party, context: TrainingContext, sums: AShare, normal: Task[Normalised]) -> Steps[list[BShare]]:
    (_, _, heavy), many = yield from parallel(normal.wait(), _many_rows(party, context, sums))
    return [heavy, *many]


def _values(party: Party, context: TrainingContext, wide: Task[AShare], normal: Task[Normalised]) -> Steps[Values]:
    sums = yield from wide.wait()
    by_weight, w, leaf = yield from weights(party, context.numerics, sums[:, 0], sums[:, 1], normal.wait())
    rate, scale = leaf_rate(context.config)
    gain, weight = yield from parallel(
        multiply.steps(party, by_weight, w), truncate.steps(party, leaf.times(-rate, scale), scale)
    )
    return Values(gain, w, weight)


def _bounds(
    party: Party, context: TrainingContext, above: Level | None, values: Task[Values], ways: BShare | None
) -> Steps[AShare]:
    bits = context.numerics.leaf_bits
    if above is None or above.bounds is None or ways is None:
        return widest(party, bits)
    before, own = yield from parallel(above.bounds.wait(), values.wait())
    return (yield from narrowed(party, ways, before, own.weight, bits))


def _held(party: Party, context: TrainingContext, values: Task[Values], bounds: Task[AShare] | None) -> Steps[AShare]:
    own = yield from values.wait()
    if bounds is None:
        return own.weight
    return (yield from clip(party, own.weight, (yield from bounds.wait()), context.numerics.leaf_bits))


def _pays(
    party: Party, context: TrainingContext, above: Task[Values], values: Task[Values]
) -> Steps[tuple[AShare, BShare]]:
    node, children = yield from parallel(above.wait(), values.wait())
    gain = children.gain[0::2] + children.gain[1::2] - node.gain
    small = yield from below.steps(party, gain, [context.numerics.split_loss + 1], 64)
    return gain, ~small[:, 0]


def _rest(
    party: Party,
    above: Level,
    enough: Task[list[BShare]],
    values: Task[Values],
    ways: BShare | None,
    path: Task[tuple[BShare, BShare]] | None,
) -> Steps[BShare]:
    tests = [bits[side::2] for bits in (yield from enough.wait()) for side in (0, 1)]
    if ways is not None:
        own = yield from values.wait()
        tests.append((yield from in_order(party, ways, own.w)))
    if path is not None:
        fits, _ = yield from path.wait()
        tests.append(fits)
    if above.splits:
        tests.append(_twice((yield from above.splits.lasts.wait())))
    return (yield from all_of.steps(party, stack(tests, axis=1)))


def _lasting(party: Party, pays: Task[tuple[AShare, BShare]], rest: Task[BShare]) -> Steps[BShare]:
    (_, own), others = yield from parallel(pays.wait(), rest.wait())
    return (yield from and_bits.steps(party, own, others))


def _end(
    party: Party, above: Level | None, enough: Task[list[BShare]], weight: Task[AShare], splits: Splits | None
) -> Steps[AShare]:
    if above is None or splits is None:
        # As in XGBoost, 0 if the root is below min_child_weight.
        (heavy, *_), own = yield from parallel(enough.wait(), weight.wait())
        return (yield from select.steps(party, heavy, own))
    before, own, rest = yield from parallel(above.end.wait(), weight.wait(), splits.rest.wait())
    move = yield from select.steps(party, _twice(rest), own - _twice(before))
    _, pays = yield from splits.pays.wait()
    return _twice(before) + (yield from select.steps(party, _twice(pays), move))


def _many_rows(party: Party, context: TrainingContext, sums: AShare) -> Steps[list[BShare]]:
    """Return <a node has the least number of rows> for all nodes; nothing if rows are not counted."""
    if sums.shape[1] == 2:
        return []
    bits = min(COUNT_BITS, sums.ring.bits)
    few = yield from below.steps(party, sums[:, 2], [context.config.min_child_samples], bits)
    return [~few[:, 0]]


def _twice(x: S) -> S:
    """Values of nodes, [v] -> the same for both children of each, [2 v]."""
    return x.map(lambda w: np.repeat(w, 2))


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
