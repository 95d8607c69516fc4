"""Trees as libraries keep them, nodes in any order and of any shape, and the plain model that they make.

Trees of at most DEEPEST levels are filled up to full ones. If one is deeper, all trees keep their shapes. They are then
padded, with leaves that no row reaches, to the next power of two above the leaves of the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from mpc.errors import DataError
from secure_tree.agreement.models import MOST_LEAVES
from secure_tree.exchange.plain_model import NO_SPLIT, PlainModel
from secure_tree.public.config import DEEPEST
from secure_tree.public.exact import ceil_log2

# Sums along a path are kept modulo 256.
MOST_LEVELS = 255


@dataclass(frozen=True)
class Tree:
    """One tree, by node; the root is node 0. `left` is -1 at a leaf, where only `values` counts.

    A row goes left if x < threshold in float32, and with a missing value if `missing_left`. covers: sums of hessians,
    or numbers of rows. rights: with columns that are split by sets, for each node the indicators that it sends right,
    bool[nodes, d], none if it splits on another feature.
    """

    features: np.ndarray
    thresholds: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    values: np.ndarray
    covers: np.ndarray
    rights: np.ndarray | None = None

    @property
    def right_sets(self) -> np.ndarray:
        """`rights`, or no indicators, bool[nodes, 0]."""
        return np.zeros((len(self.left), 0), bool) if self.rights is None else self.rights


def plain_model(
    source: str,
    objective: str,
    names: tuple[str, ...],
    base_margins: tuple[float, ...],
    trees: Sequence[Tree],
    parallel: int = 1,
    sets: tuple[tuple[int, int], ...] = (),
) -> PlainModel:
    """Make a plain model of trees in its order, `parallel` of them per round and class.

    Raises DataError, which names `source`, for trees that are too large, and ValueError for what is no tree.
    """
    if not np.isfinite(base_margins).all():
        raise ValueError("a base score that is not finite")
    for tree in trees:
        if any(part.dtype.kind not in "iu" for part in (tree.features, tree.left, tree.right)):
            raise ValueError("a feature or a child that is not an integer")
        if len({len(part) for each in fields(tree) if (part := getattr(tree, each.name)) is not None}) > 1:
            raise ValueError("nodes without some of their facts")
        split = tree.left != -1
        if (
            (split & ~((tree.features >= 0) & (tree.features < len(names)))).any()
            or np.isnan(tree.thresholds[split]).any()
            or not np.isfinite(tree.values[~split]).all()
            or not np.isfinite(tree.covers).all()
        ):
            raise ValueError("a split on an unknown feature, or a number that is not finite")
    depth = max(1, *(_depth(tree) for tree in trees))
    if depth > MOST_LEVELS:
        raise DataError(f"{source}: the model has trees of depth {depth}: at most {MOST_LEVELS} can be shared")
    if depth <= DEEPEST:
        made = [_full(tree, depth) for tree in trees]
    else:
        most = max(int((tree.left == -1).sum()) for tree in trees)
        if most > MOST_LEAVES:
            raise DataError(f"{source}: the model has trees of {most} leaves: at most {MOST_LEAVES} can be shared")
        made = [_of_any_shape(tree, 1 << ceil_log2(most)) for tree in trees]
    parts = (np.stack(part) for part in zip(*made, strict=True))
    features, thresholds, missing_left, rights, leaves, covers, *paths = parts
    gains = np.zeros(features.shape)
    arrays = features, thresholds, missing_left, leaves, gains, covers, paths[0] if paths else None
    return PlainModel(objective, names, base_margins, *arrays, sets, rights if sets else None, parallel=parallel)


def _depth(tree: Tree) -> int:
    """Return the last level that has nodes. Raises ValueError unless every node but the root has one parent."""
    split = tree.left != -1
    children = np.sort(np.concatenate([tree.left[split], tree.right[split]]))
    if not np.array_equal(children, np.arange(1, len(tree.left))):
        raise ValueError("nodes that do not form a tree")
    level, depth, seen = np.zeros(1, int), 0, 1
    while len(level := level[split[level]]):
        level = np.concatenate([tree.left[level], tree.right[level]])
        depth, seen = depth + 1, seen + len(level)
    if seen < len(tree.left):
        raise ValueError("a node that is its own descendant")
    return depth


def _full(tree: Tree, depth: int) -> tuple[np.ndarray, ...]:
    """Convert a tree to the arrays of a full one but gains, by repeating its upper leaves."""
    m = (1 << depth) - 1
    features = np.full(m, NO_SPLIT)
    thresholds, leaves = np.zeros(m, np.float32), np.zeros(m + 1)
    missing_left, covers = np.zeros(m, bool), np.zeros(2 * m + 1)
    rights = np.zeros((m, tree.right_sets.shape[1]), bool)
    nodes = np.zeros(1, int)
    for level in range(depth + 1):
        places = slice((1 << level) - 1, (2 << level) - 1)
        split = tree.left[nodes] != -1
        covers[places] = tree.covers[nodes]
        if level == depth:
            leaves[:] = tree.values[nodes]
            break
        features[places] = np.where(split, tree.features[nodes], NO_SPLIT)
        thresholds[places] = np.where(split, tree.thresholds[nodes], 0)
        missing_left[places] = split & tree.missing_left[nodes]
        rights[places] = split[:, None] & tree.right_sets[nodes]
        children = np.where(split, [tree.left[nodes], tree.right[nodes]], nodes)
        nodes = children.T.reshape(-1)
    return features, thresholds, missing_left, rights, leaves, covers


def _of_any_shape(tree: Tree, size: int) -> tuple[np.ndarray, ...]:
    """Convert a tree to the arrays of one with `size` leaves but gains; the last one are its paths."""
    m = size - 1
    features, thresholds = np.full(m, NO_SPLIT), np.zeros(m, np.float32)
    missing_left, leaves, covers = np.zeros(m, bool), np.zeros(size), np.zeros(2 * m + 1)
    rights = np.zeros((m, tree.right_sets.shape[1]), bool)
    paths = np.zeros((size, m + 1), np.int16)
    paths[:, m] = 1  # no row agrees with the path to a leaf that is not there
    waiting: list[tuple[int, dict[int, int]]] = [(0, {})]
    splits = ends = 0
    while waiting:
        node, turns = waiting.pop()
        if tree.left[node] == -1:
            leaves[ends] = tree.values[node]
            paths[ends, list(turns)] = list(turns.values())
            paths[ends, m] = sum(turn < 0 for turn in turns.values())
            ends += 1
            continue
        features[splits], thresholds[splits] = tree.features[node], tree.thresholds[node]
        missing_left[splits], rights[splits] = tree.missing_left[node], tree.right_sets[node]
        waiting += [(tree.right[node], turns | {splits: 1}), (tree.left[node], turns | {splits: -1})]
        splits += 1
    return features, thresholds, missing_left, rights, leaves, covers, paths


def strictly_below(thresholds: np.ndarray, inclusive: np.ndarray | bool) -> np.ndarray:
    """Return float32 thresholds below which the float32 values are that are below the float64 thresholds.

    inclusive: whether the values at a threshold are, too.
    """
    near = thresholds.astype(np.float32)
    exact = near.astype(np.float64)
    return np.where(
        np.where(inclusive, exact > thresholds, exact >= thresholds), near, np.nextafter(near, np.float32(np.inf))
    )
