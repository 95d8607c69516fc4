"""Interaction constraints: groups of columns that may meet on a path from the root, as in XGBoost.

XGBoost lets a node split on the columns above it, and on those of every group that contains all columns above it; a
root may split on any. A column without a group is therefore only with itself, as if it were a group, and the columns of
every path are in one group. So a column may follow if one of its groups contains all columns above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc.errors import ConfigError
from secure_tree.public.config import TrainConfig
from secure_tree.public.names import column_of, is_indicator


@dataclass(frozen=True)
class Interactions:
    """Groups, and kinds of features: those of the same groups are of one kind.

    kind: of each feature, or of each candidate except the null split, int. groups: whether each kind is in each group,
    bool[K, G].
    """

    kind: np.ndarray
    groups: np.ndarray

    def at(self, features: np.ndarray) -> Interactions:
        """Return the same of candidates with these features."""
        return Interactions(self.kind[features], self.groups)

    @property
    def groups_of_kinds(self) -> np.ndarray:
        """The numbers of the groups of every kind, padded with G, int[K, most]."""
        count = self.groups.shape[1]
        places = np.sort(np.where(self.groups, np.arange(count), count), axis=1)
        return places[:, : self.groups.sum(axis=1).max()]


def interactions(config: TrainConfig, tables: Sequence[Sequence[str]]) -> Interactions | None:
    """Return the constraints on features, whose names are those of `tables`; None: all may meet. Raises ConfigError.

    By columns, each party and owner has a table of its own. Columns are numbered from table to table.
    """
    if config.interaction_constraints is None:
        return None
    columns, of_feature = list[str](), list[int]()
    for names in tables:
        for f, name in enumerate(names):
            if not (f and is_indicator(name) and column_of(name) == column_of(names[f - 1])):
                columns.append(column_of(name))
            of_feature.append(len(columns) - 1)
    found = {frozenset(_number(columns, given) for given in group) for group in config.interaction_constraints}
    single = {frozenset([c]) for c in set(range(len(columns))).difference(*found)}
    groups = sorted(sorted(group) for group in (found | single) - {frozenset()})
    if [*range(len(columns))] in groups:
        return None
    of_column = np.array([[c in group for group in groups] for c in range(len(columns))])
    kinds, kind = np.unique(of_column, axis=0, return_inverse=True)
    return Interactions(kind.reshape(-1)[of_feature], kinds)


def _number(columns: Sequence[str], given: int | str) -> int:
    """Return the number of a column, given by number or name. Raises ConfigError."""
    if isinstance(given, int):
        if given >= len(columns):
            raise ConfigError(
                f"interaction_constraints: the columns of both parties are numbers 0 to {len(columns) - 1}, got {given}"
            )
        return given
    if given not in columns:
        raise ConfigError(f"interaction_constraints: no party has a column {given!r}")
    if columns.count(given) > 1:
        raise ConfigError(f"interaction_constraints: {given!r} names columns of several tables: give its number")
    return columns.index(given)
