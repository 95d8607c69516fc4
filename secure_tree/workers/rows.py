"""The rows of a training whose parties divide them among workers. Worker i of both parties has the i-th shard.

A tree uses the same interface as without workers: `ShardedRows` queries the workers, each of which has `LocalRows`, and
adds up their shares without a message. All work that is linear in the rows (set-up, gradients, histograms, routing,
margins) is done between worker i and worker i of the other party. The margins of the last complete round are kept
outside the workers, so that new workers can continue from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from mpc.arithmetic.bits import to_ring
from mpc.endpoint import Endpoint
from mpc.errors import WorkersLost
from mpc.matrix.interface import LinearMap, Releasable
from mpc.party import Party
from mpc.rings import Z32
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, concatenate
from mpc.words import U32
from mpc.workers import ask
from secure_tree.data.bins import Bins
from secure_tree.data.own_rows import labels_of_owners
from secure_tree.data.table import Table
from secure_tree.public.context import TrainingContext
from secure_tree.public.layout import Layout
from secure_tree.tree.histogram import fix_bins, share_blocks
from secure_tree.tree.rows import local_rows
from secure_tree.workers.sources import PART, AtWorkers, Kept

# The name under which a worker keeps its rows.
_ROWS = "rows"


@dataclass
class ShardedRows:
    """Implements `Rows` by workers that have opened their parts of `own`."""

    party: Party
    context: TrainingContext
    base: AShare
    bins: Bins
    own: AtWorkers
    _margins: list[Any] = field(default_factory=list)

    @property
    def counts(self) -> list[tuple[int, ...]]:
        """The numbers of rows of every block in every shard."""
        further = len(self.context.layout.blocks) - 2
        return list(zip(*self.own.trained, *[np.diff(self._ends).tolist()] * further, strict=True))

    @property
    def _ends(self) -> np.ndarray:
        """Where contributed rows are divided, evenly, or contributed columns, as the parties' own."""
        more, (count, *_) = self.own.contributed, map(len, self.own.trained)
        return np.cumsum([0, *self.own.trained[0]]) if more is None else np.arange(count + 1) * sum(more.rows) // count

    @property
    def margin(self) -> AShare:
        """The margins of the last complete round, [classes, n] at MARGIN_SCALE."""
        assert self.party.workers is not None, "rows are divided among workers"
        return self.gathered(self.party.workers.fetch(self._margins), axis=1)

    @property
    def matrices(self) -> Sequence[Releasable]:
        return [_AllOfWorkers()]

    def begin(self, party: Party, margin: AShare | None) -> None:
        self._margins = [None] * len(self.counts) if margin is None else self._divided(margin)
        self._begin(party)

    def keep(self, party: Party) -> None:
        self._margins = party.run(ask(party, _margin, keep=True))

    def recover(self, party: Party) -> None:
        assert party.workers is not None, "workers were lost"
        party.workers.restart(party)
        self.own.open()
        self._begin(party)

    def first_sums(self, party: Party) -> Steps[list[AShare]]:
        answers = yield from ask(party, _first_sums, planned="setup")
        layout = self.context.layout
        shapes = [(self.context.config.classes, 2, layout.widths[p], layout.bins(p)) for p in layout.blocks]
        scale = self.context.numerics.histogram_scale
        zeros = [AShare(np.zeros(shape, U32), party.rank, scale) for shape in shapes]
        return [sum([each[p] for each in answers], start=none) for p, none in enumerate(zeros)]

    def start_round(self, party: Party) -> Steps[None]:
        if self.context.config.softmax:
            yield from ask(party, _start_round)

    def start_trees(self, party: Party, k: int) -> Steps[list[ShardedTreeRows]]:
        yield from ask(party, _start_trees, k)
        config = self.context.config
        return [ShardedTreeRows(self, party.rank, k, t) for t in range(k, config.trees_of_round, config.classes)]

    def gathered(self, parts: list[AShare], axis: int) -> AShare:
        """Join the workers' values of their rows along an axis, in the order of the training's rows."""
        return gathered(self.context.layout, self.counts, parts, axis)

    def _begin(self, party: Party) -> None:
        shards = [self.context.of_rows(rows) for rows in self.counts]
        own = list(zip(shards, self._margins, self._contributed(), strict=True))
        party.run(ask(party, _begin, self.base, self.bins, own=own, planned="setup"))

    def _contributed(self) -> list[_Slice | None]:
        rows, columns, layout = self.own.contributed, self.own.contributed_columns, self.context.layout
        if not (rows or columns):
            return [None] * len(self._margins)
        packed = np.concatenate(rows.packed) if rows else None
        labels = labels_of_owners(self.own)
        targets, weights = (labels.targets, labels.row_weights) if labels else (None, None)

        def part(a: int, b: int) -> _Slice:
            bins = None if packed is None else packed[a:b]
            if columns and len(layout.blocks) > 2:
                bins = np.packbits(columns.hot(False, slice(a, b), layout.bins(2)).bits.reshape(b - a, -1), axis=1)
            own = [None if values is None else values[..., a:b] for values in (targets, weights)]
            return _Slice(bins, own[0], own[1])

        return [part(a, b) for a, b in pairwise(self._ends.tolist())]

    def _divided(self, margin: AShare) -> list[AShare]:
        return [margin[:, places] for places in _places(self.context.layout, self.counts)]


