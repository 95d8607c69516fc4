"""Sums of contributed rows by bin: how many rows of each class, and how many in all, an owner has in every bin.

Functionality  [bins], <labels>, <weights> of an owner's rows -> [sums by feature and bin] in Z_2^64
Messages       of the parts: bits to words (mpc/arithmetic/bits.py); the bins are fixed and multiplied by the labels
               (mpc/matrix/fixed_operand.py), as in a training; sums are widened (mpc/rounding/widening.py). With
               weights, also a floor and a selection
Cost           n d K (1/8 + 4) bytes each way, and 4 per row and class
Security       semi-honest, perfect: composition
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from mpc.arithmetic.bits import select
from mpc.errors import RangeError
from mpc.matrix.fixed_operand import fix
from mpc.matrix.interface import released
from mpc.party import Party
from mpc.rings import Z32
from mpc.rounding.truncation import floor
from mpc.rounding.widening import widen
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, concatenate
from secure_tree.data.contributed import Contributed
from secure_tree.owners.admission import checked, in_setup
from secure_tree.owners.encoding import lift_weights
from secure_tree.public.context import OwnerFacts, TrainingContext
from secure_tree.public.exact import ceil_log2
from secure_tree.public.numerics import WEIGHT_INPUT_SCALE

# Sums are words of 32 bits, of which widening takes 30.
_BITS = 30


@dataclass(frozen=True)
class SumsOfOwner:
    """labels: [labels of each class, or 1 of two; all], [classes + 1, d, bins], in units of weights if there are any.

    rows: [rows], [d, bins]. classes: [rows of each class, or of class 1], [classes].
    """

    owner: OwnerFacts
    labels: AShare
    rows: AShare
    classes: AShare


def sums_of_owners(
    party: Party,
    context: TrainingContext,
    contributed: Contributed,
    edges: np.ndarray,
    unit: int | None,
    weight_bits: int,
) -> Iterator[SumsOfOwner]:
    """Get every owner's bins at these edges, float32[d, K], check them, and add them up. Stage: setup.

    Weights, if there are any, are numbers of `weight_bits` bits in units of 2^unit. Raises DataError at both parties,
    which names the owner.
    """
    for k, words, bits, labels in checked(party, context, contributed, edges):
        assert words is not None, "there are no workers"
        vectors, owner = labels, contributed.owners[k]
        most = _BITS - (0 if unit is None else weight_bits)
        if owner.rows >> most:
            raise RangeError(f"{owner.name}: must contribute fewer than 2^{most} rows here, got {owner.rows}")
        if unit is not None:
            assert context.facts.weight_scale is not None, "some row has a weight"
            given = contributed.labels[k], contributed.weights[k]
            shift = WEIGHT_INPUT_SCALE + unit - ceil_log2(context.facts.weight_scale)
            vectors = in_setup(party, partial(_weighted, context=context, owner=owner, given=given, shift=shift))
        sums = in_setup(party, partial(_summed, words=words, bits=bits, vectors=vectors))
        sums = sums.reshape(len(sums), len(edges), -1)
        yield SumsOfOwner(owner, sums if unit is None else sums[:-1], sums[-1], labels.sum(axis=1))
    contributed.source.confirm()


def _weighted(
    party: Party, context: TrainingContext, owner: OwnerFacts, given: tuple[BShare, BShare | None], shift: int
) -> Steps[AShare]:
    """<labels>, [classes, n], and <weights> -> [weight of the label; weight], [classes + 1, n]."""
    labels = given[0]
    weights = yield from lift_weights(party, context, owner, given[1])
    units = (yield from floor.steps(party, weights.at_scale(0) + (1 << shift - 1), shift)).at_scale(0)
    chosen = yield from select.steps(party, labels, units.map(lambda w: np.broadcast_to(w, labels.shape)))
    return concatenate([chosen, units.reshape(1, -1)])


def _summed(party: Party, words: AShare, bits: BShare, vectors: AShare) -> Steps[AShare]:
    """[bins], <bins>, [n, d * K], and [vectors], [v, n] -> [their sums by bin; rows], [v + 1, d * K]."""
    fixed = yield from fix.steps(party, words[None], bits[None])
    with released(party, [fixed]):
        sums = yield from fixed.supply(party, len(vectors)).apply(party, vectors.narrow(Z32))
    return (yield from widen.steps(party, concatenate([sums, words.sum(axis=0).reshape(1, -1)])))
