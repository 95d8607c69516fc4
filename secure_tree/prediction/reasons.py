"""Reasons for predictions: each feature's contribution to the margin, as TreeSHAP defines it, or the names of the
strongest.

Functionality  a model and the rows of their owner -> to the receiver of the predictions, and nobody else: the names of
               the features, or groups of them, that moved the margin most in one direction, in order; or, if both
               parties ask for numbers, all contributions and the mean margin
Messages       once: the table (secure_tree/prediction/reason_table.py), opened masked. Rows: the routing of a
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
Source         see secure_tree/prediction/reason_table.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from mpc.arithmetic.fixed_factor import fix_values, select_fixed
from mpc.comparison.ranks import MOST_RANKS, ranks
from mpc.errors import ConfigError, DataError, RangeError
from mpc.lookup.one_hot import one_hot, one_hot_words
from mpc.matrix.fixed_operand import FixedOperand, fix, multiply_fixed
from mpc.matrix.interface import released
from mpc.party import Party
from mpc.rings import Z32, Z64, Z2k
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate
from mpc.words import U8, U64, low_bits
from secure_tree.agreement.models import ReasonFacts
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.paths import paths, sum_of_paths
from secure_tree.prediction.predict import FixedModel, Router, batches, fixed_router, router_of, row_groups
from secure_tree.prediction.reason_table import DEEPEST, SCALE, of_last_leaf, path_values
from secure_tree.public.config import Method
from secure_tree.public.context import TrainingContext
from secure_tree.public.layout import Layout
from secure_tree.public.names import column_of, columns_behind
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.public.objectives import TRAITS

Show: TypeAlias = Literal["names", "numbers"]
Toward: TypeAlias = Literal["higher", "lower"]
Groups: TypeAlias = Mapping[str, Sequence[str]]
# The most bits of contributions by which names are ranked.
RANK_BITS = 38
# The scale of contributions with a dealer, without one, and the coarsest of a model that was trained here.
FINEST, FINEST_WITHOUT, COARSEST = SCALE, 22, 18
LEAF_BITS = 61 - SCALE
# The bits of a leaf weight and of a margin of a shared plain model, at MARGIN_SCALE.
OF_NUMBERS, OF_OTHERS = (50, 51), (33, 33)
# Bits of the patterns of rows at a time.
BATCH = 1 << 25
# The name of all features that the receiver of vertical data does not have.
OTHERS = "data of the other party"


@dataclass(frozen=True)
class Contributions:
    """The contributions of the features, or groups, that `names` lists, float64[n, d], and the mean margin.

    A row's contributions and the mean add up to its margin. For several classes: [n, classes, d] and [classes].
    """

    names: tuple[str, ...]
    values: np.ndarray
    mean: np.ndarray

    def strongest(self, top: int, toward: Toward) -> list[Any]:
        """Return the strongest contributions of each row, or of each class of a row, as (name, number)."""

        def of_row(values: list[float], order: list[int]) -> tuple[tuple[str, float], ...]:
            return tuple((self.names[place], values[place]) for place in order if sign * values[place] > 0)

        sign = 1 if toward == "higher" else -1
        order = np.argsort(-sign * self.values, axis=-1, kind="stable")[..., :top]
        if self.values.ndim == 2:
            return [of_row(*row) for row in zip(self.values.tolist(), order.tolist(), strict=True)]
        return [
            [of_row(*of_class) for of_class in zip(*row, strict=True)]
            for row in zip(self.values.tolist(), order.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class Request:
    """What both parties ask for.

    names: by which contributions are given. member: int64[d], the number of each feature's name. receiver: the party
    that learns them, None if each party learns those of its own rows.
    """

    names: tuple[str, ...]
    member: np.ndarray
    receiver: int | None
    top: int
    show: Show
    toward: Toward

    def facts(self, ready: bool = False) -> ReasonFacts:
        """Return what the parties compare; `ready`: whether this one has the table."""
        told = {"top": self.top, "show": self.show, "toward": self.toward, "ready": ready}
        return ReasonFacts.of(names=list(self.names), member=self.member.tolist(), **told)


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


def requested(
    model: SharedModel, receiver: int | None, top: int, groups: Groups, show: Show, toward: Toward
) -> Request:
    """Return a request for reasons. Indicators of one column have the name of the column.

    For vertical data, the features that the receiver does not have are one reason, unless they are in a group. Raises
    ConfigError or DataError if the model has no reasons, or cannot be asked in this way.
    """
    facts, names = model.facts, list(groups)
    if model.config.max_depth > DEEPEST:
        raise ConfigError(f"reasons need trees of depth {DEEPEST} at most, got {model.config.max_depth}")
    if model.ensemble.paths is not None:
        raise ConfigError(f"reasons need trees of depth {DEEPEST} at most, and the model has deeper ones")
    if model.ensemble.statistics is None:
        raise DataError("the model has no sums of hessians, which reasons need: train or share it again")
    if facts.owner_widths:
        raise ConfigError("reasons need a model without columns of owners who are no party")
    if show not in get_args(Show) or toward not in get_args(Toward):
        raise ConfigError(
            f'show must be "names" or "numbers", and toward "higher" or "lower", got {show!r} and {toward!r}'
        )
    columns = list(columns_behind(facts.names, []))
    grouped = [column for own in groups.values() for column in own]
    if wrong := [column for column in grouped if column not in columns or grouped.count(column) > 1]:
        raise ConfigError(f"groups: columns of the model must be in one group at most, got {wrong[0]!r}")
    if wrong := [name for name in groups if name in {OTHERS, *columns} - {*grouped}]:
        raise ConfigError(f"groups: a group must not have the name of a column outside of the groups, got {wrong[0]!r}")
    if wrong := [name for name, own in groups.items() if not own]:
        raise ConfigError(f"groups: a group must have a column, got none for {wrong[0]!r}")
    group_of = {column: name for name, own in groups.items() for column in own}
    own = range(len(facts.names))[facts.layout.features_of(receiver) if receiver is not None else slice(None)]
    said = [column_of(name) for name in facts.names]
    said = [group_of.get(name, name if f in own else OTHERS) for f, name in enumerate(said)]
    names += [name for name in dict.fromkeys(said) if name not in names]
    if not 1 <= top <= MOST_RANKS:
        raise ConfigError(f"top must be 1 .. {MOST_RANKS}, got {top}")
    return Request(tuple(names), np.array([names.index(name) for name in said]), receiver, top, show, toward)


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


@dataclass(frozen=True)
class Learned:
    """What a party learns of its rows, or nothing of the other's.

    names: the number of each, or -1, int64[classes, rows, top]. Numbers: int64[classes, rows, names], and the mean,
    int64[classes], in units of the table's scale. margins: int64[classes, rows] at MARGIN_SCALE, if they are revealed
    as well.
    """

    reasons: np.ndarray
    mean: np.ndarray
    margins: np.ndarray | None = None


def revealed_reasons(
    party: Party,
    asked: Explanation,
    layout: Layout,
    features: np.ndarray,
    method: Method,
    shown: np.ndarray | None = None,
) -> Learned:
    """Own features float32[n_p, d_p] -> what this party learns, of rows that `revealed_margins` would reveal to it.

    Where `shown`, int64[rows], is 0, there is neither a margin nor a reason.
    """
    receivers = [(asked.request.receiver if layout.vertical else owners[0], owners) for owners in row_groups(layout)]

    def program(party: Party) -> list[tuple[int | None, Explained]]:
        found = []
        for to, owners in receivers:
            steps = _routed(party, asked, layout, owners, features, method)
            found.append((to, party.run(steps)))
        return found

    learned = asked.nothing
    for to, found in party.audit.repeat(party, program):
        learned = asked.reveal(party, found, to, learned, shown)
    return learned


def explained_own(
    party: Party, asked: Explanation, fixed: FixedModel, rows: AShare | BShare, owner: int | None
) -> Steps[Explained]:
    """Rows as of `own_rows`, the party that knows them, if one does, and a fixed model -> what is to be revealed."""
    router = yield from fixed_router(party, fixed, rows, owner)
    return (yield from asked.steps(party, router, len(rows)))


def _routed(
    party: Party,
    asked: Explanation,
    layout: Layout,
    owners: tuple[int, ...],
    features: np.ndarray,
    method: Method,
) -> Steps[Explained]:
    router = yield from router_of(party, layout, owners, asked.model.cuts, features, method)
    with released(party, router.matrices):
        return (yield from asked.steps(party, router, layout.rows[owners[0]]))


@dataclass(frozen=True)
class Explained:
    """Margins, [classes, rows], if they are asked for; ranks of names, [classes, rows, top, names], or numbers in the
    high bits of words, [classes, rows, names].
    """

    margins: AShare | None
    reasons: AShare | BShare


@dataclass(frozen=True)
class Explanation:
    """What is asked about rows of a model.

    If `predicted`, margins as well: the rows are routed once, and then both take the same rounds.
    """

    model: SharedModel
    table: Table
    request: Request
    predicted: bool = False

    @property
    def nothing(self) -> Learned:
        """What a party learns that has no rows."""
        classes, names = self.model.config.classes, self.request.show == "names"
        margins = np.zeros((classes, 0), np.int64) if self.predicted else None
        count = self.request.top if names else len(self.request.names)
        return Learned(np.zeros((classes, 0, count), np.int64), np.zeros(classes, np.int64), margins)

    def steps(self, party: Party, router: Router, rows: int) -> Steps[Explained]:
        """Explain rows that are routed."""
        ensemble, classes = self.model.ensemble, self.model.config.classes
        trees, leaves = ensemble.leaves.shape
        turns, parts = [], batches(trees, leaves, rows, classes)
        for places in parts:
            turns.append((yield from router.route(party, ensemble.part(places), places)))
        left = concatenate(turns)
        if not self.predicted:
            return Explained(None, (yield from self._reasons(party, left)))
        return Explained(*(yield from parallel(self._margins(party, turns, parts), self._reasons(party, left))))

    def reveal(
        self, party: Party, found: Explained, to: int | None, learned: Learned, shown: np.ndarray | None
    ) -> Learned:
        """Reveal what was found to the party `to` (None: both), which has `learned` the rest."""
        of = f"{'the' if self.model.facts.layout.vertical else 'its own'} rows"
        names, margins, reasons = self.request.show == "names", found.margins, found.reasons
        if shown is not None:
            margins = None if margins is None else margins.times(shown)
            rows = shown[:, None, None] if names else shown[:, None]
            reasons = reasons.masked(rows.astype(U8)) if isinstance(reasons, BShare) else reasons.times(rows)
        if margins is not None:
            opened = party.reveal(margins, to=to, what=f"predictions of {of}", units=True)
            learned = learned if opened is None else replace(learned, margins=opened)
        if isinstance(reasons, BShare):
            opened = party.reveal(reasons, to=to, what=f"the strongest reasons of {of}", units=True)
            if opened is not None:
                learned = replace(learned, reasons=np.where(opened.any(axis=-1), opened.argmax(axis=-1), -1))
            return learned
        mean = self.table.mean.map(lambda w: np.repeat(w, len(self.request.names)).reshape(len(w), 1, -1))
        numbers = concatenate([reasons, _in_high_bits(mean, self.table)], axis=1)
        opened = party.reveal(numbers, to=to, what=f"contributions of {of}, and the mean margin", units=True)
        if opened is not None:
            opened = opened >> Z64.bits - self.table.ring.bits
            learned = replace(learned, reasons=opened[:, :-1], mean=opened[:, -1, 0])
        return learned

    def _margins(self, party: Party, turns: Sequence[BShare], parts: Sequence[slice]) -> Steps[AShare]:
        ensemble, classes = self.model.ensemble, self.model.config.classes
        of_parts = yield from parallel(
            *(
                sum_of_paths(party, left, ensemble.leaves[places], classes)
                for left, places in zip(turns, parts, strict=True)
            )
        )
        return reduce(add, of_parts, ensemble.base.reshape(classes, 1))

    def _reasons(self, party: Party, left: BShare) -> Steps[AShare | BShare]:
        (trees, nodes, rows), table, request = left.shape, self.table, self.request
        step, found = max(1, BATCH // (trees * (nodes + 1) ** 2)), list[AShare | BShare]()
        for start in range(0, rows, step):
            numbers = yield from contribute(party, table, left[:, :, start : start + step])
            if request.show == "names":
                found.append((yield from ranked(party, numbers, table, request)))
            else:
                found.append(_in_high_bits(numbers, table))
        return concatenate(found, axis=1)


def _in_high_bits(x: AShare, table: Table) -> AShare:
    """[x] in the ring of the table -> the same times a power of two, in words of 64 bits."""
    return x.map(lambda w: w << U64.type(Z64.bits - table.ring.bits)).at_scale(0)


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


def told(
    peer: str, model: SharedModel, request: Request, table: Table, learned: Learned
) -> list[tuple[str, ...]] | list[list[tuple[str, ...]]] | Contributions:
    """Return what `revealed_reasons` has revealed, by row, in words and numbers."""
    names = [f"data of {peer}" if name == OTHERS else name for name in request.names]
    several = model.config.num_class is not None
    if request.show == "names":
        of_rows = [
            [tuple(names[place] for place in row if place >= 0) for row in rows] for rows in learned.reasons.tolist()
        ]
        return [list(of_classes) for of_classes in zip(*of_rows, strict=True)] if several else of_rows[0]
    unit = model.facts.margin_unit / (1 << table.scale)
    values = learned.reasons.swapaxes(0, 1) if several else learned.reasons[0]
    return Contributions(tuple(names), values * unit, learned.mean * unit)
