"""The columns of one party, which offer splits for a tree, as seen by the guest; the guest's own are local."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from protocols.baselines.secureboost.columns import BinnedColumns, Records, histograms
from protocols.baselines.secureboost.config import LARGEST_MAX_BIN
from protocols.baselines.secureboost.encoding import FRACTION_BITS, Derivatives


class Owner(ABC):
    """One party's columns. Call `start_tree` for each tree; for each level `ask` and `histograms`, then `split`."""

    name: str
    features: int
    # The deviation of the noise in a sum, in units of a row's largest g or h.
    deviation: float = 0.0

    @property
    def most_noise(self) -> float:
        """A bound on the noise in the sums of either side of a split."""
        return 16 * self.deviation * 2.0**FRACTION_BITS * np.sqrt(LARGEST_MAX_BIN + 1)

    @abstractmethod
    def start_tree(self, derivatives: Derivatives, columns: np.ndarray) -> None:
        """Start a tree with its g and h, and the columns that it may use, int64[c]."""

    @abstractmethod
    def ask(self, assignment: np.ndarray, nodes: np.ndarray) -> None:
        """Request the histograms of `nodes`, int16[v]; row r is in node assignment[r], int16[n], or in none: -1."""

    @abstractmethod
    def histograms(self) -> np.ndarray:
        """Return the requested histograms, int64[v, c, K + 1, 2]; missing values are in the last bucket."""

    @abstractmethod
    def split(
        self, assignment: np.ndarray, nodes: np.ndarray, columns: np.ndarray, bins: np.ndarray, missing_left: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Split every node at a column (a place in start_tree's) and bin of this party.

        Returns records int64[v] that name the splits, and whether each row of `rows_of_nodes` goes left, bool.
        """


class SplitOwner(ABC):
    """Answers which way rows go, for the party that owns the splits."""

    @abstractmethod
    def ask(self, records: np.ndarray, rows: np.ndarray) -> None:
        """Send queries: query q is for row rows[q] at split records[q]; int64 each, records ascending."""

    @abstractmethod
    def left(self) -> np.ndarray:
        """Return the answers to the queries, bool[q]."""


def rows_of_nodes(assignment: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the nodes, node by node and ascending in each, and each row's place in `nodes`."""
    place = np.full(int(max(assignment.max(), nodes.max(initial=0))) + 2, -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    group = np.where(assignment >= 0, place[assignment], -1)
    rows = np.flatnonzero(group >= 0)
    rows = rows[np.argsort(group[rows], kind="stable")]
    return rows, group[rows]


def node_sums(place: np.ndarray, nodes: int, values: np.ndarray) -> np.ndarray:
    """values int64[n, 2] of rows in the nodes place[r] -> sums int64[nodes, 2], exact below 2^53."""
    sums = [np.bincount(place, part.astype(np.float64), nodes) for part in values.T]
    return np.stack(sums, axis=1).astype(np.int64)


class OwnColumns(Owner):
    """Columns in the clear: the guest's own, or a joined table in the plaintext twin."""

    name = "the guest"

    def __init__(self, binned: BinnedColumns) -> None:
        self.features = binned.features.shape[1]
        self.records = Records()
        self._binned = binned

    def start_tree(self, derivatives: Derivatives, columns: np.ndarray) -> None:
        self._columns = columns
        self._numbers = self._binned.numbers[:, columns]
        self._values = np.stack([derivatives.g, derivatives.h], axis=1)

    def ask(self, assignment: np.ndarray, nodes: np.ndarray) -> None:
        self._asked = assignment, nodes

    def histograms(self) -> np.ndarray:
        assignment, nodes = self._asked
        rows, place = rows_of_nodes(assignment, nodes)
        size = self._binned.edges.shape[1] + 1
        return histograms(self._numbers[rows], place, len(nodes), size, self._values[rows])

    def split(
        self, assignment: np.ndarray, nodes: np.ndarray, columns: np.ndarray, bins: np.ndarray, missing_left: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        records = self._binned.record(self.records, self._columns[columns], bins, missing_left)
        rows, place = rows_of_nodes(assignment, nodes)
        return records, self.records.left(self._binned.features, records[place], rows)


class OwnRouter(SplitOwner):
    def __init__(self, records: Records, features: np.ndarray) -> None:
        self._records, self._features = records, features

    def ask(self, records: np.ndarray, rows: np.ndarray) -> None:
        self._asked = records, rows

    def left(self) -> np.ndarray:
        return self._records.left(self._features, *self._asked)
