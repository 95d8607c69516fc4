"""What a party computes from its own rows before the first tree: of each part of them, wherever it lies, and added up.

Functionality  program(part, *given) of every part -> the answers, in the order of the parts
How            the lead of a party asks, and merges what it is told: it needs no row. A single process has one part
Messages       none between the parties, but for those of secure_tree/sources.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from secure_tree.binning import Bins, Counted, counted, make_bins
from secure_tree.layout import Layout
from secure_tree.schema import Table

# program(part, *given) -> its answer. Functions of a module: they run where the rows are.
Survey = Callable[..., Any]


@dataclass
class Part:
    """Rows that this process has: `first` is the place of their first one among the party's; `kept` by programs."""

    table: Table
    first: int = 0
    kept: dict[str, Any] = field(default_factory=dict)


class OwnRows(Protocol):
    """A party's rows to train on, and those that it holds out."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features."""

    @property
    def indicators(self) -> tuple[int, ...]:
        """As of `Table`."""

    @property
    def count(self) -> int:
        """Rows to train on."""

    @property
    def validation(self) -> Table:
        """Held-out rows, in this process."""

    def each(self, program: Survey, *given: Any) -> list[Any]:
        """The answers of all parts. Both parties ask at the same time."""

    def values(self, column: Survey) -> Counted:
        """What `column` gives of all parts, float64[n] each: counted, or within the error of secure_tree/sketches.py
        where there are many parts.
        """

    def columns(self) -> list[Counted]:
        """The values of each feature that are there: counted, or likewise."""

    def private_bins(self, layout: Layout, rank: int) -> Bins:
        """At the party's own edges. Raises ConfigError."""

    def with_features(self, bins: Bins) -> Bins:
        """Bins at known cuts, of the features that this process has."""


@dataclass
class Here:
    """Implements `OwnRows` by a table of this process."""

    table: Table
    validation: Table

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
