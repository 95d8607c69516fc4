"""Reasons for predictions: each feature's contribution to the margin, as TreeSHAP defines it, or the names of the
strongest.

Functionality  a model and the rows of their owner -> to the receiver of the predictions, and nobody else: the names of
               the features, or groups of them, that moved the margin most in one direction, in order; or, if both
               parties ask for numbers, all contributions and the mean margin
Messages       once: the table, from the values of path_values.py, opened masked. Rows: the routing of a
               prediction; a one-hot of the turns on every path, in words; a product with the table. Names: the ranks of
               the contributions (mpc/comparison/ranks.py)
Cost           a round less than a prediction; for names, two more than one, or seven where many numbers are ranked in
               blocks. A row sends 6 bytes each way per entry, of which a tree has (4^depth - 1) / 3
Without        a product of words with a shared table would take a transfer per bit. The turns choose among the values
a dealer       of every path instead, and the values of the nodes go to the features by the bits of these, which have a
               single 1 per node
Security       composition: perfect
How            every function of the turns on the paths is a combination of the products "the turns above node v are
               this pattern, and v is left": 4^level of them per level, fewer than the patterns of the paths
Source         see path_values.py
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpc.arithmetic.fixed_factor import fix_values, select_fixed
from mpc.comparison.ranks import ranks
from mpc.errors import RangeError
from mpc.lookup.one_hot import one_hot, one_hot_words
from mpc.matrix.fixed_operand import FixedOperand, fix, multiply_fixed
from mpc.matrix.interface import released
from mpc.party import Party
from mpc.rings import Z32, Z64, Z2k
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, concatenate
from mpc.words import U64, low_bits
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.paths import paths
from secure_tree.prediction.reasons.path_values import SCALE, of_last_leaf, path_values
from secure_tree.prediction.reasons.request import Request
from secure_tree.public.context import TrainingContext
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.public.objectives import TRAITS

# The most bits of contributions by which names are ranked.
RANK_BITS = 38
# The scale of contributions with a dealer, without one, and the coarsest of a model that was trained here.
FINEST, FINEST_WITHOUT, COARSEST = SCALE, 22, 18
LEAF_BITS = 61 - SCALE
# The bits of a leaf weight and of a margin of a shared plain model, at MARGIN_SCALE.
OF_NUMBERS, OF_OTHERS = (50, 51), (33, 33)


@dataclass(frozen=True)
class Table:
    """What is made once per model and choice of names, and serves any number of rows of one session.

    operand: with a dealer, the contributions by entry, fixed, [classes, entries, names]; otherwise the names of all
    nodes, with `values` by path and pattern, [depth, n], beside those of the last pattern, `rest`, [depth, T * paths].
    constant: contributions of a row that goes left nowhere, [classes, 1, names]. mean: the mean margin, [classes]. All
    at `scale`, shared in `ring`. bits: those of a contribution, with its sign.
    """

    operand: FixedOperand
    values: AShare | None
    rest: AShare | None
    constant: AShare
    mean: AShare
    scale: int
    ring: Z2k
    bits: int


def magnitudes(model: SharedModel) -> tuple[int, int]:
    """Return b and c such that leaf weights are below 2^b units, and margins below 2^c, at MARGIN_SCALE."""
    facts = model.facts
    if model.cuts.shape[1] == 0:
        return OF_NUMBERS if TRAITS[model.config.objective].link == "identity" else OF_OTHERS
    rows = facts.layout.rows[0] + sum(count for _, _, count in facts.owners), *facts.layout.rows[1:]
    whole = replace(facts, layout=replace(facts.layout, rows=rows))
    numerics = TrainingContext(model.config, whole).numerics
    return numerics.leaf_bits - 2, numerics.margin_bound


def scale_of(model: SharedModel, dealer: bool) -> tuple[int, Z2k]:
    """Return the scale of contributions and a ring that holds those of any row. Raises RangeError."""
    finest = FINEST if dealer else FINEST_WITHOUT
    leaf, _ = magnitudes(model)
    scale = min(finest, MARGIN_SCALE + LEAF_BITS - leaf)
    bits = -(-_signed_bits(model, scale) // 8) * 8
    if bits > Z64.bits or (model.cuts.shape[1] and scale < COARSEST):
        raise RangeError("reasons need leaf weights with a smaller bound: set max_delta_step, or a larger reg_lambda")
    return scale, Z2k(U64, max(32, bits))


def _signed_bits(model: SharedModel, scale: int) -> int:
    """Return the bits of a contribution at `scale`: it is the difference of two margins, of either sign."""
    return magnitudes(model)[1] + scale - MARGIN_SCALE + 2


def make_table(party: Party, model: SharedModel, request: Request) -> Steps[Table]:
    """Make the table of a model. As a step of a session, once for all rows."""
    trees, classes, dealer = model.ensemble, model.config.classes, party.randomness.has_dealer
    scale, ring = scale_of(model, dealer)
    bits = _signed_bits(model, scale)
    values = yield from path_values(party, trees, scale)
    at_last = trees.leaves[:, -1].reshape(-1, classes).sum(axis=0) + trees.base
    if scale < MARGIN_SCALE:
        at_last = yield from truncate.steps(party, at_last, MARGIN_SCALE - scale)
    last = of_last_leaf(values).reshape(-1, classes).sum(axis=0)
    mean = at_last.times(1 << scale - at_last.scale, scale - at_last.scale) - last
    t, _, depth, patterns = values.shape
    d, count = len(model.facts.names), len(request.names)
    of_nodes = trees.chosen[..., :d].map(lambda w: _joined(w, request.member, count, np.add))
    if not dealer:
        # Every row has one pattern of a path, so that those of the last need no bit.
        rest = values.map(lambda w: w[..., -1].transpose(2, 0, 1).reshape(depth, -1))
        flat = values.map(lambda w: (w[..., :-1] - w[..., -1:]).transpose(2, 0, 1, 3).reshape(depth, -1))
        chosen = trees.features.map(lambda b: _joined(b, request.member, count, np.bitwise_xor))
        words, lowest = of_nodes.map(lambda w: _by_class(w, classes)), chosen.map(lambda b: _by_class(b, classes))
        operand = yield from fix.steps(party, words, lowest, ring, one_hot=True)
        nothing = AShare(np.zeros((classes, 1, count), U64), party.rank)
        return Table(operand, flat, rest, nothing, mean, scale, ring, bits)
    on_path = paths(depth)[0][::2]
    players = of_nodes.map(lambda w: w[:, on_path].reshape(-1, depth, count))
    by_path = yield from fix.steps(party, players, None, ring)
    with released(party, [by_path]):
        rows = values.map(lambda w: np.ascontiguousarray(w.transpose(0, 1, 3, 2)).reshape(-1, patterns, depth))
        product = yield from multiply_fixed.steps(party, rows, by_path)
    entries, constant = _entries(product.words.reshape(t, -1, patterns, count))
    fixed = yield from fix.steps(party, AShare(_by_class(entries, classes), party.rank), None, ring)
    of_class = constant.reshape(-1, classes, count).sum(axis=0, dtype=U64)[:, None]
    return Table(fixed, None, None, AShare(of_class, party.rank), mean, scale, ring, bits)


def contribute(party: Party, table: Table, turns: BShare) -> Steps[AShare]:
    """<goes left>, [T, m, rows] -> [contributions] at the scale of the table, in its ring, [classes, rows, names]."""
    (t, m, rows), (classes, _, _) = turns.shape, table.constant.shape
    depth = m.bit_length()
    on_path = paths(depth)[0][::2]
    index = turns.map(lambda b: b[:, on_path].transpose(3, 0, 1, 2).reshape(-1, depth))
    if table.values is not None and table.rest is not None:
        hot = (yield from one_hot.steps(party, index)).reshape(rows, t, len(on_path), -1)
        values = yield from fix_values.steps(party, table.values, rows, table.ring)
        chosen = yield from select_fixed.steps(party, hot[..., :-1].reshape(rows, -1), values)
        of_paths = chosen.words.reshape(rows, depth, t * len(on_path), -1).sum(axis=-1) + table.rest.words
        of_paths = of_paths.reshape(rows, depth, t, len(on_path))
        of_nodes = np.zeros((m, rows, t), U64)
        np.add.at(of_nodes, on_path.T, of_paths.transpose(1, 3, 0, 2))
        words = AShare(_rows_by_class(of_nodes.transpose(1, 2, 0), classes), party.rank)
    else:
        patterns = (yield from one_hot_words.steps(party, index, table.ring)).reshape(rows, t, len(on_path), -1)
        levels = []
        for level in reversed(range(depth)):
            half = 1 << level
            levels.append(patterns[..., half:].reshape(rows, t, -1))
            # Patterns of the nodes above: a node's own turn is left out, and one of two siblings has them all.
            patterns = patterns[:, :, ::2, :half] + patterns[:, :, ::2, half:]
        words = concatenate(levels[::-1], axis=2).map(lambda w: _rows_by_class(w, classes))
    product = yield from multiply_fixed.steps(party, words, table.operand)
    return product.map(lambda w: w + table.constant.words)


def ranked(party: Party, found: AShare, table: Table, request: Request) -> Steps[BShare]:
    """[contributions], [classes, rows, names] -> <the name is the r-th strongest>, [classes, rows, top, names].

    They are ranked to 2^-MARGIN_SCALE units of the margin, or in RANK_BITS bits where its bound needs more.
    """
    kept = min(table.bits - max(0, table.scale - MARGIN_SCALE), RANK_BITS)
    top = found if request.toward == "higher" else -found
    # Without low bits, the halves add up to as many bits of the number, or to one less.
    keys = top.map(lambda w: low_bits(w >> U64.type(table.bits - kept), kept)).at_scale(0)
    keys = keys.narrow(Z32) if kept <= Z32.bits else keys
    of_rows = yield from ranks.steps(party, keys.reshape(-1, keys.shape[-1]), request.top, kept - 1)
    return of_rows.reshape(*keys.shape[:2], request.top, -1)


def _joined(words: np.ndarray, member: np.ndarray, count: int, add: np.ufunc) -> np.ndarray:
    """Add up features by name: [.., d] -> [.., names]."""
    out = np.zeros((count, *words.shape[:-1]), words.dtype)
    add.at(out, member, np.moveaxis(words, -1, 0))
    return np.ascontiguousarray(np.moveaxis(out, 0, -1))


def _by_class(words: np.ndarray, classes: int) -> np.ndarray:
    """Arrange what trees have, [T, k, names], by class, [classes, T / classes k, names]."""
    _, k, count = words.shape
    return np.ascontiguousarray(words.reshape(-1, classes, k, count).swapaxes(0, 1)).reshape(classes, -1, count)


def _rows_by_class(words: np.ndarray, classes: int) -> np.ndarray:
    """Arrange what rows have in trees, [rows, T, k], by class, [classes, rows, T / classes k]."""
    rows, _, k = words.shape
    by_class = words.reshape(rows, -1, classes, k).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(by_class).reshape(classes, rows, -1)


def _entries(by_pattern: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[T, 2^(depth - 1), 2^depth, names] by path and pattern -> [T, entries, names], level by level, and what remains
    of a row that goes left nowhere, [T, names].
    """
    t, last, _, count = by_pattern.shape
    levels, tables = [], by_pattern
    for level in reversed(range(last.bit_length())):
        half = 1 << level
        low, high = tables[:, :, :half], tables[:, :, half:]
        levels.append((high - low).reshape(t, -1, count))
        # What remains depends on the nodes above only: siblings are added.
        tables = low.reshape(t, -1, 2, half, count).sum(axis=2) if level else low
    return np.concatenate(levels[::-1], axis=1), tables[:, 0, 0]
