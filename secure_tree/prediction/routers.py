"""What routes rows: a secret bit "goes left" per node of a tree and row, by two methods.

"bins" routes values by the cuts that their owner has stored in training: a known matrix of bins times the shared left
sets. "thresholds" compares values of any origin with the secret threshold of the secret feature at every node: a known
matrix of values times the shared features or, for the rows of clients, shared values times the features, a matrix that
is fixed once for any number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, xor
from typing import Any

import numpy as np

from mpc.comparison.comparison import below
from mpc.matrix.fixed_operand import FixedOperand, fix, multiply_fixed
from mpc.matrix.interface import LinearMap
from mpc.matrix.known_matrix import BinRows, DenseWords
from mpc.matrix.linear_map import share_masked_matrix
from mpc.party import Party
from mpc.rings import GF2, Z64
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, S, concatenate
from mpc.words import U8
from secure_tree.data.bins import ORDER_BITS, bin_rows, keys_of
from secure_tree.model.ensemble import Ensemble, Routes, left_children
from secure_tree.prediction.paths import SecretPaths
from secure_tree.public.config import Method
from secure_tree.public.layout import Layout, place

THRESHOLD_BITS = ORDER_BITS + 3


@dataclass(frozen=True)
class Router:
    """One group of rows, handed over masked; `route(party, trees, places)`: some trees, which have these places in the
    ensemble -> <goes left>, [t, nodes, rows]. `matrices` are released after the last trees; `own`: those of them that
    were shared for this router.
    """

    matrices: Sequence[LinearMap]
    route: Callable[[Party, Any, slice], Steps[BShare]]
    own: Sequence[LinearMap] = ()


@dataclass(frozen=True)
class HiddenBins:
    """Bins of block 2: a matrix for some rows, [d * bins, r], after the other. below: whether the first bin of each
    feature is that of values below the first edge.
    """

    parts: Sequence[LinearMap]
    below: bool


def router_of(
    party: Party,
    layout: Layout,
    owners: tuple[int, ...],
    cuts: np.ndarray,
    features: np.ndarray,
    method: Method,
    keys: AShare | None = None,
    hidden: HiddenBins | None = None,
) -> Steps[Router]:
    """Share the masked rows of the owners for a method -> Router."""
    if method == "bins":
        return (yield from bin_router(party, layout, owners, cuts, features, hidden))
    return (yield from threshold_router(party, layout, owners, features, keys))


@dataclass(frozen=True)
class FixedModel:
    """What is fixed of a model for rows that come one by one: a matrix that routes them at all nodes, or one for each
    owner whose bins they have; and the paths of trees that are not full.
    """

    routes: Sequence[FixedOperand]
    paths: SecretPaths | None

    def of(self, owner: int | None) -> FixedOperand:
        return self.routes[(owner or 0) % len(self.routes)]


def own_rows(
    party: Party, layout: Layout, owner: int, rows: int, features: np.ndarray, cuts: np.ndarray, method: Method
) -> AShare | BShare:
    """Own features float32[rows, d_p] -> this party's share of rows for `margins_of_own`: what it knows, and zeros.

    By rows, the owner knows all of its rows; by columns, each party knows its features of all rows. By thresholds
    [keys], [rows, d + o], as of `keys_of`; by bins <one-hot bins>, [rows, d * bins].
    """
    p = party.rank if layout.vertical else owner
    if method == "thresholds":
        words = np.zeros((rows, layout.feature_count + len(layout.missing)), np.uint64)
        if party.rank == p:
            words[:, columns_of(layout, p)] = keys_of(features, layout.optional[p])
        return AShare(words, party.rank)
    counts = tuple(width * (layout.bins(b) + 1) for b, width in enumerate(layout.widths))
    bits = np.zeros((rows, sum(counts) if layout.vertical else counts[p]), U8)
    if party.rank == p:
        hot = bits[:, place(p, counts) if layout.vertical else slice(None)].reshape(rows, layout.widths[p], -1)
        np.put_along_axis(hot, bin_rows(features, cuts)[..., None].astype(np.int64), 1, axis=2)
    return BShare(bits, party.rank)


def row_groups(layout: Layout) -> list[tuple[int, ...]]:
    """Return the groups of blocks that together have all features of some rows, without empty groups."""
    groups = [tuple(layout.blocks)] if layout.vertical else [(p,) for p in layout.blocks]
    return [owners for owners in groups if layout.rows[owners[0]]]


def bin_router(
    party: Party,
    layout: Layout,
    owners: tuple[int, ...],
    cuts: np.ndarray,
    features: np.ndarray,
    hidden: HiddenBins | None = None,
) -> Steps[Router]:
    """Share the masked bins of the owners' rows -> Router. Those of block 2, if there is one, are `hidden`."""
    steps = []
    for p in owners:
        if p > 1:  # nobody knows this block
            continue
        size = layout.bins(p) + 1
        bins = BinRows(bin_rows(features, cuts), size) if party.rank == p else None
        steps.append(share_masked_matrix.steps(party, p, bins, layout.widths[p] * size, layout.rows[p], GF2))
    known = yield from parallel(*steps)
    parts = hidden.parts if hidden else ()

    def sets(trees: Routes, p: int) -> BShare:
        return trees.sets[p] if p > 1 and hidden and not hidden.below else left_bins(layout, trees, p)

    return Router(
        [*known, *parts],
        lambda party, trees, places: _by_bins(party, trees, known, parts, [sets(trees, p) for p in owners]),
        known,
    )


