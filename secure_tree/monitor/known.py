"""What parties know of the rows that are monitored: labels, and groups of a protected attribute. Nothing here
communicates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc.errors import DataError
from mpc.host.frames import pd
from mpc.shares import AShare, BShare
from secure_tree.data.inputs import ColumnLike
from secure_tree.data.table import read_training
from secure_tree.monitor.scores import Scored
from secure_tree.public.config import TrainConfig

# The scale of probabilities.
PROBABILITY = 12
_LABELS = TrainConfig.of(partition="vertical")


@dataclass(frozen=True)
class Known:
    """What parties know of the rows, as trivial shares. together: whether one party knows label and group of each row.

    labels: <label>, [n]. groups: <the row is in the group>, [n, K]. own: by rows, of this party's rows, those of each
    group and those of them labelled 1, int64[2, K].
    """

    labels: BShare
    groups: BShare
    together: bool
    own: np.ndarray | None

    @classmethod
    def of(
        cls,
        rank: int,
        scored: Scored,
        labels: np.ndarray | None,
        places: np.ndarray | None,
        width: int,
        together: bool,
    ) -> Known:
        """labels: uint8[own rows]; places: the number of each own row's group, or -1, of `width`; None: not known."""
        n, here = scored.layout.row_count, scored.layout.rows_of(rank)
        of_label, of_group = np.zeros(n, np.uint8), np.zeros((n, width), np.uint8)
        if labels is not None:
            of_label[here] = labels
        if places is not None:
            of_group[here] = places[:, None] == np.arange(width)
        own = None
        if not scored.layout.vertical:
            own = np.stack([of_group.sum(axis=0, dtype=int), (of_group & of_label[:, None]).sum(axis=0, dtype=int)])
        return cls(BShare(of_label, rank), BShare(of_group, rank), together, own)

    @property
    def positives(self) -> AShare:
        """[number of rows labelled 1], []."""
        return AShare(np.asarray(self.labels.bits.sum(dtype=np.uint64)), self.labels.rank)

    @property
    def numbers(self) -> AShare:
        """[label], [n]: one share is the label, the other 0."""
        return AShare(self.labels.bits.astype(np.uint64), self.labels.rank)

    @property
    def sizes(self) -> AShare:
        """[number of rows of each group], [K]."""
        return AShare(self.groups.bits.sum(axis=0, dtype=np.uint64), self.groups.rank)


def own_labels(y: ColumnLike | None, rows: int) -> np.ndarray | None:
    """Return a party's labels, uint8[rows], None without. Raises DataError."""
    if y is None:
        return None
    labels = read_training(np.zeros((rows, 0)), y, None, _LABELS, least=0).labels
    assert labels is not None, "given"
    return labels.astype(np.uint8)


def own_groups(group: ColumnLike | None, rows: int) -> tuple[np.ndarray | None, list[str]]:
    """Return the number of each own row's group, -1 without a value, and the groups' names. Raises DataError."""
    if group is None:
        return None, []
    column = pd.Series(np.asarray(group))
    if column.ndim != 1 or len(column) != rows:
        raise DataError(f"group must have a value for each of the {rows} rows, got {len(column)}")
    there = column.notna().to_numpy()
    codes = np.full(rows, -1)
    codes[there], names = pd.factorize(column[there].astype(str), sort=True)
    return codes, [str(name) for name in names]
