"""Orders of the categories of columns that are split by sets, made once before the first tree.

Functionality  sums of gradients by category at the first margin -> for each class and column, the matrix P of
               secure_tree/tree/candidates.py. Categories come in the order of the leaf weights that they would have,
               -G / (H + lambda + min_child_weight), the lowest first and of equal ones the last
Messages       a histogram of all rows; a quotient per category; a comparison of every pair of them; a look-up of every
               rank, and its conversion to words; both matrices, once
Error          the quotient is exact to 2^-16 of itself: closer categories may change places
Security       semi-honest, perfect: composition of perfect protocols. The orders stay secret
Source         sets that are prefixes of this order contain the best one: Fisher, JASA 53(284), 1958; at every node
               again, as in LightGBM and XGBoost, a node would need an order of its own
"""

from __future__ import annotations

import numpy as np

from mpc.arithmetic.beaver import multiply
from mpc.arithmetic.bits import to_ring
from mpc.comparison.all_pairs import compare_pairs
from mpc.functions.reciprocal import invert, normalise
from mpc.lookup.equality import equals_zero
from mpc.matrix.fixed_operand import fix
from mpc.party import Party
from mpc.rings import Z32
from mpc.rounding.truncation import floor
from mpc.rounding.widening import widen
from mpc.rounds import Steps, parallel
from mpc.shares import AShare
from secure_tree.public.context import TrainingContext
from secure_tree.public.numerics import OrderNumerics
from secure_tree.tree.candidates import Order, by_category
from secure_tree.tree.rows import Rows


def find_orders(party: Party, context: TrainingContext, rows: Rows) -> Steps[list[tuple[Order, ...]]]:
    """Return the orders of all columns that are split by sets, for each class. The rows must have begun."""
    layout = context.layout
    sums = yield from rows.first_sums(party)
    present = [of_block[..., : layout.present(p)] for p, of_block in enumerate(sums)]
    of_columns = yield from parallel(
        *(_of_column(party, context.numerics.order, by_category(layout, present, *ends)) for ends in layout.sets)
    )
    return list(zip(*of_columns, strict=True))


def _of_column(party: Party, order: OrderNumerics, sums: AShare) -> Steps[list[Order]]:
    """[G, H] by category, [classes, 2, categories] -> the column's Order for each class."""
    count = sums.shape[-1]
    wide = yield from widen.steps(party, sums)
    u, s, _ = yield from normalise.steps(party, wide[:, 1] + order.smoothing, order.low, order.high)
    inverse, scaled = yield from parallel(invert.steps(party, u), _scaled(party, wide[:, 0], s, order.early))
    product = yield from multiply.steps(party, scaled, inverse.at_scale(0))
    quotient = yield from floor.steps(party, product, order.shift)
    compared = yield from compare_pairs.steps(party, -quotient.at_scale(0), order.bits, picks=False)
    # A category is in the first k + 1 if its key precedes k others or fewer.
    wanted = np.arange(count - 1, dtype=np.uint8) * np.uint8(party.rank == 0)
    exceeds = AShare(compared.counts[..., None] - wanted, party.rank)
    hot = yield from equals_zero.steps(party, exceeds, compared.groups.counts.width)
    words = yield from to_ring.steps(party, hot, Z32)
    bits = hot.map(lambda b: np.bitwise_xor.accumulate(b, axis=-1))
    sums = words.map(lambda w: np.cumsum(w, axis=-1, dtype=w.dtype))
    fixed = yield from parallel(
        *(fix.steps(party, sums[k : k + 1], bits[k : k + 1]) for k in range(len(bits))),
        *(fix.steps(party, bits[k : k + 1].transpose(0, 2, 1)) for k in range(len(bits))),
    )
    return [Order(*pair) for pair in zip(fixed[: len(bits)], fixed[len(bits) :], strict=True)]


def _scaled(party: Party, G: AShare, s: AShare, early: int) -> Steps[AShare]:
    product = yield from multiply.steps(party, G.at_scale(0), s.at_scale(0))
    return (yield from floor.steps(party, product, early)).at_scale(0) if early else product
