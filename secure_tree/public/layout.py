"""The layout of the table: which rows and features each party holds, and how the candidates of a node are numbered.

A party holds a block of the bin matrix: some rows and all features (horizontal), or all rows and some features
(vertical). The features of the whole table are those of party 0, followed for vertical data by those of party 1.

Candidates are numbered in this order: the edges of party 0, feature by feature; those of party 1, unless edges are
joint; the same edges again for features that may be missing, as candidates that send missing values left instead of
right; and the null split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from secure_tree.public.config import Partition, TrainConfig


class Sliceable(Protocol):
    """An array, or a share of one."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def reshape(self, *shape: int) -> Any: ...


A = TypeVar("A", bound=Sliceable)
# Feature names of both parties.
Names = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Layout:
    """The numbers of rows, features (`widths`) and edges per feature (`sizes`) of each party.

    optional: each party's features that may be missing, numbered among its own. joint: whether both parties have the
    same edges. finer: a party's bins per edge.
    """

    partition: Partition
    rows: tuple[int, int]
    widths: tuple[int, int]
    sizes: tuple[int, int]
    optional: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    joint: bool = False
    finer: int = 1

    @property
    def vertical(self) -> bool:
        return self.partition == "vertical"

    @property
    def row_count(self) -> int:
        """The number of rows of the whole table."""
        return self.rows[0] if self.vertical else sum(self.rows)

    @property
    def feature_count(self) -> int:
        """The number of features of the whole table."""
        return sum(self.widths) if self.vertical else self.widths[0]

    def rows_of(self, p: int) -> slice:
        """Return party p's rows among those of the table."""
        return slice(0, self.row_count) if self.vertical else place(p, self.rows)

    def features_of(self, p: int) -> slice:
        """Return party p's features among those of the table."""
        return place(p, self.widths) if self.vertical else slice(0, self.feature_count)

    @property
    def cover(self) -> list[int]:
        """The parties whose blocks have the first feature. Together they hold every row once."""
        return [p for p in (0, 1) if self.features_of(p).start == 0 and self.widths[p]]

    @property
    def missing(self) -> tuple[int, ...]:
        """The features of the table that may be missing."""
        return tuple(dict.fromkeys(self.features_of(p).start + f for p in (0, 1) for f in self.optional[p]))

    def present(self, p: int) -> int:
        """Return party p's number of bins per feature, without the bin of missing values."""
        return self.sizes[p] * self.finer

    def bins(self, p: int) -> int:
        """Return party p's number of bins per feature, including the bin of missing values."""
        return self.present(p) + bool(self.optional[p])

    @property
    def cutters(self) -> tuple[int, ...]:
        """The parties whose edges are candidates. Joint edges count as edges of party 0."""
        return (0,) if self.joint else (0, 1)

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
    def last_edges(self) -> np.ndarray:
        """Whether each candidate except the null split is the last edge of its feature, bool[C]."""
        last = [np.arange(self.sizes[p]) == self.sizes[p] - 1 for p in self.cutters]
        return self.by_candidate(
            [np.tile(line, (self.widths[p], 1)) for p, line in zip(self.cutters, last, strict=True)]
        )


def lay_out(config: TrainConfig, names: Names, rows: tuple[int, int]) -> Layout:
    """Return the layout of two tables with these features and numbers of rows."""
    # The first joint edge is no value: it is below all of them.
    most = (sum(rows) + 1, sum(rows) + 1) if config.joint else rows
    sizes = [n if config.max_bin == "exact" else min(n, config.max_bin) for n in most]
    optional = [tuple(f for f, name in enumerate(own) if config.may_miss(name)) for own in names]
    return Layout(
        config.partition,
        rows,
        (len(names[0]), len(names[1])),
        (sizes[0], sizes[1]),
        (optional[0], optional[1]),
        config.joint,
        config.finer,
    )


def place(p: int, counts: tuple[int, int]) -> slice:
    """Return the range of party p's items if those of party 0 come first."""
    return slice(0, counts[0]) if p == 0 else slice(counts[0], sum(counts))