def left_bins(layout: Layout, trees: Routes, p: int) -> BShare:
    """Return <bins that go left> of party p's features, [t, nodes, d_p, bins_p + 1].

    A value below a party's first edge, the first bin, goes left at every candidate of its feature.
    """
    lowest = trees.features[:, :, layout.features_of(p), None]
    return concatenate([lowest, trees.sets[p]], axis=-1)


def shared_bin_router(matrix: LinearMap) -> Router:
    """Return the router of rows whose bins at joint edges nobody knows, [d * bins, n]; no value is below them."""
    # With joint edges, the left sets of all blocks are equal.
    return Router([matrix], lambda party, trees, places: _by_bins(party, trees, [matrix], [], trees.sets[:1]))


def _by_bins(
    party: Party, trees: Routes, matrices: Sequence[LinearMap], parts: Sequence[LinearMap], sets: Sequence[BShare]
) -> Steps[BShare]:
    """Matrices of bins, one more in `parts` of rows, <bins that go left> of each -> <goes left>, [t, nodes, rows]."""
    t, m = trees.null.shape
    flat = [x.reshape(t * m, -1) for x in sets]
    vectors = [*flat[: len(matrices)], *flat[len(matrices) :] * len(parts)]
    left = list((yield from _apply_all(party, [*matrices, *parts], vectors)))
    if parts:
        left = [*left[: len(matrices)], concatenate(left[len(matrices) :], axis=1)]
    return reduce(xor, left).reshape(t, m, -1) ^ _null_left(trees)


def _null_left(trees: Routes) -> BShare:
    """Return <a left child has the null split>, which sends all rows left, [t, nodes, 1]."""
    t, m = trees.null.shape
    return trees.null.masked(left_children(m)).reshape(t, m, 1)


def threshold_router(
    party: Party, layout: Layout, owners: tuple[int, ...], features: np.ndarray, keys: AShare | None = None
) -> Steps[Router]:
    """Share the masked values of the owners' rows -> Router. Nobody knows those of block 2, if any: their [keys].

    A missing value has key 0, below every threshold. A node that sends it right adds a number above every key.
    """
    steps = []
    for p in owners:
        if p > 1:
            continue
        words = DenseWords(keys_of(features, layout.optional[p]).T) if party.rank == p else None
        width = layout.widths[p] + len(layout.optional[p])
        steps.append(share_masked_matrix.steps(party, p, words, width, layout.rows[p], Z64))
    shared = [fix.steps(party, keys[None])] if keys is not None else []
    known, fixed = yield from parallel(parallel(*steps), parallel(*shared))
    matrices: list[LinearMap] = [*known, *fixed]

    def route(party: Party, trees: Ensemble, places: slice) -> Steps[BShare]:
        t, m = trees.thresholds.shape
        vectors = [trees.compared[..., columns_of(layout, p)].reshape(t * m, -1) for p in owners]
        parts = yield from _apply_all(party, matrices, vectors)
        return (yield from _below_thresholds(party, reduce(add, parts), trees))

    return Router(matrices, route, matrices)


def fixed_router(party: Party, fixed: FixedModel, rows: AShare | BShare, owner: int | None = None) -> Steps[Router]:
    """Multiply [keys], [n, d + o], or <bins> of rows by a fixed matrix of all nodes of all trees -> Router. One round.

    owner: the party that knows the rows, if one does.

    Keys beyond those of any value make some comparisons of their row wrong, and nothing else: every bit of a node is
    still a bit, and the row is at one leaf of each tree.
    """
    values = (yield from multiply_fixed.steps(party, rows[None], fixed.of(owner), owner))[0]

    def route(party: Party, trees: Ensemble, places: slice) -> Steps[BShare]:
        t, m = trees.null.shape
        of_trees = values.T[places.start * m : places.stop * m]
        if isinstance(of_trees, AShare):
            return (yield from _below_thresholds(party, of_trees, trees))
        return of_trees.reshape(t, m, -1) ^ _null_left(trees)

    return Router((), route)


def _below_thresholds(party: Party, values: AShare, trees: Ensemble) -> Steps[BShare]:
    """[key of the chosen feature], [t * nodes, rows] -> <goes left>, [t, nodes, rows]."""
    t, m = trees.thresholds.shape
    difference = values - trees.thresholds.reshape(t * m, 1)
    return (yield from below.steps(party, difference, [0], THRESHOLD_BITS)).reshape(t, m, -1)


def columns_of(layout: Layout, p: int) -> np.ndarray:
    """Return the positions in `Ensemble.chosen` of party p's features, and of those that may be missing."""
    own = np.arange(layout.feature_count)[layout.features_of(p)]
    optional = [layout.feature_count + layout.missing.index(own[f]) for f in layout.optional[p]]
    return np.concatenate([own, np.array(optional, int)])


def _apply_all(party: Party, matrices: Sequence[LinearMap], vectors: Sequence[S]) -> Steps[tuple[S, ...]]:
    return (
        yield from parallel(*(m.supply(party, len(x)).apply(party, x) for m, x in zip(matrices, vectors, strict=True)))
    )
