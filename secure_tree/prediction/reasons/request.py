"""What both parties ask for: the features, or groups of them, whose contributions are given, and in which form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from mpc.comparison.ranks import MOST_RANKS
from mpc.errors import ConfigError, DataError
from secure_tree.agreement.models import ReasonFacts
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.reasons.path_values import DEEPEST
from secure_tree.public.names import column_of, columns_behind

Show: TypeAlias = Literal["names", "numbers"]
Toward: TypeAlias = Literal["higher", "lower"]
Groups: TypeAlias = Mapping[str, Sequence[str]]
# The name of all features that the receiver of vertical data does not have.
OTHERS = "data of the other party"


@dataclass(frozen=True)
class Request:
    """What both parties ask for.

    names: by which contributions are given. member: int64[d], the number of each feature's name. receiver: the party
    that learns them, None if each party learns those of its own rows.
    """

    names: tuple[str, ...]
    member: np.ndarray
    receiver: int | None
    top: int
    show: Show
    toward: Toward

    def facts(self, ready: bool = False) -> ReasonFacts:
        """Return what the parties compare; `ready`: whether this one has the table."""
        told = {"top": self.top, "show": self.show, "toward": self.toward, "ready": ready}
        return ReasonFacts.of(names=list(self.names), member=self.member.tolist(), **told)


def requested(
    model: SharedModel, receiver: int | None, top: int, groups: Groups, show: Show, toward: Toward
) -> Request:
    """Return a request for reasons. Indicators of one column have the name of the column.

    For vertical data, the features that the receiver does not have are one reason, unless they are in a group. Raises
    ConfigError or DataError if the model has no reasons, or cannot be asked in this way.
    """
    facts, names = model.facts, list(groups)
    if model.config.max_depth > DEEPEST:
        raise ConfigError(f"reasons need trees of depth {DEEPEST} at most, got {model.config.max_depth}")
    if model.ensemble.paths is not None:
        raise ConfigError(f"reasons need trees of depth {DEEPEST} at most, and the model has deeper ones")
    if model.ensemble.statistics is None:
        raise DataError("the model has no sums of hessians, which reasons need: train or share it again")
    if facts.owner_widths:
        raise ConfigError("reasons need a model without columns of owners who are no party")
    if show not in get_args(Show) or toward not in get_args(Toward):
        raise ConfigError(
            f'show must be "names" or "numbers", and toward "higher" or "lower", got {show!r} and {toward!r}'
        )
    columns = list(columns_behind(facts.names, []))
    grouped = [column for own in groups.values() for column in own]
    if wrong := [column for column in grouped if column not in columns or grouped.count(column) > 1]:
        raise ConfigError(f"groups: columns of the model must be in one group at most, got {wrong[0]!r}")
    if wrong := [name for name in groups if name in {OTHERS, *columns} - {*grouped}]:
        raise ConfigError(f"groups: a group must not have the name of a column outside of the groups, got {wrong[0]!r}")
    if wrong := [name for name, own in groups.items() if not own]:
        raise ConfigError(f"groups: a group must have a column, got none for {wrong[0]!r}")
    group_of = {column: name for name, own in groups.items() for column in own}
    own = range(len(facts.names))[facts.layout.features_of(receiver) if receiver is not None else slice(None)]
    said = [column_of(name) for name in facts.names]
    said = [group_of.get(name, name if f in own else OTHERS) for f, name in enumerate(said)]
    names += [name for name in dict.fromkeys(said) if name not in names]
    if not 1 <= top <= MOST_RANKS:
        raise ConfigError(f"top must be 1 .. {MOST_RANKS}, got {top}")
    return Request(tuple(names), np.array([names.index(name) for name in said]), receiver, top, show, toward)
