"""Prediction: a path sum over all nodes of all trees, for rows that a party knows, or nobody.

Rows of parties are divided as in training: each party has all features of some rows (horizontal), or some features of
all rows (vertical). Whether a row goes left at each node (routers.py) says which leaf it reaches (paths.py). The result
is revealed to one party: the owner of the row, or the party that both name; that of a client's row is released to the
client.

Cost of clients' rows with d values and o values that may be missing, for m nodes and l leaves in all (`cost_of_rows`):
6 rounds, and each way per row d + o words, per node the openings of a comparison and of two conversions, and per leaf
an opening of one byte and of a choice of a weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpc.arithmetic.bits import select, to_ring
from mpc.comparison.comparison import below_by_bits
from mpc.lookup.equality import equals_zero
from mpc.matrix.fixed_operand import FixedOperand, fix
from mpc.matrix.interface import released
from mpc.party import Party
from mpc.protocol.contract import Cost, both
from mpc.rings import Z8, Z64, Z2k
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate
from mpc.words import U8
from secure_tree.model.ensemble import Ensemble
from secure_tree.prediction.paths import SecretPaths, fix_paths, sum_of_paths
from secure_tree.prediction.routers import (
    THRESHOLD_BITS,
    FixedModel,
    HiddenBins,
    Router,
    fixed_router,
    left_bins,
    router_of,
    row_groups,
)
from secure_tree.public.config import Method
from secure_tree.public.layout import Layout

BATCH = 1 << 21


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


def fix_model(
    party: Party, ensemble: Ensemble, rows: int, classes: int, bins_of: Layout | None = None
) -> Steps[FixedModel]:
    """Fix a model for `margins_of_shared` and `margins_of_own` of at most `rows` rows at a time. One round.

    bins_of: the layout, if the parties' rows are routed by their bins.
    """
    nodes = ensemble.null.size
    of_nodes = [ensemble.compared] if bins_of is None else [left_bins(bins_of, ensemble, p) for p in (0, 1)]
    flat = [x.reshape(nodes, x.size // nodes) for x in of_nodes]
    if bins_of is not None and bins_of.vertical:
        flat = [concatenate(flat, axis=1)]
    routes = parallel(*(fix.steps(party, x.T[None]) for x in flat))
    if ensemble.paths is None:
        return FixedModel((yield from routes), None)
    step = _step(ensemble.leaves.shape[1], rows, classes)
    return FixedModel(*(yield from parallel(routes, fix_paths(party, ensemble.paths, step))))


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
