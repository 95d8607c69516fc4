"""What a party computes from its own rows before the first tree, on each part of the rows where it is stored.

Functionality  program(part, *given) for every part -> the answers, in the order of the parts
How            the lead of a party queries the parts and merges the answers, so it needs no rows itself. A single
               process has one part
Messages       none between the parties, except those of secure_tree/workers/sources.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from secure_tree.data.bins import Bins, Counted, counted, make_bins
from secure_tree.data.contributed import Contributed
from secure_tree.data.contributed_columns import ContributedColumns
from secure_tree.data.table import Table
from secure_tree.public.layout import Layout

# program(part, *given) -> its answer. It must be a function of a module, because it runs where the rows are.
Survey = Callable[..., Any]


@dataclass
class Part:
    """Rows of this process. `first` is the position of the first one among the party's rows; programs use `kept`."""

    table: Table
    first: int = 0
    kept: dict[str, Any] = field(default_factory=dict)


class OwnRows(Protocol):
    """A party's training rows, its held-out rows, and those or columns of owners who are no party."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""

    @property
    def indicators(self) -> tuple[int, ...]:
        """The features that are indicators of a category."""

    contributed: Contributed | None
    contributed_columns: ContributedColumns | None

    @property
    def count(self) -> int:
        """The number of training rows."""

    @property
    def validation(self) -> Table:
        """The held-out rows, which are in this process."""

    def each(self, program: Survey, *given: Any) -> list[Any]:
        """Return the answers of all parts. Both parties must call this at the same time."""

    def values(self, column: Survey) -> Counted:
        """Count the values of `column` over all parts, float64[n] each.

        With workers, they are within the error of secure_tree/data/sketches.py.
        """

    def columns(self) -> list[Counted]:
        """Count the non-missing values of each feature, with the same error as `values`."""

    def private_bins(self, layout: Layout, rank: int) -> Bins:
        """Cut bins at the party's own edges. Raises ConfigError."""

    def with_features(self, bins: Bins) -> Bins:
        """Return bins at known cuts with the features of this process."""


def labels_of_owners(own: OwnRows) -> Contributed | ContributedColumns | None:
    """Return the contributions if they have labels, once they are admitted."""
    columns = own.contributed_columns
    return columns if columns and columns.targets is not None else own.contributed


@dataclass
class Here:
    """Implements `OwnRows` by a table in this process."""

    table: Table
    validation: Table
    contributed: Contributed | None = None
    contributed_columns: ContributedColumns | None = None

    def __post_init__(self) -> None:
        self._part = Part(self.table)

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.names

    @property
    def indicators(self) -> tuple[int, ...]:
        return self.table.indicators

    @property
    def count(self) -> int:
        return len(self.table.features)

    def each(self, program: Survey, *given: Any) -> list[Any]:
        return [program(self._part, *given)]

    def values(self, column: Survey) -> Counted:
        found: np.ndarray = column(self._part)
        return Counted.of(found)

    def columns(self) -> list[Counted]:
        return counted(self.table.features)

    def private_bins(self, layout: Layout, rank: int) -> Bins:
        return make_bins(self.table.features, layout.sizes[rank], layout.finer)

    def with_features(self, bins: Bins) -> Bins:
        return Bins(self.table.features, bins.cuts, bins.medians, bins.finer)
