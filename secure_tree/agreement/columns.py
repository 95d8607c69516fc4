"""Agreement on columns of owners who are no party: what both parties must have heard, and who has the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from mpc.errors import DataError
from secure_tree.agreement.messages import Consenting, Hexadecimal, Names, Power
from secure_tree.public.context import OwnerColumns


class ColumnsFacts(Consenting):
    """The facts of an owner of columns, as `OwnerColumns`, but for its name."""

    id: Hexadecimal
    rows: Annotated[int, Field(ge=1, lt=1 << 31)]
    exponent: Power | None
    weight: Power | None
    names: Names
    labelled: bool
    ids: bool

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not (self.names or self.labelled):
            raise ValueError("an owner must have features or labels")
        if not self.labelled and not (self.exponent is None and self.weight is None):
            raise ValueError("weights need labels")
        return self

    @classmethod
    def told(cls, owner: OwnerColumns) -> dict[str, Any]:
        """Return an owner's facts as a message. Raises DataError."""
        facts = asdict(owner) | {"names": list(owner.names)}
        return cls.of(**{name: facts[name] for name in cls.model_fields}).model_dump()

    def of_owner(self, name: str) -> OwnerColumns:
        facts = {fact: getattr(self, fact) for fact in ColumnsFacts.model_fields}
        return OwnerColumns(name, **{**facts, "names": tuple(self.names)})


def same_columns(mine: Mapping[str, ColumnsFacts], theirs: Mapping[str, ColumnsFacts], rows: int) -> None:
    """Raise DataError, which names an owner, unless both parties have the same contributions, of their own rows."""
    for name in sorted(mine.keys() | theirs.keys()):
        if name not in mine or name not in theirs:
            raise DataError(f"{name}: only one party has its contribution")
        here, there = mine[name], theirs[name]
        if here.id != there.id:
            raise DataError(f"{name}: the parties have halves of two different contributions")
        if here != there:
            raise DataError(f"{name}: it told the parties different rows, features, labels or terms: it is not used")
        if here.rows != rows:
            raise DataError(
                f"{name} has {here.rows} rows, and the parties {rows}: by columns, everyone must have the same rows in "
                "the same order"
            )


def label_holder(parties: Sequence[bool], owners: Mapping[str, bool]) -> int:
    """Return who has the labels: a party, or 2 + k for owner k. Raises DataError unless exactly one has."""
    holders = [k for k, has in enumerate([*parties, *owners.values()]) if has]
    if len(holders) == 1:
        return holders[0]
    if not owners:
        raise DataError(f"y: {'both parties have' if holders else 'neither party has'} labels")
    if not holders:
        raise DataError("y: neither a party nor an owner has labels: exactly one must")
    who = [["party 0", "party 1", *owners][k] for k in holders]
    raise DataError(f"y: {', '.join(who[:-1])} and {who[-1]} have labels: exactly one party or owner must")
