"""Types of the columns of a party's table: specified by a schema file, or inferred.

A schema file is TOML with one line per column of the table; features have its order:

    id = "id"
    age = { type = "numeric", missing = true, cuts = [18, 25, 40] }
    colour = { type = "categorical", categories = ["red", "green", "blue"] }

Without one, the column `id` is the id, the configuration names label and weight, and all others are numeric features.
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from mpc.errors import ConfigError, DataError
from secure_tree.agreement.messages import is_printable
from secure_tree.public.config import validated
from secure_tree.public.names import indicator
from sharewood.tables.toml import read_toml

ColumnRole = Literal["numeric", "categorical", "id", "label", "weight", "ignore"]
_ROLES = get_args(ColumnRole)
ID = "id"
# Types that at most one column of a table has.
_UNIQUE: tuple[ColumnRole, ...] = ("id", "label", "weight")


class Column(BaseModel):
    """One column; `categories` are public, and `missing` declares that a feature may have missing values.

    cuts: joint edges of a numeric feature, which are not searched for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: ColumnRole
    missing: bool = False
    categories: tuple[str, ...] = ()
    cuts: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Column:
        if self.type == "categorical" and not self.categories:
            raise ValueError(
                'a categorical column must list its categories, as in { type = "categorical", categories = ["a", "b"] }'
                ": sharewood schema TABLE proposes them"
            )
        if self.categories and self.type != "categorical":
            raise ValueError(f'categories are those of a column of type "categorical", got type "{self.type}"')
        if unprintable := next((each for each in self.categories if not is_printable(each)), None):
            raise ValueError(f"categories must have no control characters, got {unprintable!r}")
        if len(set(self.categories)) < len(self.categories):
            raise ValueError("categories must differ from each other, got a duplicate")
        if self.cuts and self.type != "numeric":
            raise ValueError(f'cuts are those of a column of type "numeric", got type "{self.type}"')
        if self.missing and not self.feature:
            raise ValueError(f"missing must be false for a column of type {self.type}, got true")
        return self

    @property
    def feature(self) -> bool:
        return self.type in ("numeric", "categorical")


def listed(names: Collection[str]) -> str:
    """Return "column 'a'", or "columns 'a', 'b' and 'c'"."""
    *first, last = map(repr, names)
    return f"columns {', '.join(first)} and {last}" if first else f"column {last}"


@dataclass(frozen=True)
class Columns:
    """Columns by name; if no schema file is their `source`, any other column is a numeric feature."""

    known: dict[str, Column]
    source: str | None = None
    keys: tuple[str, ...] = ()
    """Columns that tables are joined on, in place of the id."""

    @property
    def complete(self) -> bool:
        """Return whether other columns are unknown."""
        return self.source is not None

    @classmethod
    def inferred(cls, label: str | None = None, weight: str | None = None) -> Columns:
        """Return the columns that are known without a schema file."""
        known = {ID: Column(type="id")}
        for name, role in ((label, Column(type="label")), (weight, Column(type="weight"))):
            if name is not None:
                known[name] = role
        return cls(known)

    @classmethod
    def read(cls, path: Path) -> Columns:
        """Read a schema file. Raises ConfigError that names file and column."""
        known = {}
        for name, entry in read_toml(path).items():
            kind = entry.get("type") if isinstance(entry, dict) else entry
            if kind not in _ROLES:
                dated = isinstance(kind, str) and any(word in kind.lower() for word in ("date", "time"))
                raise ConfigError(
                    f"{path}: column {name!r}: type must be {', '.join(_ROLES[:-1])} or {_ROLES[-1]}, "
                    f"got {reprlib.repr(kind)}" + ": ignore dates, or turn them into numbers of days" * dated
                )
            try:
                known[name] = validated(Column, entry if isinstance(entry, dict) else {"type": entry})
            except ConfigError as error:
                raise ConfigError(f"{path}: column {name!r}: {error}") from None
        for role in _UNIQUE:
            if len(twice := [name for name, column in known.items() if column.type == role]) > 1:
                raise ConfigError(f"{path}: columns {twice[0]!r} and {twice[1]!r} are both of type {role}")
        return cls(known, path.name)

    def ignoring(self, name: str) -> Columns:
        """Return the same columns, with one ignored unless it is declared."""
        return Columns({name: Column(type="ignore"), **self.known}, self.source)

    def named(self, role: ColumnRole) -> str | None:
        """Return the column with a role that at most one column has."""
        return next((name for name, column in self.known.items() if column.type == role), None)

    def role(self, name: str) -> Column:
        return self.known.get(name, Column(type="numeric"))

    def with_categories(self, categories: dict[str, list[str]]) -> Columns:
        """Return the same columns, with those that have categories made categorical."""
        found = {
            name: Column(type="categorical", missing=self.role(name).missing, categories=tuple(some))
            for name, some in categories.items()
            if some
        }
        return Columns({**self.known, **found}, self.source)

    def check_present(self, path: Path, present: Iterable[str], *roles: ColumnRole) -> None:
        """Raise DataError if the table `path` lacks a column of one of these roles."""
        names = list(present)
        lacking = {n: c.type for n, c in self.known.items() if c.type in roles and n not in names}
        if not lacking:
            return
        (name, role), *more = lacking.items()
        if not self.complete:
            raise DataError(f"{path}: there is no {role} column {name!r}; the columns are {', '.join(names)}")
        if more:
            raise DataError(f"{path} has no {listed(lacking)}, which {self.source} declares")
        declared = f"the {role}" if role in _UNIQUE else role
        raise DataError(f"{path} has no column {name!r}, which {self.source} declares as {declared}")

    def features(self, present: Iterable[str]) -> list[str]:
        """Return the features of a table with these columns, in order."""
        if self.complete:
            return [name for name, column in self.known.items() if column.feature]
        return [name for name in present if self.role(name).feature]

    @property
    def declared_features(self) -> tuple[str, ...]:
        """Return the feature names of the learner, with an indicator for each category."""
        names: list[str] = []
        for name in self.features(()):
            categories = self.known[name].categories
            names += [indicator(name, category) for category in categories] if categories else [name]
        return tuple(names)

    def with_cuts(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters of a training with the cuts of all columns, if there are any."""
        declared = {name: column.cuts for name, column in self.known.items() if column.cuts}
        return {**parameters, "cuts": {**(parameters.get("cuts") or {}), **declared}} if declared else dict(parameters)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the columns that may have missing values."""
        return tuple(name for name, column in self.known.items() if column.missing)
