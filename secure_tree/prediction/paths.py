"""From the turns of a row at all nodes to the weights of the leaves that it reaches.

The nodes at which a row leaves the path to a leaf are counted, and the leaf is reached iff there are none. Paths of
full trees are public. Those of trees of other shapes, in a model that was brought in, are a shared matrix for each
tree, which is fixed once: a round more, and one more for each batch of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc.arithmetic.bits import select, to_ring
from mpc.lookup.equality import equals_zero
from mpc.matrix.fixed_operand import FixedOperand, fix, multiply_fixed
from mpc.party import Party
from mpc.rings import Z8
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate


def paths(depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (nodes, left), both [2^depth, depth]: the nodes above each leaf, and 1 if the path goes left there."""
    leaf = np.arange(1 << depth)[:, None]
    level = np.arange(depth)
    nodes = (1 << level) - 1 + (leaf >> (depth - level))
    return nodes, 1 - ((leaf >> (depth - 1 - level)) & 1)


@dataclass(frozen=True)
class SecretPaths:
    """Secret paths of trees: turns, fixed by `step` trees, and [turns to the left] of each leaf, [t, leaves, 1]."""

    turns: Sequence[FixedOperand]
    lefts: AShare
    step: int

    def part(self, trees: slice) -> SecretPaths:
        """Return the paths of some trees, in whole parts."""
        parts = slice(trees.start // self.step, -(-trees.stop // self.step))
        return SecretPaths(self.turns[parts], self.lefts[trees], self.step)


def fix_paths(party: Party, shapes: AShare, step: int) -> Steps[SecretPaths]:
    """Fix secret paths, `Ensemble.paths`, in parts of `step` trees. One round."""
    turns = shapes[..., :-1].transpose(0, 2, 1)
    parts = [fix.steps(party, turns[start : start + step]) for start in range(0, len(turns), step)]
    return SecretPaths((yield from parallel(*parts)), shapes[..., -1:], step)


def sum_of_paths(
    party: Party, left: BShare, leaves: AShare, classes: int, secret: SecretPaths | None = None
) -> Steps[AShare]:
    """<goes left>, [t, nodes, rows], [weights], [t, leaves] -> [sum of the reached leaves' weights], [classes, rows].

    The classes take turns among the trees. secret: the paths of trees that are not full.
    """
    t, m, rows = left.shape
    ring = yield from to_ring.steps(party, left, Z8)
    if secret is None:
        missed, most = _missed_in_full(ring), m.bit_length()
    else:
        missed, most = (yield from _missed(party, ring, secret)), min(m, 255)
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


def _missed(party: Party, left: AShare, of_leaves: SecretPaths) -> Steps[AShare]:
    """The same, positive, for secret paths."""
    rows, step = left.transpose(0, 2, 1), of_leaves.step
    of_parts = [
        multiply_fixed.steps(party, rows[k * step : (k + 1) * step], part) for k, part in enumerate(of_leaves.turns)
    ]
    return concatenate((yield from parallel(*of_parts))).transpose(0, 2, 1) + of_leaves.lefts
