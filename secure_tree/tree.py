"""One tree: level by level, all nodes of a level together, nothing opened.

Children of node i of a level are nodes 2i (left) and 2i + 1 (right) of the next. A node without a valid split repeats
its parent's (the seed's rule): a left child then sends all its rows left, a right child and the root all right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.argmax import argmax
from mpc.bit_product import and_bits, select
from mpc.one_hot import one_hot
from mpc.party import Party
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate, public_bits, stack
from mpc.truncation import truncate
from secure_tree.candidates import Candidates, left_sets, left_sums
from secure_tree.config import TrainConfig
from secure_tree.gain import keys, weights
from secure_tree.histogram import Block, BlockMasks, histograms, route, take_masks
from secure_tree.layout import Layout
from secure_tree.numerics import KEY_BITS, RATE_SCALE, Numerics


@dataclass(frozen=True)
class Ground:
    """What all trees of a training share; labels [classes, n] and weights [n], at the scales of `gradients`."""

    config: TrainConfig
    numerics: Numerics
    layout: Layout
    blocks: list[Block]
    candidates: Candidates
    labels: AShare
    weights: AShare | None


@dataclass(frozen=True)
class TreeShares:
    """winner <[nodes, C + 1]> one-hot, sets <[nodes, d_p, bins_p]> that go left, leaves [2^depth] at LEAF_SCALE.

    gains [nodes]: the winner's key less the null split's; covers [2 nodes + 1]: sums of hessians, leaves last.
    """

    winner: BShare
    sets: list[BShare]
    leaves: AShare
    gains: AShare
    covers: AShare


def left_children(nodes: int) -> np.ndarray:
    """For nodes numbered from the root level by level: 1 where the node is a left child."""
    number = np.arange(nodes)
    return ((number > 0) & (number % 2 == 1)).astype(np.uint8)


def _interleave(left, right):
    """[v, ...] twice -> [2 v, ...], left child first."""
    return stack([left, right], axis=1).map(lambda w: w.reshape(2 * len(w), *w.shape[2:]))


def grow(party: Party, ground: Ground, gradients: AShare, sample: np.ndarray) -> Steps:
    """[gradients], uint32 [s, n] for s = (g, h) or (g, h, 1) -> TreeShares and <V> of the leaves, [2^depth, n].

    `sample` numbers the candidates to choose from: public, ascending, the null split the last.
    """
    config, candidates = ground.config, ground.candidates
    s, n = gradients.shape
    masks = take_masks(party, ground.blocks, s << config.max_depth - 1, config.nodes)
    at_node = public_bits(np.ones((1, n)), party.rank)
    winners, sets, gains, covers = [], [], [], []
    below_parent: list[AShare] = []
    for level in range(config.max_depth):
        party.part("histograms")
        below_parent = yield from _level_histograms(party, masks, gradients, at_node, below_parent)
        left = (yield from left_sums(party, candidates, below_parent))[..., sample]
        total = stack([below_parent[p][:, :, 0].sum(axis=-1) for p in ground.layout.cover]).sum(axis=0)
        party.part("gains")
        key = yield from keys(party, ground.numerics, left, total, candidates.rank[sample], config.min_child_samples)
        party.part("best split")
        best, gain = yield from _best(party, key)
        winner = best.map(lambda b: _scatter(b, sample, candidates.layout.candidates))
        last = level == config.max_depth - 1
        party.part("rows to children")
        level_sets, leaf_sums = yield from parallel(
            left_sets(party, candidates, winner), _child_sums(party, best, left, total) if last else _nothing()
        )
        left_bits = yield from route(party, masks, level_sets, n)
        null_left = winner[:, -1].masked(_is_left(len(winner)))
        left_bits = left_bits ^ null_left.map(lambda b: b[:, None])
        if level == 0:
            went_left = left_bits
        else:
            went_left = yield from and_bits.steps(party, at_node, left_bits)
        at_node = _interleave(went_left, at_node ^ went_left)
        winners.append(winner)
        sets.append(level_sets)
        gains.append(gain)
        covers.append(total[:, 1])
    party.part("leaf weights")
    leaves = yield from _leaf_weights(party, ground, leaf_sums)
    joined = [concatenate([level_sets[p] for level_sets in sets]) for p in (0, 1)]
    covers.append(leaf_sums[:, 1])
    return TreeShares(concatenate(winners), joined, leaves, concatenate(gains), concatenate(covers)), at_node


def _scatter(chosen: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """[v, len(places)] -> [v, count], 0 elsewhere."""
    out = np.zeros((len(chosen), count), chosen.dtype)
    out[:, places] = chosen
    return out


def _nothing() -> Steps:
    return None
    yield


def _is_left(nodes: int) -> np.ndarray:
    """1 for the left children among the nodes of one level."""
    return left_children(2 * nodes - 1)[-nodes:]


def _level_histograms(
    party: Party,
    masks: list[BlockMasks],
    gradients: AShare,
    at_node: BShare,
    parents: list[AShare],
) -> Steps:
    """Histograms of a level's nodes: summed for left children, by subtraction from the parent for right ones."""
    if not parents:
        return (yield from histograms(party, masks, gradients.map(lambda w: w[None])))
    left_rows = at_node[0::2].map(lambda b: b[:, None])
    values = yield from select.steps(party, left_rows, gradients.map(lambda w: w[None]))
    left = yield from histograms(party, masks, values)
    return [_interleave(x, parent - x) for x, parent in zip(left, parents, strict=True)]


def _best(party: Party, key: AShare) -> Steps:
    """[key], [v, C + 1] -> <one-hot of the largest>, [v, C + 1], and [by how much it exceeds the null split's], [v]."""
    place, largest = yield from argmax.steps(party, key, KEY_BITS)
    hot = yield from one_hot.steps(party, place)
    return hot[:, : key.shape[1]], largest - key[:, -1]


def _child_sums(party: Party, winner: BShare, left: AShare, total: AShare) -> Steps:
    """[G, H] of both children of the last level's nodes, [2 v, 2]: the winner's left sums, and the rest."""
    left, total = left[:, :2], total[:, :2]
    of_null = total.map(lambda t: t * _is_left(len(winner)).astype(t.dtype)[:, None])
    sums = concatenate([left[..., :-1], of_null.map(lambda t: t[..., None])], axis=-1)
    chosen = (yield from select.steps(party, winner.map(lambda b: b[:, None]), sums)).sum(axis=-1)
    return _interleave(chosen, total - chosen)


def _leaf_weights(party: Party, ground: Ground, sums: AShare) -> Steps:
    """[G, H], [leaves, 2] -> [-eta w] at LEAF_SCALE; as in XGBoost, 0 where H is below min_child_weight."""
    numerics = ground.numerics
    _, w, heavy = yield from weights(party, numerics, sums[:, 0], sums[:, 1], numerics.leaf_shift)
    kept = yield from select.steps(party, heavy, w)
    shrunk = kept.times(-round(ground.config.learning_rate * (1 << RATE_SCALE)))
    return (yield from truncate.steps(party, shrunk, RATE_SCALE)).at_scale(0)


def add_leaves(party: Party, at_leaf: BShare, leaves: AShare) -> Steps:
    """<V> [leaves, n] and [weights] -> [sum of V w] a row. One round."""
    return (yield from select.steps(party, at_leaf, leaves.map(lambda w: w[:, None]))).sum(axis=0)
