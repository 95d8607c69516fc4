"""A party's rows in parts, one per worker. Each worker opens its part, a table in memory or files, where it runs.

Functionality  `Shards` -> `AtWorkers`, which implements `OwnRows` by queries to all workers that return only answers
Messages       each party -> the other: the number of rows of each part; for every query, one byte by mpc/workers.py.
               For vertical data with ids, each pair of workers compares a digest of its ids on shares
Lost workers   new workers open the parts again, and the query is repeated
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np

from mpc.endpoint import Program
from mpc.errors import ConfigError, DataError, WorkersLost
from mpc.party import Party
from mpc.workers import ask, unplanned
from secure_tree.agreement.messages import Count, Message, exchange
from secure_tree.agreement.same_rows import check_same_rows, joined_digest
from secure_tree.data.bins import Bins, Counted
from secure_tree.data.categories import Dictionary
from secure_tree.data.contributed import Contributed
from secure_tree.data.contributed_columns import ContributedColumns
from secure_tree.data.inputs import TableLike
from secure_tree.data.own_rows import Part, Survey
from secure_tree.data.sketches import Sketch, SketchReport, bins_of_shards, check_exact, merge, sketch
from secure_tree.data.table import Table, held_rows, rows_of
from secure_tree.public.config import TrainConfig
from secure_tree.public.layout import Layout

log = logging.getLogger("sharewood")

# The values that a worker keeps, by name.
Kept = dict[str, Any]
# The name under which a worker keeps its part.
PART = "part"
_ATTEMPTS = 10


class ShardSource(Protocol):
    """The rows of one worker, where they are stored."""

    @property
    def rows(self) -> int:
        """The number of rows, which is public."""

    def read(self, config: TrainConfig, known: Dictionary) -> Table:
        """Read the rows in the calling process. `known` is as in `schema.read_features`. Raises DataError."""


@dataclass(frozen=True)
class Loaded:
    """Implements `ShardSource` by rows in memory."""

    table: Table

    @property
    def rows(self) -> int:
        return len(self.table.features)

    def read(self, config: TrainConfig, known: Dictionary) -> Table:
        return self.table


@dataclass(frozen=True)
class Shards:
    """A party's rows in consecutive parts. `header` is a table with their features but without rows."""

    parts: Sequence[ShardSource]
    header: TableLike

    @classmethod
    def of(cls, table: Table, count: int) -> Shards:
        """Divide a table in memory into `count` even parts."""
        n = len(table.features)
        ends = [i * n // count for i in range(count + 1)]
        parts = [Loaded(rows_of(table, np.arange(a, b))) for a, b in pairwise(ends)]
        return cls(parts, table.features[:0])

    def __len__(self) -> int:
        return sum(part.rows for part in self.parts)


# The numbers of rows of every shard, for both parties.
Counts = tuple[tuple[int, ...], tuple[int, ...]]


class ShardFacts(Message):
    """The number of rows of each of a party's shards."""

    rows: list[Count]


def agree_on_counts(party: Party, shards: Shards, vertical: bool) -> Counts:
    """Exchange the numbers of rows of all shards.

    Raises ConfigError, or DataError if the numbers of a shard of vertical data differ.
    """
    assert party.workers is not None, "rows are divided among workers"
    count = party.workers.count
    mine = [part.rows for part in shards.parts]
    theirs = exchange(party, "shards.rows", ShardFacts.of(rows=mine)).rows
    for who, rows in (("this party", mine), ("the other", theirs)):
        if len(rows) != count:
            raise ConfigError(f"{who} must have one shard per worker, got {len(rows)} shards for {count} workers")
    if vertical:
        for i, (own, other) in enumerate(zip(mine, theirs, strict=True)):
            if own != other:
                raise DataError(f"shard {i}: this party has {own} rows, the other {other}: run sharewood align first")
    ordered = (mine, theirs) if party.rank == 0 else (theirs, mine)
    return tuple(ordered[0]), tuple(ordered[1])


def trained_on(counts: Counts, config: TrainConfig, hold_out: bool) -> Counts:
    """Return the number of training rows of every shard, without the fraction `test_size` if `hold_out`.

    Raises ConfigError if a shard has none.
    """
    first, second = (
        tuple(n - len(_held(rows, i, config) if hold_out else ()) for i, n in enumerate(rows)) for rows in counts
    )
    if min(*first, *second) < 1:
        least = min(sum(first), sum(second))
        raise ConfigError(f"shards must be at most the rows of either party, {least}, got {len(first)}")
    return first, second


def needs_workers(party: Party, rows: tuple[int, ...]) -> ConfigError:
    """Return the error for rows in shards that cannot be used."""
    if party.workers is None:
        return ConfigError("rows in shards require workers, but this party has none: set shards")
    return ConfigError(
        f"each party must have at least one row per shard, got {min(rows)} rows for {party.workers.count} shards"
    )


def _held(rows: Sequence[int], i: int, config: TrainConfig) -> np.ndarray:
    """Return which rows of shard i `test_size` holds out."""
    start, every = sum(rows[:i]), held_rows(config, sum(rows))
    return every[(every >= start) & (every < start + rows[i])] - start


@dataclass(frozen=True)
class Opened:
    """A worker's answer after opening its part: facts of its `Table`, and the rows that it holds out, if any."""

    names: tuple[str, ...]
    indicators: tuple[int, ...]
    ids: bytes | None
    held_out: Table


@dataclass(frozen=True)
class Division:
    """For the report of a training: training rows of every shard of both parties, and the accuracy of private bins.

    `bins` is None if none were cut in this run.
    """

    rows: Counts
    bins: SketchReport | None


@dataclass
class AtWorkers:
    """Implements `OwnRows` by a party's workers.

    counts: rows of all shards of both parties. trained: those of training rows; the others are held out. ids: the
    digest of all ids, if rows have any.
    """

    party: Party
    shards: Shards
    config: TrainConfig
    known: Dictionary
    counts: Counts
    trained: Counts
    stage: str = "setup"
    names: tuple[str, ...] = field(init=False)
    indicators: tuple[int, ...] = field(init=False)
    validation: Table = field(init=False)
    ids: bytes | None = field(init=False)
    report: SketchReport | None = field(init=False, default=None)
    contributed: Contributed | None = field(init=False, default=None)
    contributed_columns: ContributedColumns | None = field(init=False, default=None)
    _open: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        opened = self._lasting(self.open)
        self.names, self.indicators = opened[0].names, opened[0].indicators
        for i, other in enumerate(opened):
            if (other.names, other.indicators) != (self.names, self.indicators):
                raise DataError(f"shard {i}: must have the features of shard 0 in the same order")
        self.validation = joined([each.held_out for each in opened])
        rows = self.counts[self.party.rank]
        digests = [(each.ids, count) for each, count in zip(opened, rows, strict=True) if each.ids is not None]
        self.ids = joined_digest(digests) if digests else None

    @property
    def division(self) -> Division:
        return Division(self.trained, self.report)

    @property
    def count(self) -> int:
        return sum(self.trained[self.party.rank])

    def each(self, program: Survey, *given: Any) -> list[Any]:
        return self.ask(_survey, program, given)

    def values(self, column: Survey) -> Counted:
        (merged,) = merge(self.each(_sketch_column, column))
        return merged.values

    def columns(self) -> list[Counted]:
        return [each.values for each in merge(self.each(_sketch_features))]

    def private_bins(self, layout: Layout, rank: int) -> Bins:
        merged = merge(self.each(_sketch_features))
        if self.config.max_bin == "exact":
            check_exact(merged, self.names)
        self.report = SketchReport.of(merged, self.names)
        return bins_of_shards(merged, layout.sizes[rank], layout.finer)

    def with_features(self, bins: Bins) -> Bins:
        return bins

    def ask(self, program: Program, *given: Any, own: Sequence[tuple[Any, ...]] = ()) -> list[Any]:
        """Run a program on workers that have opened their parts, as `mpc.workers.ask` does."""

        def job() -> list[Any]:
            if not self._open:
                self.open()
            return self.party.run(ask(self.party, program, *given, own=own, planned=self.stage))

        return self._lasting(job)

    def open(self) -> list[Opened]:
        """Make workers that keep nothing yet open their parts. Raises WorkersLost, DataError."""
        self._open = False
        mine, first = self.counts[self.party.rank], accumulate(self.trained[self.party.rank], initial=0)
        hold_out = self.trained != self.counts
        own = [
            (i, part, _held(mine, i, self.config) if hold_out else np.zeros(0, np.int64), at)
            for i, (part, at) in enumerate(zip(self.shards.parts, first, strict=False))
        ]
        opened = self.party.run(ask(self.party, _open, self.config, self.known, own=own, planned=self.stage))
        if self.config.partition == "vertical" and opened[0].ids is not None:
            places = [(i,) for i in range(len(own))]
            self.party.run(ask(self.party, _check_ids, own=places, planned=self.stage))
        self._open = True
        return opened

    def _lasting(self, job: Callable[[], list[Any]]) -> list[Any]:
        for left in reversed(range(_ATTEMPTS)):
            try:
                with self.party.stage(self.stage):
                    return job()
            except WorkersLost as lost:
                if not left:
                    raise
                log.warning("%s: all workers restart and open their rows again", lost)
                self._open = False
                assert self.party.workers is not None, "some were lost"
                self.party.workers.restart(self.party)
        raise AssertionError("the last attempt returns or raises")


def joined(tables: Sequence[Table]) -> Table:
    """Join the rows of tables with the same columns."""
    first = tables[0]
    labels = None if first.labels is None else np.concatenate([each.labels for each in tables])
    weights = None if first.weights is None else np.concatenate([each.weights for each in tables])
    return replace(first, features=np.concatenate([t.features for t in tables]), labels=labels, weights=weights)


@unplanned
def _open(
    party: Party,
    kept: Kept,
    config: TrainConfig,
    known: Dictionary,
    number: int,
    source: ShardSource,
    held: np.ndarray,
    first: int,
) -> Opened:
    kept.clear()
    table = source.read(config, known)
    if len(table.features) != source.rows:
        raise DataError(f"shard {number}: must have {source.rows} rows as before, got {len(table.features)}")
    held_out = rows_of(table, held)
    if held.size:
        table = rows_of(table, np.delete(np.arange(len(table.features)), held))
    kept[PART] = Part(table, first)
    return Opened(table.names, table.indicators, table.ids, replace(held_out, ids=None))


@unplanned
def _check_ids(party: Party, kept: Kept, number: int) -> None:
    check_same_rows(party, kept[PART].table.ids, f"shard {number}: ")


@unplanned
def _survey(party: Party, kept: Kept, program: Survey, given: tuple[Any, ...]) -> Any:
    return program(kept[PART], *given)


def _sketch_features(part: Part) -> list[Sketch]:
    return sketch(part.table.features)


def _sketch_column(part: Part, column: Survey) -> list[Sketch]:
    return [Sketch.of(column(part))]
