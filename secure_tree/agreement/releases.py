"""What both parties say before a release of statistics, and the lines of their ledgers about earlier ones."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from mpc.errors import ConfigError, DataError, PeerFailure
from mpc.host.ledger import START, Ledger
from mpc.party import Party
from secure_tree.agreement.messages import Count, Hexadecimal, Line, Message, Plain, Text, exchange, same_parameters
from secure_tree.public.config import Parameters, validated

Kind = Literal["explore", "monitor"]
_KINDS: dict[Kind, str] = {"explore": "an exploration", "monitor": "a monitoring"}
Refusal = Literal["", "class_rows", "bits", "rho", "cell_rows", "every"]


class Heads(Message):
    """The number of lines of this party's ledger, the hash of the last one, and the line itself."""

    lines: Count
    head: Hexadecimal
    last: Line | None


def heads(ledger: Ledger | None) -> dict[str, Any]:
    """Return the fields of `Heads`; without a ledger, those of an empty one."""
    if ledger is None:
        return {"lines": 0, "head": START, "last": None}
    return {"lines": len(ledger.lines), "head": ledger.head, "last": ledger.last}


class ReleaseFacts(Heads):
    """A party's part of the public facts of a release; `token` is random."""

    parameters: dict[Text, Plain]
    seconds: Count
    token: Hexadecimal
    ledger: bool

    @classmethod
    def before(cls, party: Party, config: Parameters, ledger: Ledger | None, **more: Any) -> Self:
        """Build this party's own message. Raises DataError."""
        return cls.of(
            parameters=plain(config),
            seconds=int(time.time()),
            token=party.draw(16).hex(),
            ledger=ledger is not None,
            **heads(ledger),
            **more,
        )


F = TypeVar("F", bound=ReleaseFacts)


def exchange_facts(party: Party, tag: str, mine: F, ledger: Ledger | None) -> F:
    """Return the other party's facts, with equal parameters and an equal ledger. Raises ConfigError, DataError."""
    theirs = exchange(party, tag, mine)
    same_parameters(mine.parameters, theirs.parameters)
    if mine.ledger != theirs.ledger:
        raise ConfigError("both parties must keep a ledger, or neither: one of them has none")
    if ledger:
        ledger.agree(theirs.lines, theirs.head, theirs.last)
    return theirs


def plain(config: Parameters) -> dict[str, Any]:
    """Return parameters as plain values: those of a section by dotted names, and pairs of numbers as texts."""
    found: dict[str, Any] = {}
    for name, value in config.model_dump().items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": each for inner, each in value.items()}
        elif isinstance(value, tuple):
            found[name] = [str(each) for each in value]
        else:
            found[name] = value
    return found


class Consent(Message):
    """Why a party refuses a release, if it does."""

    refusal: Refusal


def consent(party: Party, tag: str, mine: Refusal, told: Mapping[str, str], what: str) -> None:
    """Let both parties consent, or say why not: `told` has a sentence for each refusal of a release called `what`.

    Raises DataError at a party that refuses, and PeerFailure at the other.
    """
    theirs = exchange(party, tag, Consent.of(refusal=mine)).refusal
    if mine:
        raise DataError(f"this party refuses the {what}: {told[mine]}")
    if theirs:
        raise PeerFailure(f"the other party refuses the {what}: {told.get(theirs, theirs)}")


class Release(BaseModel):
    """What counts of a line of the ledger about a release; `number` is that of the line."""

    model_config = ConfigDict(strict=True)

    number: Count
    label: str
    bits: Count
    rho: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    time: Annotated[str, Field(max_length=40)] = ""

    @property
    def seconds(self) -> float:
        """When it was, since the epoch. Raises DataError."""
        try:
            return datetime.fromisoformat(self.time).timestamp()
        except ValueError:
            raise DataError(f"a line of the ledger must have a time, got {self.time!r:.60}") from None


def releases(ledger: Ledger, *kinds: Kind) -> list[Release]:
    """Return the earlier releases. Raises DataError, since a line may be the other party's."""
    found, names = [], Release.model_fields
    for entry in ledger.entries:
        if (kind := entry.get("kind")) in kinds:
            try:
                found.append(validated(Release, {name: entry[name] for name in names if name in entry}))
            except ConfigError as error:
                raise DataError(
                    f"{ledger.path}: a line of the ledger is no release of {_KINDS[kind]}: {error}"
                ) from None
    return found


def write_release(
    ledger: Ledger, kind: Kind, run: str, seconds: int, config: Parameters, bits: Mapping[Any, int], **more: Any
) -> int:
    """Write a line to disk, the same at both parties, and return its number. Raises DataError."""
    number = len(ledger.lines)
    entry: dict[str, Any] = {"kind": kind, "run": run, "time": datetime.fromtimestamp(seconds, UTC).isoformat()}
    entry |= {"what": dict(bits), "bits": sum(bits.values()), "options": plain(config), **more}
    ledger.append(ledger.next(entry), again=True)
    return number
