"""The layout of the table: its blocks of rows and features, and how the candidates of a node are numbered.

A block of the bin matrix has some rows and all features (horizontal), or all rows and some features (vertical). Party p
holds block p; block 2, if any, has what owners contribute, who are no party. The features of the whole table are those
of block 0, followed for vertical data by those of the others.

Candidates are numbered in this order: the edges of block 0, feature by feature; those of the others, unless edges are
joint; the same edges again for features that may be missing, as candidates that send missing values left instead of
right; and the null split.

A column with `max_cat_to_onehot` categories or more is split by sets. Its categories have a secret order, and the
last edge of its k-th indicator, in the first block that has the column, stands for the set of the first k + 1
categories. Its other edges are no candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Protocol, TypeVar

import numpy as np

from secure_tree.public.config import Partition, TrainConfig
from secure_tree.public.names import column_of, is_indicator

LEAST_FLOAT = np.full(1, -np.finfo(np.float32).max)
# A column with more categories has one category per split: all pairs of categories are compared.
MOST_ORDERED = 256


class Sliceable(Protocol):
    """An array, or a share of one."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def reshape(self, *shape: int) -> Any: ...


A = TypeVar("A", bound=Sliceable)
# Feature names of each block.
Names = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Layout:
    """The numbers of rows, features (`widths`) and edges per feature (`sizes`) of each block.

    optional: each block's features that may be missing, numbered among its own. joint: whether all blocks have the same
    edges. finer: bins per edge. sets: of each column that is split by sets, the first of its indicators among the
    features of the table, and the one after the last.
    """

    partition: Partition
    rows: tuple[int, ...]
    widths: tuple[int, ...]
    sizes: tuple[int, ...]
    optional: tuple[tuple[int, ...], ...] = ((), ())
    joint: bool = False
    finer: int = 1
    sets: tuple[tuple[int, int], ...] = ()

    @property
    def vertical(self) -> bool:
        return self.partition == "vertical"

    @property
    def blocks(self) -> range:
        """The numbers of the blocks."""
        return range(len(self.rows))

    @property
    def of_parties(self) -> Layout:
        """The layout without rows that no party knows. Columns stay: models split on them."""
        if self.vertical:
            return self
        return replace(self, **{name: getattr(self, name)[:2] for name in ("rows", "widths", "sizes", "optional")})

    @property
    def row_count(self) -> int:
        """The number of rows of the whole table."""
        return self.rows[0] if self.vertical else sum(self.rows)

    @property
    def feature_count(self) -> int:
        """The number of features of the whole table."""
        return sum(self.widths) if self.vertical else self.widths[0]

    def rows_of(self, p: int) -> slice:
        """Return the rows of block p among those of the table."""
        return slice(0, self.row_count) if self.vertical else place(p, self.rows)

    def features_of(self, p: int) -> slice:
        """Return the features of block p among those of the table."""
        return place(p, self.widths) if self.vertical else slice(0, self.feature_count)

    def with_features(self, first: int, end: int) -> list[tuple[int, slice]]:
        """Return the blocks that have these features of the table, and their places there."""
        spans = [(p, self.features_of(p)) for p in self.blocks]
        return [(p, slice(first - s.start, end - s.start)) for p, s in spans if s.start <= first < s.stop]

    @property
    def in_sets(self) -> np.ndarray:
        """The features of the table that are indicators of columns split by sets."""
        return np.concatenate([np.zeros(0, int), *(np.arange(*ends) for ends in self.sets)])

    def own_indicators(self, p: int) -> np.ndarray:
        """Return which features of block p are indicators of columns split by sets."""
        start, end = self.features_of(p).start, self.features_of(p).stop
        return np.array([f - start for f in self.in_sets if start <= f < end], int)

    @property
    def columns(self) -> np.ndarray:
        """The number of each feature's column, int[d]; only columns that are split by sets have several features."""
        starts = np.ones(self.feature_count, int)
        for first, end in self.sets:
            starts[first + 1 : end] = 0
        return np.cumsum(starts) - 1

    @property
    def cover(self) -> list[int]:
        """The blocks that have the first feature. Together they hold every row once."""
        return [p for p in self.blocks if self.features_of(p).start == 0 and self.widths[p]]

    @property
    def missing(self) -> tuple[int, ...]:
        """The features of the table that may be missing."""
        return tuple(dict.fromkeys(self.features_of(p).start + f for p in self.blocks for f in self.optional[p]))

    def present(self, p: int) -> int:
        """Return the number of bins per feature of block p, without the bin of missing values."""
        return self.sizes[p] * self.finer

    def bins(self, p: int) -> int:
        """Return the number of bins per feature of block p, including the bin of missing values."""
        return self.present(p) + bool(self.optional[p])

    @property
    def cutters(self) -> tuple[int, ...]:
        """The blocks whose edges are candidates. Joint edges count as edges of block 0."""
        return (0,) if self.joint else tuple(self.blocks)

    @property
    def _segments(self) -> list[tuple[int, int]]:
        own = [(self.widths[p], self.sizes[p]) for p in self.cutters]
        return own + [(len(self.optional[p]), self.sizes[p]) for p in self.cutters]

    @property
    def candidates(self) -> int:
        """The number of candidates of a node, including the null split."""
        return sum(d * size for d, size in self._segments) + 1

    def split(self, by_candidate: A) -> tuple[list[A], list[A]]:
        """[v, C + 1] -> for each cutter [v, d_p, K_p], and for its copies that send missing left, [v, o_p, K_p]."""
        parts, start = [], 0
        for d, size in self._segments:
            parts.append(by_candidate[:, start : start + d * size].reshape(len(by_candidate), d, size))
            start += d * size
        count = len(self.cutters)
        return parts[:count], parts[count:]

    def by_candidate(self, of_edges: Sequence[np.ndarray]) -> np.ndarray:
        """Arrange values of the edges of all cutters, [d_p, K_p], in the order of the candidates, [C]."""
        copies = [of_edges[p][list(self.optional[p])] for p in self.cutters]
        return np.concatenate([x.reshape(-1) for x in [*of_edges, *copies]])

    @property
    def candidate_features(self) -> np.ndarray:
        """The feature of each candidate except the null split, int[C]."""
        every = np.arange(self.feature_count)
        edges = [np.repeat(every[self.features_of(p), None], self.sizes[p], axis=1) for p in self.cutters]
        return self.by_candidate(edges)

    @property
    def useful(self) -> np.ndarray:
        """Whether each candidate except the null split is one, bool[C]: not the further edges of columns with sets."""
        features = self.candidate_features
        first = (np.full((self.widths[p], self.sizes[p]), self.vertical or p == 0) for p in self.cutters)
        last_categories = [end - 1 for _, end in self.sets]
        sets = self.last_edges & self.by_candidate(list(first)) & ~np.isin(features, last_categories)
        return np.where(np.isin(features, self.in_sets), sets, True)

    @property
    def last_edges(self) -> np.ndarray:
        """Whether each candidate except the null split is the last edge of its feature, bool[C]."""
        last = [np.arange(self.sizes[p]) == self.sizes[p] - 1 for p in self.cutters]
        return self.by_candidate(
            [np.tile(line, (self.widths[p], 1)) for p, line in zip(self.cutters, last, strict=True)]
        )


