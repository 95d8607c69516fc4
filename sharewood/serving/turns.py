"""Messages of two services between batches: in a turn, each offers the rows that it wants predicted.

A service that has rows begins a turn, and the other one joins in. Both learn when a party has requests, their number of
rows, rounded up to a power of two, and by columns the ids of the rows. A turn has the first messages of its batch as
well. Of requests of clients who are no party, each service has a half: a turn says which ones wait, and both predict
those that wait at both, in the order of their ids. If few rows wait, a service guesses that the other one has the same,
and opens them in its turn: the pads of a wrong guess are dropped.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from mpc.comparison.ranks import MOST_RANKS
from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.party import Party
from protocols.transport.channel import Channel
from secure_tree.agreement.messages import Hexadecimal, Message, Text, checked, exchange
from secure_tree.agreement.models import agree_on_prediction
from secure_tree.model.shared_model import SharedModel
from sharewood.job.sections import Predict

_HELD = "service.held"
MOST_BATCH = 1 << 16
# The most requests of clients that may wait for their other half, and the most bytes of rows that a turn opens.
MOST_HALVES = 1 << 10
MOST_OPENED = 1 << 14
# The most bytes of a batch of own rows that go with a turn.
MOST_BEGUN = 1 << 19
Rows = Annotated[int, Field(ge=0, le=MOST_BATCH)]


class ServiceFacts(Message):
    """Settings that must be the same at both services: rows of the largest batch, bytes of material kept ready,
    whether clients send halves, and how many reasons a request may ask for.
    """

    largest_batch: Rows
    ahead: Annotated[int, Field(ge=0, lt=1 << 62)]
    halves: bool
    reasons: Annotated[int, Field(ge=0, le=MOST_RANKS)]


class Turn(Message):
    """Padded rows of this party's next batch (0: none), whether they are to be explained, by columns their ids; the
    opening of the batch, if it has begun; the rows of halves that wait, by request, and their opening; whether this is
    its last turn, and whether a record is due.
    """

    rows: Rows
    reasons: bool = False
    ids: Annotated[list[Text], Field(max_length=MOST_BATCH)]
    begun: Annotated[bytes, Field(max_length=MOST_BEGUN)] = b""
    halves: Annotated[dict[Hexadecimal, Rows], Field(max_length=MOST_HALVES)]
    opening: Annotated[bytes, Field(max_length=MOST_OPENED)] = b""
    leaves: bool
    closes: bool = False


class Held(Message):
    """The places of the requested ids for which this party has no row."""

    unknown: Annotated[list[Rows], Field(max_length=MOST_BATCH)]


def agree_on_service(party: Party, model: SharedModel, predict: Predict, to: int | None, mine: ServiceFacts) -> None:
    """Check that both halves of the model and both configurations fit. Raises ConfigError, DataError, PeerFailure."""
    names = model.facts.names[model.facts.layout.features_of(party.rank)]
    agree_on_prediction(party, model, names, 0, predict.method, to, predict.mac)
    theirs = exchange(party, "service.facts", mine).model_dump()
    for name, value in mine:
        if theirs[name] != value:
            key = f"{'predict' if name == 'reasons' else 'serve'}.{name}"
            raise ConfigError(f"the parties disagree on {key}: {value} here, {theirs[name]} at the other")


def take_turn(
    party: Party, mine: Turn, largest: int, owners: Sequence[int], by_id: bool, explained: int = 0
) -> tuple[Turn, Turn]:
    """Exchange the turns of party 0 and party 1. Raises ProtocolDesync if one does not fit the agreed settings.

    explained: rows of the largest batch with reasons.
    """
    theirs = exchange(party, "service.turn", mine)
    allowed = (explained if theirs.reasons else largest) if 1 - party.rank in owners else 0
    if theirs.rows > allowed or theirs.rows & (theirs.rows - 1):
        raise ProtocolDesync(f"the other party must offer at most {allowed} rows, a power of two, got {theirs.rows}")
    if theirs.begun and not theirs.rows:
        raise ProtocolDesync("the other party must offer the rows of a batch that it has begun")
    if theirs.rows and by_id and not theirs.rows // 2 < len(theirs.ids) <= theirs.rows:
        raise ProtocolDesync(
            f"the other party must offer an id per row, got {theirs.rows} rows and {len(theirs.ids)} ids"
        )
    return (mine, theirs) if party.rank == 0 else (theirs, mine)


def paired(turns: tuple[Turn, Turn], largest: int) -> tuple[list[str], list[str]]:
    """Return the requests of which both services have a half: those of the next batch, and those with unequal rows."""
    batch, unequal, room = [], [], largest
    for id, rows in sorted(turns[0].halves.items()):
        other = turns[1].halves.get(id)
        if other is not None and other != rows:
            unequal.append(id)
        elif other is not None and rows <= room:
            batch.append(id)
            room -= rows
    return batch, unequal


def ask_for(link: Channel, count: int) -> list[int]:
    """Receive the places of those of `count` ids for which the other party has no row. Raises ProtocolDesync."""
    received = link.receive(_HELD)
    if not isinstance(received, dict):
        raise ProtocolDesync(f"{_HELD}: the other party's message must have named parts")
    unknown = checked(Held, received, _HELD).unknown
    if unknown != sorted(set(unknown)) or (unknown and unknown[-1] >= count):
        raise ProtocolDesync("the other party must send the positions of ids in ascending order")
    return unknown


def look_up(link: Channel, ids: Sequence[str], places: dict[str, int]) -> np.ndarray:
    """Tell the other party which ids have no row here; return the row of each id, int64[ids], -1 if there is none."""
    rows = np.array([places.get(one, -1) for one in ids], np.int64)
    link.send(_HELD, Held.of(unknown=np.flatnonzero(rows < 0).tolist()).model_dump())
    return rows


def index_of(ids: Sequence[str], source: str) -> dict[str, int]:
    """Map ids to rows of a table. Raises DataError if one appears twice."""
    places = {one: row for row, one in enumerate(ids)}
    if len(places) < len(ids):
        twice = next(one for row, one in enumerate(ids) if places[one] != row)
        raise DataError(f"{source}: id {reprlib.repr(twice)} appears twice")
    return places
