"""Prediction: the seed's path sum over every node of every tree, for rows that one party knows.

Rows of a party that trained ("bins") are routed through its own stored edges: a known matrix of bins times the shared
left sets. Rows of anybody ("thresholds") are compared with the secret threshold of the secret feature at every node.
Either way a node gives a secret bit "goes left"; the bits along the path to a leaf are added, and the leaf is reached
iff the sum equals the depth. The result is revealed to the owner of the row alone.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from mpc.bit_product import select, to_ring
from mpc.comparison import below
from mpc.equality import equals_zero
from mpc.linear_map import BIT, BinRows, DenseWords, apply, hand_over
from mpc.party import Party, Steps
from mpc.ring import U8, U64
from mpc.shares import AShare, BShare, concatenate, public_ring
from secure_tree.binning import KEY_BITS, bin_rows, order_key
from secure_tree.boost import Ensemble
from secure_tree.tree import left_children

Method = Literal["bins", "thresholds"]
THRESHOLD_BITS = KEY_BITS + 3
BATCH = 1 << 21


def margins(
    party: Party,
    ensemble: Ensemble,
    base: int,
    edges: np.ndarray,
    features: np.ndarray,
    rows: tuple[int, int],
    method: Method,
) -> Steps:
    """Own features float32[rows[rank], d] -> [margin] of all rows at LEAF_SCALE, party 0's rows first.

    `base` is the base margin at LEAF_SCALE, `edges` this party's training edges. Trees go in batches that fit memory.
    """
    trees, leaves = ensemble.leaves.shape
    parts = []
    for p in (0, 1):
        if rows[p] == 0:
            continue
        total = public_ring(np.full(rows[p], base), party.rank)
        mine = features if party.rank == p else None
        matrix = yield from _hand_over_rows(party, p, ensemble, edges, mine, rows[p], method)
        step = max(1, BATCH // (leaves * rows[p]))
        for start in range(0, trees, step):
            batch = slice(start, start + step)
            left = yield from matrix(batch)
            total = total + (yield from _sum_of_paths(party, left, ensemble.leaves[batch]))
        parts.append(total)
    return concatenate(parts)


def _hand_over_rows(
    party: Party,
    p: int,
    ensemble: Ensemble,
    edges: np.ndarray,
    features: np.ndarray | None,
    rows: int,
    method: Method,
) -> Steps:
    """Hand the rows over masked; the result maps a batch of trees to <goes left>, [t, nodes, rows]."""
    d = ensemble.features.shape[-1]
    if method == "bins":
        size = ensemble.sets[p].shape[-1] + 1
        bins = BinRows(bin_rows(features, edges), size) if features is not None else None
        matrix = yield from hand_over.steps(party, p, bins, d * size, rows, BIT)
    else:
        words = DenseWords(order_key(features).T.astype(U64)) if features is not None else None
        matrix = yield from hand_over.steps(party, p, words, d, rows, U64)

    def by_bins(batch: slice) -> Steps:
        # A value below a party's least edge goes left of every candidate of its feature.
        lowest = ensemble.features[batch].map(lambda b: b[..., None])
        sets = concatenate([lowest, ensemble.sets[p][batch]], axis=-1)
        t, m = sets.shape[:2]
        supply = matrix.supply(party, t * m)
        left = yield from apply.steps(party, supply, sets.reshape(t * m, -1))
        null_left = ensemble.null[batch].masked(left_children(m))
        return left.reshape(t, m, -1) ^ null_left.map(lambda b: b[..., None])

    def by_thresholds(batch: slice) -> Steps:
        chosen, thresholds = ensemble.chosen[batch], ensemble.thresholds[batch]
        t, m = thresholds.shape
        supply = matrix.supply(party, t * m)
        keys = yield from apply.steps(party, supply, chosen.reshape(t * m, d))
        difference = keys - thresholds.reshape(t * m, 1)
        return (yield from below.steps(party, difference, [0], THRESHOLD_BITS)).reshape(t, m, -1)

    return by_bins if method == "bins" else by_thresholds


def paths(depth: int) -> tuple[np.ndarray, np.ndarray]:
    """(nodes, left) of shape [2^depth, depth]: the nodes above each leaf, and 1 where the path turns left."""
    leaf = np.arange(1 << depth)[:, None]
    level = np.arange(depth)
    nodes = (1 << level) - 1 + (leaf >> (depth - level))
    return nodes, 1 - ((leaf >> (depth - 1 - level)) & 1)


def _sum_of_paths(party: Party, left: BShare, leaves: AShare) -> Steps:
    """<goes left>, [t, nodes, rows], and [weights], [t, leaves] -> [sum of the reached leaves' weights], [rows]."""
    t, _, rows = left.shape
    nodes, turns = paths((left.shape[1] + 1).bit_length() - 1)
    count, depth = nodes.shape
    ring = yield from to_ring.steps(party, left, U8)
    along = ring.map(lambda w: w[:, nodes])
    sign = (2 * turns - 1)[None, :, :, None]
    agreed = along.times(sign).sum(axis=2) + (1 - turns).sum(axis=1)[None, :, None]
    reached = yield from equals_zero.steps(party, agreed - depth, depth.bit_length())
    weights = leaves.reshape(t * count, 1)
    return (yield from select.steps(party, reached.reshape(t * count, rows), weights)).sum(axis=0)


def rows_of(rank: int, rows: tuple[int, int]) -> slice:
    """The rows of one party among those of both."""
    return slice(0, rows[0]) if rank == 0 else slice(rows[0], None)
