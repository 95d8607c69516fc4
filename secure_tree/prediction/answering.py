"""What both parties do for clients who are no party (client.py): they take halves of rows, and release halves of
margins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.party import Party
from mpc.planning import planned
from mpc.shares import AShare, concatenate
from secure_tree.agreement.messages import Hexadecimal, Message, Text, exchange
from secure_tree.agreement.models import MOST_ROWS, agree_on_prediction
from secure_tree.model.shared_model import SharedModel
from secure_tree.owners.lines import Line
from secure_tree.prediction.client import Offer, checked_half, is_id
from secure_tree.prediction.predict import fix_model, margins_of_shared
from secure_tree.prediction.routers import FixedModel
from secure_tree.public.config import Method
from secure_tree.public.numerics import MARGIN_SCALE

WHAT = "predictions of clients' rows"


class Asked(Message):
    """The ids and rows of all clients, by name."""

    clients: dict[Text, tuple[Hexadecimal, Annotated[int, Field(ge=1, le=MOST_ROWS)]]]


def check_for_clients(method: Method, mac: bool) -> None:
    """Raise ConfigError if clients cannot get predictions in this way."""
    if method != "thresholds":
        raise ConfigError(f'clients\' rows need method "thresholds", got "{method}": bins are cut by a party')
    if mac:
        raise ConfigError("mac must be false for clients' rows: MACs need a party that knows the row")


def check_without_offsets(model: SharedModel) -> None:
    """Raise ConfigError if the model needs offsets, for predictions that have none."""
    if model.facts.offsets:
        raise ConfigError(
            "the model was trained with base_margin, which only predictions of parties' own rows can have"
        )


def offer_of(model: SharedModel, most: int = MOST_ROWS) -> Offer:
    """Return what a party says about its model to clients."""
    return Offer.made(model.config, model.facts, MARGIN_SCALE, most)


def answer(party: Party, model: SharedModel, lines: Mapping[str, Line]) -> dict[str, int]:
    """Predict the rows of each client, over a line to it; return the number of rows by name.

    Raises DataError, ProtocolDesync, which name the client.
    """
    own = model.facts.names[model.facts.layout.features_of(party.rank)]
    agree_on_prediction(party, model, own, 0, "thresholds")
    offer, given = offer_of(model), {}
    for name, line in sorted(lines.items()):
        line.send("client.offer", offer.facts())
        given[name] = _received(line, offer.width, name)
    counts = {name: len(half) for name, (_, half) in given.items()}
    mine = Asked.of(clients={name: (id, counts[name]) for name, (id, _) in given.items()})
    theirs = exchange(party, "prediction.clients", mine)
    for name in sorted(mine.clients.keys() | theirs.clients.keys()):
        if mine.clients.get(name) != theirs.clients.get(name):
            raise DataError(f"{name}: must send both parties halves of the same rows under one id, and has not")
    if not given:
        return counts
    rows = concatenate([AShare(half, party.rank) for _, half in given.values()])

    def fixed(party: Party) -> FixedModel:
        return party.run(fix_model(party, model.ensemble, len(rows), model.config.classes))

    halves = planned(
        party,
        "predict",
        lambda party: released_margins(party, model, fixed(party), rows),
        offline="predict_offline",
    )
    for name, part in zip(given, np.split(halves, np.cumsum(list(counts.values()))[:-1], axis=1), strict=True):
        lines[name].send("client.margins", np.ascontiguousarray(part))
    return counts


def released_margins(party: Party, model: SharedModel, fixed: FixedModel, rows: AShare) -> np.ndarray:
    """[keys] of clients' rows, [n, d + o] -> this party's half of their margins, uint64[classes, n]."""
    of_rows = party.run(margins_of_shared(party, model.ensemble, fixed, rows, model.config.classes))
    return party.release(of_rows, what=WHAT)


def _received(line: Line, width: int, name: str) -> tuple[str, np.ndarray]:
    """Receive the id and a half of a client's rows. Raises ProtocolDesync."""
    received: Any = line.receive("client.rows", 1 << 30)
    if not isinstance(received, dict) or received.keys() != {"id", "half"} or not is_id(received["id"]):
        raise ProtocolDesync(f"{name}: must send an id and a half of its rows")
    half = received["half"]
    rows = max(1, len(half)) if isinstance(half, np.ndarray) and half.ndim else 1
    return received["id"], checked_half(half, (rows, width), name)
