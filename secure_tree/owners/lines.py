"""What owners and parties say to each other, whatever is contributed: terms, halves, receipts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from mpc.errors import ConfigError
from secure_tree.agreement.messages import VERSION, Message, Names, Plain, Text, checked

# The bits of one contribution; a party holds them one per byte for a moment.
MOST_BITS = 1 << 31
# A message with halves has as many bytes as its facts say, and these.
FEW_BYTES = 1 << 12


class Line(Protocol):
    """A channel between an owner and a party."""

    timeout: float | None

    @property
    def peer(self) -> str: ...

    @property
    def wire_sent(self) -> int: ...

    def send(self, tag: str, tree: Any) -> None: ...

    def receive(self, tag: str, limit: int | None = None) -> Any: ...

    def end(self, reason: str) -> None: ...


class OwnerTerms(Message):
    """What a party tells an owner: the parameters, and the features that it must have.

    For a training by columns there are none: the owner has features of its own.
    """

    version: int
    config: dict[Text, Plain]
    purpose: Literal["training", "prediction"]
    names: Names
    categories: dict[Text, Annotated[list[Text], Field(max_length=10_000)]]


def received(schema: Any, line: Line, tag: str) -> Any:
    """Receive a message of the schema, of this version. Raises ConfigError, ProtocolDesync."""
    message = line.receive(tag)
    version = message.get("version") if isinstance(message, dict) else None
    if type(version) is int and version != VERSION:
        raise ConfigError(f"{line.peer} runs version {version} of Sharewood's messages, this one {VERSION}")
    return checked(schema, message, f"{tag} of {line.peer}")


def send_halves(lines: Sequence[Line], tag: str, halves: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Send each party its half."""
    for line, part in zip(lines, halves, strict=True):
        line.send(tag, part)


def digest_of_half(part: dict[str, Any]) -> str:
    """Return the digest of a half, for a receipt."""
    (content,) = part.values()
    return hashlib.sha256(content if isinstance(content, bytes) else content.tobytes()).hexdigest()
