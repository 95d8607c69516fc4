"""Monotone constraints: leaf weights within bounds, which every constrained split narrows, as in XGBoost.

Functionality  margins never fall (1) or never rise (-1) as a constrained feature rises and all others stay equal. This
               holds exactly for values that are not missing
Splits         a candidate whose sides' weights are in the wrong order is not valid (secure_tree/tree/score.py), and a
               split whose exact weights are in the wrong order does not last (secure_tree/tree/pruning.py)
Bounds         a child's weight is clipped to the bounds of its parent. Under a split that must rise, the mean of both
               children's weights becomes the upper bound of all nodes below the left child and the lower bound of all
               below the right one. A weight is what is added to the margin, including the learning rate
XGBoost        differs in two points: it computes gains from bounded weights, and it accepts a split whose sides become
               equal by the bounds
Cost           ten more rounds per tree at depth 4, by columns six: most run beside the search; nothing per row
Security       which candidates are constrained is public, like the parameters; which nodes have such a split is secret

A training without constraints sends none of these messages.
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.beaver import dot
from mpc.arithmetic.bits import and_bits, select
from mpc.comparison.comparison import below
from mpc.party import Party
from mpc.rounding.truncation import floor
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, public_bits, public_ring, stack
from secure_tree.public.context import TrainingContext
from secure_tree.public.numerics import GAIN_BITS, MARGIN_SCALE, SUM_BITS

# |G_L b - G_R a| is below 2^(2 SUM_BITS + 1).
ORDER_BITS = 2 * SUM_BITS + 2


def ordered(party: Party, G: AShare, H: AShare, directions: np.ndarray) -> Steps[BShare]:
    """[G] and [a, b] of both sides, [2, v, C], and int[C] of -1, 0, 1 -> <weights are in order>, [v, C].

    The leaf weight of the right side exceeds that of the left side by (G_L b - G_R a) / (a b).
    """
    some = np.flatnonzero(directions)
    x = stack([G[0][:, some], -G[1][:, some]], axis=-1)
    rise = yield from dot.steps(party, x, stack([H[1][:, some], H[0][:, some]], axis=-1))
    wrong = yield from below.steps(party, rise.times(directions[some]), [0], ORDER_BITS)
    bits = public_bits(np.ones(G.shape[1:]), party.rank).bits.copy()
    bits[:, some] = (~wrong[..., 0]).bits
    return BShare(bits, party.rank)


def constrained(context: TrainingContext, winner: BShare) -> BShare:
    """<one-hot winner>, [v, C + 1] -> <must rise, must fall>, [v, 2]. Local."""
    return stack([winner[:, np.flatnonzero(context.directions == way)].parity(axis=1) for way in (1, -1)], axis=1)


def in_order(party: Party, ways: BShare, w: AShare) -> Steps[BShare]:
    """<must rise, must fall>, [v, 2], and [-weights] of the children, [2 v] -> <weights are in order>, [v]."""
    bits = yield from below.steps(party, w[0::2] - w[1::2], [0, 1], GAIN_BITS)
    wrong = yield from and_bits.steps(party, ways, stack([bits[:, 0], ~bits[:, 1]], axis=1))
    return ~wrong.parity(axis=1)


def widest(party: Party, bits: int) -> AShare:
    """Return [lower, upper] bounds of the root, [1, 2], which hold for all weights: these are below 2^(bits - 2)."""
    return public_ring(np.array([[-1, 1]]) << bits - 2, party.rank, MARGIN_SCALE)


def narrowed(party: Party, ways: BShare, bounds: AShare, children: AShare, bits: int) -> Steps[AShare]:
    """<must rise, must fall> and [bounds], [v, 2], and [weights] of children, [2 v] -> their [bounds], [2 v, 2].

    Those of the children of a node without a split are meaningless.
    """
    if len(ways) > 1:  # all weights are within the bounds of the root
        children = yield from clip(party, children, bounds.map(lambda w: np.repeat(w, 2, axis=0)), bits)
    middle = yield from floor.steps(party, (children[::2] + children[1::2]).times(1, 1), 1)
    # If weights must rise, the upper bound of a left child and the lower bound of a right child become the mean.
    flipped = ways.map(lambda b: b[:, ::-1])
    moves = stack([middle, middle], axis=1) - bounds
    moved = yield from select.steps(party, stack([flipped, ways], axis=1), moves[:, None])
    return (bounds[:, None] + moved).reshape(-1, 2)


def clip(party: Party, values: AShare, bounds: AShare, bits: int) -> Steps[AShare]:
    """[values], [n], and [lower, upper], [n, 2] -> [values within the bounds], [n]."""
    short = bounds - stack([values, values], axis=1)
    beyond = (yield from below.steps(party, short.times([-1, 1]), [0], bits + 1))[..., 0]
    return values + (yield from select.steps(party, beyond, short)).sum(axis=1)
