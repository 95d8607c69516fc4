"""Boosting: set-up, trees, and the finished model, each a program of rounds that can be planned from shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.bit_product import to_ring
from mpc.linear_map import BIT, DenseBits, SharedMatrix, apply, hand_over
from mpc.party import Party, Steps, together
from mpc.shares import AShare, BShare, public_ring, stack
from secure_tree.binning import KEY_BITS, Bins, order_key
from secure_tree.candidates import compare_edges
from secure_tree.config import TrainConfig
from secure_tree.gradients import gradients
from secure_tree.histogram import hand_over_blocks
from secure_tree.numerics import MARGIN_SCALE, plan_numerics
from secure_tree.tree import Ground, TreeShares, add_leaves, grow, left_children


@dataclass(frozen=True)
class Shape:
    """What both parties know before the first round: rows, features, edges a feature, label scale."""

    rows: tuple[int, int]
    features: int
    sizes: tuple[int, int]
    label_scale: float


@dataclass(frozen=True)
class Ensemble:
    """The model as shares, T trees of m nodes: see secure_tree/predict.py for the use of each part.

    sets[p] <[T, m, d, K_p]>, features <[T, m, d]>, null <[T, m]>, thresholds [T, m], chosen [T, m, d],
    leaves [T, 2^depth].
    """

    sets: list[BShare]
    features: BShare
    null: BShare
    thresholds: AShare
    chosen: AShare
    leaves: AShare


def set_up(party: Party, config: TrainConfig, shape: Shape, bins: Bins, labels: np.ndarray) -> Steps:
    """Own bins and labels (float64, own rows) -> Ground and the matrices of edges that `finish` needs."""
    d, sizes = shape.features, shape.sizes
    numerics = plan_numerics(config, shape.rows, d * sum(sizes) + 1, shape.label_scale)
    candidates, blocks, edges = yield from together(
        compare_edges(party, bins, d, sizes),
        hand_over_blocks(party, bins, d, shape.rows, sizes),
        together(*(_hand_over_edges(party, p, bins, d, sizes[p]) for p in (0, 1))),
    )
    words = np.zeros(sum(shape.rows), np.int64)
    own = slice(0, shape.rows[0]) if party.rank == 0 else slice(shape.rows[0], None)
    unit = 1 if config.logistic else (1 << MARGIN_SCALE) / shape.label_scale
    words[own] = np.round(labels * unit)
    return Ground(
        config, numerics, shape.rows, blocks, candidates, AShare(words.astype(np.uint64), party.rank), shape.label_scale
    ), edges


def _hand_over_edges(party: Party, p: int, bins: Bins, features: int, size: int) -> Steps:
    matrix = None
    if party.rank == p:
        keys = order_key(bins.edges).reshape(-1)
        matrix = DenseBits(((keys >> np.arange(KEY_BITS + 1)[:, None]) & 1).astype(np.uint8))
    return (yield from hand_over.steps(party, p, matrix, features * size, KEY_BITS + 1, BIT))


def first_margin(party: Party, config: TrainConfig, shape: Shape) -> AShare:
    """The base margin for every row, public."""
    base = round(config.base_margin / shape.label_scale * (1 << MARGIN_SCALE))
    return public_ring(np.full(sum(shape.rows), base), party.rank)


def boost_once(party: Party, ground: Ground, margin: AShare) -> Steps:
    """[margin] -> one more tree, the new [margin], and the [g, h] that it was grown on."""
    values = yield from gradients(party, ground, margin)
    tree, at_leaf = yield from grow(party, ground, values)
    step = yield from add_leaves(party, at_leaf, tree.leaves)
    return tree, margin + step, values


def finish(party: Party, ground: Ground, edges: list[SharedMatrix], trees: list[TreeShares]) -> Steps:
    """Trees -> Ensemble: every node's feature as a one-hot and its threshold's key. Two rounds for all trees.

    A null split compares 0 with a threshold above every key where the node is a left child, else with 0.
    """
    candidates = ground.candidates
    d, m = candidates.features, ground.config.nodes
    winners = stack([t.winner for t in trees])
    count = len(trees) * m
    null = winners[..., -1]
    by_feature = winners[..., :-1].reshape(count, d, -1)
    keys = yield from together(
        *(
            apply.steps(
                party, edges[p].supply(party, count), by_feature[..., candidates.edges_of(p)].reshape(count, -1)
            )
            for p in (0, 1)
        )
    )
    features = by_feature.parity(axis=-1)
    above_all = null.reshape(count).masked(np.tile(left_children(m), len(trees)))
    bits = (keys[0] ^ keys[1]).map(np.copy)
    top = bits.map(lambda b: np.concatenate([b, above_all.bits[:, None]], axis=1))
    threshold_bits, chosen = yield from together(to_ring.steps(party, top), to_ring.steps(party, features))
    thresholds = threshold_bits.times(1 << np.arange(KEY_BITS + 2)).sum(axis=-1)
    shape = (len(trees), m)
    return Ensemble(
        sets=[stack([t.sets[p] for t in trees]) for p in (0, 1)],
        features=features.reshape(*shape, d),
        null=null,
        thresholds=thresholds.reshape(*shape),
        chosen=chosen.reshape(*shape, d),
        leaves=stack([t.leaves for t in trees]),
    )
