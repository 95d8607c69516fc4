"""Public messages between the parties. Every message has a schema, and the other party's message is checked against it.

A message that does not fit its schema raises a one-sentence error before anything is computed from it.
"""

from __future__ import annotations

import reprlib
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.party import Party
from secure_tree.public.config import Direction

# Version of the messages and of the protocols. Increase it when either changes.
VERSION = 27
# Zero-width non-joiner and joiner.
_JOINERS = "\u200c\u200d"


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("a name appears twice")
    return names


def is_printable(text: str) -> bool:
    """Return whether a name can be shown anywhere: no control characters, line ends or marks that reorder the text.

    Besides what `str.isprintable` accepts, these are spaces of any width, and the two joiners that Persian, Indic
    scripts and emoji need.
    """
    return all(c.isprintable() or c in _JOINERS or unicodedata.category(c) == "Zs" for c in text)


def _printable(text: str) -> str:
    if not is_printable(text):
        raise ValueError(f"a name must have no control characters, got {text[:50]!a}")
    return text


Text = Annotated[str, Field(max_length=10_000), AfterValidator(_printable)]
# A line of a ledger.
Line = Annotated[str, Field(max_length=1 << 24), AfterValidator(_printable)]
Names = Annotated[list[Text], AfterValidator(_distinct)]
Hexadecimal = Annotated[str, Field(pattern="^[0-9a-f]{32,64}$")]
Count = Annotated[int, Field(ge=0, lt=1 << 31)]
# Names, which are a list in a file.
Named = Annotated[tuple[Text, ...], BeforeValidator(lambda names: tuple(names) if isinstance(names, list) else names)]
# The value of a parameter.
Plain = (
    bool
    | Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
    | float
    | Text
    | list[Text]
    | tuple[Text, ...]
    | list[Direction]
    | tuple[Direction, ...]
    | dict[Text, Direction]
    | dict[Text, list[float]]
    | dict[Text, tuple[float, ...]]
    | list[list[Count | Text]]
    | tuple[tuple[Count | Text, ...], ...]
    | None
)
Rank = Annotated[int, Field(ge=0, le=1)]
# Base-2 exponent of a public magnitude: within float64, and far beyond the range of the arithmetic.
Power = Annotated[int, Field(ge=-1000, le=1000)]


class Message(BaseModel):
    """Base of all messages. Types are checked strictly: no value is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def of(cls, **parts: Any) -> Self:
        """Build this party's own message. Raises DataError."""
        try:
            return cls.model_validate(parts)
        except ValidationError as error:
            raise DataError(_sentence(error)) from None


class Consenting(Message):
    """What an owner who is no party consents to, as in `OwnerFacts`."""

    least_owners: Annotated[int, Field(ge=1, lt=1 << 31)] = 1
    until: Annotated[Text, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    reveal_to: Named = ()
    explore: bool = True


M = TypeVar("M", bound=Message)


def exchange(party: Party, tag: str, mine: M) -> M:
    """Send `mine` to the other party and return its message.

    Raises ConfigError if the other party runs another version, ProtocolDesync if its message does not fit the schema of
    `mine`.
    """
    received = party.exchange_public(tag, {"version": VERSION, **mine.model_dump()})
    if not isinstance(received, dict):
        raise ProtocolDesync(f"{tag}: the other party's message must have named parts")
    version = received.pop("version", None)
    if type(version) is not int or version != VERSION:
        other = version if type(version) is int and 0 <= version < 1 << 31 else "unknown"
        raise ConfigError(
            f"the other party runs version {other} of Sharewood's messages, this one {VERSION}: install one release "
            "at both"
        )
    return checked(type(mine), received, tag)


def same_parameters(mine: Mapping[str, Plain], theirs: Mapping[str, Plain]) -> None:
    """Raise ConfigError unless the parameters of both parties are equal."""
    for name in {**mine, **theirs}:
        here, there = mine.get(name), theirs.get(name)
        if here != there:
            raise ConfigError(f"the parties disagree on {name}: {here} here, {reprlib.repr(there)} at the other")


def checked(schema: type[M], received: dict[str, Any], tag: str) -> M:
    """Validate what the other party sent. Raises ProtocolDesync."""
    try:
        return schema.model_validate(received)
    except ValidationError as error:
        raise ProtocolDesync(f"{tag}: the other party's message is not valid: {_sentence(error)}") from None


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "message"
    return f"{where:.100}: {first['msg'].removeprefix('Value error, '):.200}"
