"""From the turns of a row at all nodes to the weights of the leaves that it reaches.

The nodes at which a row leaves the path to a leaf are counted, and the leaf is reached iff there are none. Paths of
full trees are public. Those of trees of other shapes, in a model that was brought in, are a shared matrix for each
tree, which is fixed for a batch of rows: two rounds more.
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.bits import select, to_ring
from mpc.lookup.equality import equals_zero
from mpc.matrix.fixed_operand import fix, multiply_fixed
from mpc.matrix.interface import released
from mpc.party import Party
from mpc.rings import Z8
from mpc.rounds import Steps
from mpc.shares import AShare, BShare


def paths(depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (nodes, left), both [2^depth, depth]: the nodes above each leaf, and 1 if the path goes left there."""
    leaf = np.arange(1 << depth)[:, None]
    level = np.arange(depth)
    nodes = (1 << level) - 1 + (leaf >> (depth - level))
    return nodes, 1 - ((leaf >> (depth - 1 - level)) & 1)


def sum_of_paths(
    party: Party, left: BShare, leaves: AShare, classes: int, shapes: AShare | None = None
) -> Steps[AShare]:
    """<goes left>, [t, nodes, rows], [weights], [t, leaves] -> [sum of the reached leaves' weights], [classes, rows].

    Trees are ordered by rounds, with one tree per class in each. shapes: `Ensemble.paths`.
    """
    t, m, rows = left.shape
    ring = yield from to_ring.steps(party, left, Z8)
    if shapes is None:
        missed, most = _missed_in_full(ring), m.bit_length()
    else:
        missed, most = (yield from _missed(party, ring, shapes)), min(m, 255)
    reached = yield from equals_zero.steps(party, missed, most.bit_length())
    if party.audit:
        party.audit.zero(~reached.parity(axis=1), "each row is at one leaf of a tree")
    weights = leaves.reshape(-1, 1)
    reached_weights = yield from select.steps(party, reached.reshape(len(weights), rows), weights)
    return reached_weights.reshape(t // classes, classes, -1, rows).sum(axis=(0, 2))


def _missed_in_full(left: AShare) -> AShare:
    """[goes left], [t, nodes, rows] -> [-(nodes at which the row leaves the path to each leaf)], [t, leaves, rows]."""
    nodes, turns = paths(left.shape[1].bit_length())
    sign = (2 * turns - 1)[None, :, :, None]
    agreed = left.map(lambda w: w[:, nodes]).times(sign).sum(axis=2) + (1 - turns).sum(axis=1)[None, :, None]
    return agreed - nodes.shape[1]


def _missed(party: Party, left: AShare, of_leaves: AShare) -> Steps[AShare]:
    """The same, positive, for secret paths, [t, leaves, nodes + 1]."""
    turns, to_the_left = of_leaves[..., :-1], of_leaves[..., -1:]
    operand = yield from fix.steps(party, turns.transpose(0, 2, 1))
    with released(party, [operand]):
        products = yield from multiply_fixed.steps(party, left.transpose(0, 2, 1), operand)
    return products.transpose(0, 2, 1) + to_the_left