@dataclass
class _Slice:
    """Implements `SharedRows` for a worker. packed: <bins>, uint8[n, bytes]; None if owners have labels only."""

    packed: np.ndarray | None
    targets: AShare | None
    row_weights: AShare | None
    matrices: list[tuple[LinearMap, LinearMap]] = field(default_factory=list)

    @property
    def rows(self) -> list[int]:
        return [] if self.packed is None else [len(self.packed)]

    def place(self, party: Party, layout: Layout) -> None:
        """Fix the bins. Two rounds."""
        if self.packed is None:
            return
        bits = BShare(np.unpackbits(self.packed, axis=1, count=layout.widths[2] * layout.bins(2)), party.rank)
        words = party.run(to_ring.steps(party, bits, Z32))
        self.matrices = [party.run(fix_bins(party, bits, words))]


@dataclass
class ShardedTreeRows:
    """Implements `TreeRows` by sums of the workers' answers. In a rehearsal there are no answers, and sums are 0.

    tree: the number of the tree in the round, of class k.
    """

    rows: ShardedRows
    rank: int
    k: int
    tree: int
    level: int = 0

    @property
    def gradients(self) -> AShare:
        party = self.rows.party
        return self.rows.gathered(party.run(ask(party, _gradients, self.tree)), axis=1)

    @property
    def margin(self) -> AShare:
        return self.rows.margin[self.k]

    def totals(self, party: Party) -> Steps[AShare]:
        answers = yield from ask(party, _totals, self.tree)
        return self._sum(answers)

    def histograms(self, party: Party) -> Steps[list[AShare]]:
        answers = yield from ask(party, _histograms, self.tree)
        layout = self.rows.context.layout
        return [self._sum([each[p] for each in answers], layout.widths[p], layout.bins(p)) for p in layout.blocks]

    def route(self, party: Party, sets: list[BShare]) -> Steps[None]:
        yield from ask(party, _route, self.tree, sets)
        self.level += 1

    def add_leaves(self, party: Party, leaves: AShare) -> Steps[None]:
        yield from ask(party, _add_leaves, self.tree, leaves)

    def _sum(self, answers: list[AShare], *shape: int) -> AShare:
        context = self.rows.context
        values = 3 if context.config.min_child_samples > 1 else 2
        nodes = 1 << max(0, self.level - 1)
        zeros = np.zeros((nodes, values, *shape), U32)
        return sum(answers, start=AShare(zeros, self.rank, context.numerics.histogram_scale))


class _AllOfWorkers:
    """The masked matrices of all workers. Its number is not that of any matrix."""

    number = 0

    def release(self, party: Endpoint) -> None:
        with suppress(WorkersLost):
            party.run(ask(party, _release, planned="online"))


def gathered(layout: Layout, counts: Sequence[tuple[int, ...]], parts: list[AShare], axis: int) -> AShare:
    """Join values of shards with `counts` rows along an axis, in the order of all rows."""
    order = np.argsort(np.concatenate(_places(layout, counts)))
    return concatenate(parts, axis=axis).map(lambda w: np.take(w, order, axis=axis))


def _places(layout: Layout, counts: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return which of the training's rows each shard has, int64[n_i], in the order of the shard."""
    every = np.arange(layout.row_count)
    of_blocks = [
        np.split(every[layout.rows_of(p)], np.cumsum([rows[p] for rows in counts])[:-1]) for p in layout.blocks
    ]
    return [np.concatenate([of_blocks[p][i] for p in layout.cover]) for i in range(len(counts))]


def _begin(
    party: Party,
    kept: Kept,
    base: AShare,
    bins: Bins,
    context: TrainingContext,
    margin: AShare | None,
    contributed: _Slice | None,
) -> None:
    # A rehearsal has no rows. From here on, the features are needed only as blocks.
    table = kept.pop(PART).table if PART in kept else _rehearsed(bins, context.layout.rows[party.rank])
    if contributed:
        contributed.place(party, context.layout)
    blocks = party.run(share_blocks(party, replace(bins, features=table.features), context.layout, contributed))
    labels = contributed if contributed and contributed.targets is not None else None
    rows = kept[_ROWS] = local_rows(party, context, blocks, table, base, labels)
    rows.begin(party, margin)


def _rehearsed(bins: Bins, rows: int) -> Table:
    """Return rows for a rehearsal, all of them at the first cuts."""
    return Table(np.broadcast_to(bins.cuts[:, 0], (rows, len(bins.cuts))), ())


def _first_sums(party: Party, kept: Kept) -> list[AShare]:
    return party.run(kept[_ROWS].first_sums(party))


def _start_round(party: Party, kept: Kept) -> None:
    party.run(kept[_ROWS].start_round(party))


def _start_trees(party: Party, kept: Kept, k: int) -> None:
    rows = kept[_ROWS]
    for number, tree in enumerate(party.run(rows.start_trees(party, k))):
        kept[_tree(number * rows.context.config.classes + k)] = tree


def _totals(party: Party, kept: Kept, tree: int) -> AShare:
    return party.run(kept[_tree(tree)].totals(party))


def _histograms(party: Party, kept: Kept, tree: int) -> list[AShare]:
    return party.run(kept[_tree(tree)].histograms(party))


def _route(party: Party, kept: Kept, tree: int, sets: list[BShare]) -> None:
    party.run(kept[_tree(tree)].route(party, sets))


def _add_leaves(party: Party, kept: Kept, tree: int, leaves: AShare) -> None:
    party.run(kept[_tree(tree)].add_leaves(party, leaves))


def _margin(party: Party, kept: Kept) -> AShare:
    return kept[_ROWS].margin


def _gradients(party: Party, kept: Kept, tree: int) -> AShare:
    return kept[_tree(tree)].gradients


def _release(party: Party, kept: Kept) -> None:
    for matrix in kept.pop(_ROWS).matrices:
        matrix.release(party)


def _tree(number: int) -> str:
    """Return the name under which a worker keeps the rows of a tree of the round."""
    return f"tree {number}"
