"""Sums of weights and targets over the rows of both parties, each of which shares its own part, and of owners."""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.party import Party
from mpc.rounding.truncation import floor, truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, public_ring, stack
from secure_tree.data.contributed import ContributedLabels
from secure_tree.data.table import Table
from secure_tree.public.context import PublicFacts
from secure_tree.public.exact import ceil_log2
from secure_tree.public.numerics import WEIGHT_INPUT_SCALE

MASS_BITS = 43


def own_part(party: Party, values: list[float] | np.ndarray, scale: int) -> AShare:
    """Return a party's own numbers as its share of the sum over both parties."""
    return AShare(np.round(np.asarray(values) * 2.0**scale).astype(np.int64).astype(np.uint64), party.rank, scale)


def weights_over_scale(facts: PublicFacts, table: Table) -> np.ndarray:
    weights = np.ones(len(table.features)) if table.weights is None else table.weights
    return weights / (facts.weight_scale or 1.0)


def mass_scale(facts: PublicFacts) -> tuple[int, int]:
    """Return the scale of sums of weights, and the highest bit of such a sum at that scale."""
    scale = MASS_BITS - 1 - ceil_log2(sum(facts.masses or facts.layout.rows))
    return min(scale, 24), min(scale, 24) + MASS_BITS - 1 - scale


def contributed_sums(party: Party, contributed: ContributedLabels, scale: int) -> Steps[tuple[AShare, AShare]]:
    """Contributed rows -> [sum of weights], [1], and [weighted sums of targets], [classes], both at `scale`."""
    targets, weights = contributed.targets, contributed.row_weights
    assert targets is not None, "owners have contributed"
    if weights is None:
        mass = public_ring(np.full(1, targets.shape[1] << scale), party.rank, scale)
        return mass, (yield from _at(party, targets.sum(axis=1), scale))
    product = yield from multiply.steps(party, targets, stack([weights] * len(targets)))
    if (finer := product.scale - WEIGHT_INPUT_SCALE) > 0:
        product = yield from truncate.steps(party, product, finer)
    return (yield from parallel(_at(party, weights.sum().reshape(1), scale), _at(party, product.sum(axis=1), scale)))


def _at(party: Party, x: AShare, scale: int) -> Steps[AShare]:
    """Return x at another scale."""
    if (finer := scale - x.scale) >= 0:
        return x.times(1 << finer, finer)
    return (yield from floor.steps(party, x, -finer))
