"""Boosting: set-up, trees, and the finished model, each a program of rounds that can be planned from shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.bit_product import to_ring
from mpc.linear_map import BIT, DenseBits, SharedMatrix, apply, hand_over
from mpc.party import Party, Steps, together
from mpc.shares import AShare, BShare, concatenate, public_ring, stack
from secure_tree.binning import KEY_BITS, Bins, order_key
from secure_tree.candidates import compare_edges, winning_edges
from secure_tree.config import TrainConfig
from secure_tree.gradients import gradients
from secure_tree.histogram import hand_over_blocks
from secure_tree.layout import Facts, Layout
from secure_tree.numerics import MARGIN_SCALE, plan_numerics
from secure_tree.tree import Ground, TreeShares, add_leaves, grow, left_children


@dataclass(frozen=True)
class Ensemble:
    """The model as shares, T trees of m nodes: see secure_tree/predict.py for the use of each part.

    sets[p] <[T, m, d_p, bins_p]>, features <[T, m, d]>, null <[T, m]>, thresholds [T, m], leaves [T, 2^depth];
    chosen [T, m, d + o]: the feature as a one-hot, then, for the o features that may be missing, 1 where the node cuts
    that feature and sends missing values right.
    """

    sets: list[BShare]
    features: BShare
    null: BShare
    thresholds: AShare
    chosen: AShare
    leaves: AShare


def set_up(party: Party, config: TrainConfig, facts: Facts, bins: Bins, labels: np.ndarray | None) -> Steps:
    """Own bins and labels (float64, own rows) -> Ground and the matrices of edges that `finish` needs."""
    layout = facts.layout
    rows = tuple(layout.rows[p] for p in layout.cover)
    numerics = plan_numerics(config, rows, layout.candidates, facts.label_scale)
    candidates, blocks, edges = yield from together(
        compare_edges(party, bins, layout),
        hand_over_blocks(party, bins, layout),
        together(*(_hand_over_edges(party, p, bins, layout.widths[p] * layout.sizes[p]) for p in (0, 1))),
    )
    words = np.zeros(layout.row_count, np.int64)
    if labels is not None:
        unit = 1 if config.logistic else (1 << MARGIN_SCALE) / facts.label_scale
        words[layout.rows_of(party.rank)] = np.round(labels * unit)
    shared = AShare(words.astype(np.uint64), party.rank)
    return Ground(config, numerics, layout, blocks, candidates, shared, facts.label_scale), edges


def _hand_over_edges(party: Party, p: int, bins: Bins, count: int) -> Steps:
    matrix = None
    if party.rank == p:
        keys = order_key(bins.edges).reshape(-1)
        matrix = DenseBits(((keys >> np.arange(KEY_BITS + 1)[:, None]) & 1).astype(np.uint8))
    return (yield from hand_over.steps(party, p, matrix, count, KEY_BITS + 1, BIT))


def first_margin(party: Party, config: TrainConfig, facts: Facts) -> AShare:
    """The base margin for every row, public."""
    base = round(config.base_margin / facts.label_scale * (1 << MARGIN_SCALE))
    return public_ring(np.full(facts.layout.row_count, base), party.rank)


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
    layout, m = ground.layout, ground.config.nodes
    winners = stack([t.winner for t in trees])
    count = len(trees) * m
    null = winners[..., -1]
    by_party, missing_left = winning_edges(layout, winners.reshape(count, -1))
    keys = yield from together(
        *(
            apply.steps(party, matrix.supply(party, count), x.reshape(count, -1))
            for matrix, x in zip(edges, by_party, strict=True)
        )
    )
    features = _features(layout, by_party)
    missing_right = (features ^ missing_left)[:, list(layout.missing)]
    above_all = null.reshape(count).masked(np.tile(left_children(m), len(trees)))
    top = concatenate([keys[0] ^ keys[1], above_all.reshape(count, 1)], axis=1)
    threshold_bits, chosen = yield from together(
        to_ring.steps(party, top), to_ring.steps(party, concatenate([features, missing_right], axis=1))
    )
    thresholds = threshold_bits.times(1 << np.arange(KEY_BITS + 2)).sum(axis=-1)
    shape = (len(trees), m)
    return Ensemble(
        sets=[stack([t.sets[p] for t in trees]) for p in (0, 1)],
        features=features.reshape(*shape, -1),
        null=null,
        thresholds=thresholds.reshape(*shape),
        chosen=chosen.reshape(*shape, -1),
        leaves=stack([t.leaves for t in trees]),
    )


def _features(layout: Layout, edges: list[BShare]) -> BShare:
    """<winning edge>, [v, d_p, K_p] of both parties -> <feature of the table>, [v, d] one-hot."""
    bits = np.zeros((len(edges[0]), layout.feature_count), np.uint8)
    for p, x in enumerate(edges):
        bits[:, layout.features_of(p)] ^= x.parity(axis=2).bits
    return BShare(bits, edges[0].rank)