def lay_out(
    config: TrainConfig, names: Names, rows: tuple[int, ...], indicators: Sequence[Collection[int]] | None = None
) -> Layout:
    """Return the layout of blocks with these features and numbers of rows.

    indicators: of each party's features, those of categories; None: those whose names say so. Columns of owners have
    one category per split.
    """
    sets: list[tuple[int, int]] = []
    sizes = [edge_count(config, n) for n in rows]
    if config.joint:
        sizes = [joint_size(config, names[0], sum(rows))] * len(rows)
    for p, own in enumerate(names[: 2 if config.partition == "vertical" else 1]):
        hot = [is_indicator(n) for n in own] if indicators is None else [f in indicators[p] for f in range(len(own))]
        start = sum(map(len, names[:p]))
        if found := _runs(own, hot, config.max_cat_to_onehot):
            sets += [(start + first, start + end) for first, end in found]
            # An indicator has two bins, even in a block of a single row.
            sizes = [max(2, n) if config.partition == "horizontal" or q == p else n for q, n in enumerate(sizes)]
    return Layout(
        config.partition,
        rows,
        tuple(len(own) for own in names),
        tuple(sizes),
        tuple(tuple(f for f, name in enumerate(own) if config.may_miss(name)) for own in names),
        config.joint,
        config.finer(rows[:2]),
        tuple(sets),
    )


def _runs(names: Sequence[str], hot: Sequence[bool], least: int) -> list[tuple[int, int]]:
    """Return where columns with `least` indicators or more, and two at least, begin and end."""
    found, start = [], 0
    for column, run in groupby(zip(names, hot, strict=True), key=lambda each: column_of(each[0]) if each[1] else None):
        end = start + len(list(run))
        if column is not None and max(2, least) <= end - start <= MOST_ORDERED:
            found.append((start, end))
        start = end
    return found


def edge_count(config: TrainConfig, rows: int) -> int:
    """Return the number of edges per feature of a block with so many rows."""
    return rows if config.max_bin == "exact" else min(rows, config.max_bin)


def joint_size(config: TrainConfig, names: Sequence[str], rows: int) -> int:
    """Return the number of joint edges of each feature."""
    declared = max((len(values) + 1 for values in (config.cuts or {}).values()), default=0)
    # The first joint edge is no value: it is below all of them.
    found = 2 if config.declares_all(names) else edge_count(config, rows + 1)
    return max(declared, found)


def known_edges(config: TrainConfig, names: Sequence[str], size: int) -> dict[int, np.ndarray]:
    """Return the edges of indicators, and declared ones, which are not searched for: {feature: float32[size]}.

    The first is the lowest float32, and the last one is repeated.
    """
    cuts = {f: (1.0,) if is_indicator(name) else (config.cuts or {}).get(name) for f, name in enumerate(names)}
    known = {f: np.append(LEAST_FLOAT, np.array(own, np.float32)) for f, own in cuts.items() if own}
    return {f: np.pad(edges, (0, size - edges.size), mode="edge") for f, edges in known.items()}


def place(p: int, counts: tuple[int, ...]) -> slice:
    """Return the range of the items of block p if those of the blocks before it come first."""
    return slice(sum(counts[:p]), sum(counts[: p + 1]))
