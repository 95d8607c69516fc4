"""Prediction: a path sum over all nodes of all trees, for rows that a party knows, or nobody.

Rows of parties are divided as in training: each party has all features of some rows (horizontal), or some features of
all rows (vertical). The method "bins" routes values by the cuts that their owner has stored in training: a known matrix
of bins times the shared left sets. The method "thresholds" compares values of any origin with the secret threshold of
the secret feature at every node: a known matrix of values times the shared features or, for the rows of clients, shared
values times the features, a matrix that is fixed once for any number of rows. All give a secret bit "goes left" per
node, and these bits say which leaf is reached (secure_tree/prediction/paths.py). The result is revealed to one party:
the owner of the row, or the party that both name; that of a client's row is released to the client.

Cost of clients' rows with d values and o values that may be missing, for m nodes and l leaves in all (`cost_of_rows`):
6 rounds, and each way per row d + o words, per node the openings of a comparison and of two conversions, and per leaf
an opening of one byte and of a choice of a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, xor
from typing import Any

import numpy as np

from mpc.arithmetic.bits import select, to_ring
from mpc.comparison.comparison import below, below_by_bits
from mpc.lookup.equality import equals_zero
from mpc.matrix.fixed_operand import FixedOperand, fix, multiply_fixed
from mpc.matrix.interface import LinearMap, released
from mpc.matrix.known_matrix import BinRows, DenseWords
from mpc.matrix.linear_map import share_masked_matrix
from mpc.party import Party
from mpc.protocol.contract import Cost, both
from mpc.rings import GF2, Z8, Z64, Z2k
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, S, concatenate
from mpc.words import U8
from secure_tree.data.bins import ORDER_BITS, bin_rows, keys_of
from secure_tree.model.ensemble import Ensemble, Routes, left_children
from secure_tree.prediction.paths import SecretPaths, fix_paths, sum_of_paths
from secure_tree.public.config import Method
from secure_tree.public.layout import Layout, place

THRESHOLD_BITS = ORDER_BITS + 3
BATCH = 1 << 21


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


def margins(
    party: Party,
    ensemble: Ensemble,
    layout: Layout,
    cuts: np.ndarray,
    features: np.ndarray,
    method: Method,
    classes: int,
    keys: AShare | None = None,
    hidden: HiddenBins | None = None,
) -> Steps[AShare]:
    """Own features float32[n_p, d_p] -> [margin] of all rows at MARGIN_SCALE, [classes, n] in the order of `layout`.

    `layout` is that of the training with the rows to predict. `cuts` are those of this party's bins. If there is a
    block 2, [keys], [d + o, n], or `hidden` are its values.
    """
    parts = []
    for owners in row_groups(layout):
        router = yield from router_of(party, layout, owners, cuts, features, method, keys, hidden)
        with released(party, router.own):
            parts.append((yield from routed_margins(party, ensemble, router, layout.rows[owners[0]], classes)))
    return concatenate(parts, axis=1)


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


def fix_model(
    party: Party, ensemble: Ensemble, rows: int, classes: int, bins_of: Layout | None = None
) -> Steps[FixedModel]:
    """Fix a model for `margins_of_shared` and `margins_of_own` of at most `rows` rows at a time. One round.

    bins_of: the layout, if the parties' rows are routed by their bins.
    """
    nodes = ensemble.null.size
    of_nodes = [ensemble.compared] if bins_of is None else [_left_bins(bins_of, ensemble, p) for p in (0, 1)]
    flat = [x.reshape(nodes, x.size // nodes) for x in of_nodes]
    if bins_of is not None and bins_of.vertical:
        flat = [concatenate(flat, axis=1)]
    routes = parallel(*(fix.steps(party, x.T[None]) for x in flat))
    if ensemble.paths is None:
        return FixedModel((yield from routes), None)
    step = _step(ensemble.leaves.shape[1], rows, classes)
    return FixedModel(*(yield from parallel(routes, fix_paths(party, ensemble.paths, step))))


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


def margins_of_shared(party: Party, ensemble: Ensemble, fixed: FixedModel, keys: AShare, classes: int) -> Steps[AShare]:
    """[keys] of rows that nobody knows, [n, d + o] as of `keys_of` -> [margin] at MARGIN_SCALE, [classes, n]."""
    router = yield from fixed_router(party, fixed, keys)
    return (yield from routed_margins(party, ensemble, router, len(keys), classes, fixed.paths))


def margins_of_own(
    party: Party, ensemble: Ensemble, fixed: FixedModel, rows: AShare | BShare, owner: int | None, classes: int
) -> Steps[AShare]:
    """Rows as of `own_rows` -> [margin] at MARGIN_SCALE, [classes, n].

    owner: the party that knows the rows, if one does. It waits for the other party first in the comparison with
    thresholds, or in the conversion of bits.
    """
    router = yield from fixed_router(party, fixed, rows, owner)
    return (yield from routed_margins(party, ensemble, router, len(rows), classes, fixed.paths))


def cost_of_rows(rows: int, columns: int, trees: int, depth: int) -> Cost:
    """Return the cost of `margins_of_shared` for rows of so many words, if all trees fit into one batch."""
    leaves = 1 << depth

    def words(*shape: int, ring: Z2k = Z64) -> AShare:
        return AShare(np.zeros(shape, ring.dtype), 0)

    def bits(*shape: int) -> BShare:
        return BShare(np.zeros(shape, U8), 0)

    nodes = trees * (leaves - 1)
    parts = (
        Cost(1, both(64 * rows * columns)),
        below_by_bits.cost(words(nodes, rows), [0], THRESHOLD_BITS),
        to_ring.cost(bits(nodes, rows), Z8),
        equals_zero.cost(words(trees * leaves, rows, ring=Z8), depth.bit_length()),
        select.cost(bits(trees * leaves, rows), words(trees * leaves, 1)),
    )
    return Cost(sum(part.rounds for part in parts), both(sum(part.bits[0] for part in parts)))


def routed_margins(
    party: Party, ensemble: Ensemble, router: Router, rows: int, classes: int, paths: SecretPaths | None = None
) -> Steps[AShare]:
    """Return [margin] of a router's rows, [classes, rows]. Trees are processed in batches that fit into memory.

    paths: those of trees that are not full, if they are fixed for further rows as well.
    """
    trees, leaves = ensemble.leaves.shape
    own: Sequence[FixedOperand] = ()
    if ensemble.paths is not None and paths is None:
        paths = yield from fix_paths(party, ensemble.paths, _step(leaves, rows, classes))
        own = paths.turns
    total = ensemble.base.map(lambda w: np.repeat(w[:, None], rows, axis=1))
    with released(party, own):
        for places in batches(trees, leaves, rows, paths.step if paths else classes):
            batch, secret = ensemble.part(places), paths.part(places) if paths else None
            left = yield from router.route(party, batch, places)
            total = total + (yield from sum_of_paths(party, left, batch.leaves, classes, secret))
    return total


def batches(trees: int, leaves: int, rows: int, unit: int) -> list[slice]:
    """Divide the trees into batches of whole units, as the trees of a round, that fit into memory for so many rows."""
    step = _step(leaves, rows, unit)
    return [slice(start, min(start + step, trees)) for start in range(0, trees, step)]


def _step(leaves: int, rows: int, unit: int) -> int:
    """Return how many trees, in whole units, fit into memory for so many rows."""
    return unit * max(1, BATCH // (unit * leaves * rows))


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
        return trees.sets[p] if p > 1 and hidden and not hidden.below else _left_bins(layout, trees, p)

    return Router(
        [*known, *parts],
        lambda party, trees, places: _by_bins(party, trees, known, parts, [sets(trees, p) for p in owners]),
        known,
    )


def _left_bins(layout: Layout, trees: Routes, p: int) -> BShare:
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
