"""Reasons of rows: they are routed once, for margins and contributions, and what was asked for is revealed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from mpc.matrix.interface import released
from mpc.party import Party
from mpc.rings import Z64
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, concatenate
from mpc.words import U8, U64
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.paths import sum_of_paths
from secure_tree.prediction.predict import batches
from secure_tree.prediction.reasons.request import OTHERS, Request, Toward
from secure_tree.prediction.reasons.table import Table, contribute, ranked
from secure_tree.prediction.routers import FixedModel, Router, fixed_router, router_of, row_groups
from secure_tree.public.config import Method
from secure_tree.public.layout import Layout

# Bits of the patterns of rows at a time.
BATCH = 1 << 25


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
class Learned:
    """What a party learns of its rows, or nothing of the other's.

    names: the number of each, or -1, int64[classes, rows, top]. Numbers: int64[classes, rows, names], and the mean,
    int64[classes], in units of the table's scale. margins: int64[classes, rows] at MARGIN_SCALE, if they are revealed
    as well.
    """

    reasons: np.ndarray
    mean: np.ndarray
    margins: np.ndarray | None = None


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


def _in_high_bits(x: AShare, table: Table) -> AShare:
    """[x] in the ring of the table -> the same times a power of two, in words of 64 bits."""
    return x.map(lambda w: w << U64.type(Z64.bits - table.ring.bits)).at_scale(0)


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
