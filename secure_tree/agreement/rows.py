"""Agreement on rows of owners who are no party: what both parties must have heard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from mpc.errors import DataError
from secure_tree.agreement.messages import Consenting, Count, Hexadecimal, Power, Text
from secure_tree.data.contributed import Contributed


class Contribution(Consenting):
    """The facts of an owner, as in OwnerFacts; `held`: how many of its rows are held out."""

    name: Text
    id: Hexadecimal
    rows: Count
    held: Count
    exponent: Power | None
    weight: Power | None


def contributions(contributed: Contributed) -> list[Contribution]:
    """Return the facts of all owners."""
    held = (len(rows) for rows in contributed.held)
    return [Contribution.of(**asdict(owner), held=n) for owner, n in zip(contributed.owners, held, strict=True)]


def same_contributions(mine: Sequence[Contribution], theirs: Sequence[Contribution]) -> None:
    """Raise DataError, which names an owner, unless both parties have the same contributions."""
    here, there = ({each.name: each for each in every} for every in (mine, theirs))
    for name in sorted(here.keys() | there.keys()):
        if name not in here or name not in there:
            raise DataError(f"{name}: only one party has its contribution")
        if here[name].rows != there[name].rows:
            raise DataError(
                f"{name}: it told this party {here[name].rows} rows and the other party {there[name].rows}: it is not "
                "used"
            )
        if here[name].id == there[name].id and here[name] != there[name]:
            raise DataError(f"{name}: it told the parties different terms: it is not used")
        if here[name] != there[name]:
            raise DataError(f"{name}: the parties have halves of two different contributions")
