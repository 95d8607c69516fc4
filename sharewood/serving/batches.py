"""Predict in batches of a few sizes: rows are padded to a power of two, so that material is made in advance by size.

A batch has rows of one party, which gets the predictions, and their reasons if it asks for them; by columns, it has
rows of both, and the requester gets them. Or it has rows of clients who are no party, of which each party has a half.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mpc.authenticated.reveal import require_macs
from mpc.endpoint import Peer
from mpc.matrix.fixed_operand import FixedOperand
from mpc.party import Party
from mpc.planning import Demand, Rehearsal, planned
from mpc.shares import AShare
from protocols.offline.lots import Lot, Pool
from protocols.offline.sizes import request_bytes
from protocols.offline.supply import Supply
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.answering import Begun, offer_of, released_margins
from secure_tree.prediction.authenticated import AuthenticatedModel, input_model
from secure_tree.prediction.predict import fix_features
from secure_tree.prediction.reasons import Contributions, Learned, Request, Table, make_table, revealed_reasons, told
from secure_tree.prediction.revealing import check_macs, revealed_margins
from secure_tree.public.config import Method
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE

T = TypeVar("T")
# Maximum number of waiting lots of one size.
_MOST_ALIKE = 16
# Maximum number of rows in a batch with reasons.
MOST_EXPLAINED = 256
# The owner of batches whose rows are of clients who are no party.
CLIENTS = 2


@dataclass(frozen=True)
class BatchShape:
    """The requesting party, or CLIENTS, the padded number of rows, and whether it asks for their reasons."""

    owner: int
    rows: int
    reasons: bool = False


@dataclass(frozen=True)
class Answers:
    """Margins, float64[rows] or [rows, classes], and the reasons of each row, of its most probable class."""

    margins: np.ndarray
    reasons: list[Any]


def padded(rows: int) -> int:
    """Return the smallest power of two that is at least `rows`."""
    return 1 << (rows - 1).bit_length()


class Batches:
    """Batches of one model at one party. `owners` are those who may request; `largest` is a power of two.

    Before its first batch, each session makes the table of reasons, if there is a `request` for them; with `mac`, it
    takes in the model, and with CLIENTS, it fixes the model's features.
    """

    def __init__(
        self,
        model: SharedModel,
        method: Method,
        owners: Sequence[int],
        largest: int,
        mac: bool = False,
        request: Request | None = None,
    ) -> None:
        self.model, self._method, self.mac, self.request = model, method, mac, request
        self._taken: AuthenticatedModel | FixedOperand | None = None
        self._table: Table | None = None
        self._takes = mac or CLIENTS in owners
        self.width = len(model.facts.names[model.facts.layout.features_of(model.rank)])
        self.words = offer_of(model).width
        self.explains = min(largest, MOST_EXPLAINED) if request else 0
        shapes = [BatchShape(owner, 1 << k) for k in range(largest.bit_length()) for owner in owners]
        explained = [replace(one, reasons=True) for one in shapes if one.owner != CLIENTS and one.rows <= self.explains]
        self._shapes = sorted([*shapes, *explained], key=lambda one: one.rows)
        self._demands: dict[tuple[BatchShape, bool], Demand] = {}
        self._rehearsed: dict[bool, tuple[Rehearsal, AuthenticatedModel | FixedOperand | None, Table | None]] = {}

    def demand(self, shape: BatchShape, masks: bool) -> Demand:
        """Find what a batch takes by one rehearsal; `masks` is that of `Randomness.has_dealer`."""
        if (shape, masks) not in self._demands:
            if masks not in self._rehearsed:
                begun = Rehearsal.at(self.model.rank, masks)
                taken = self.take_in(begun.party) if self._takes else None
                self._rehearsed[masks] = begun, taken, self.make_table(begun.party) if self.request else None
            begun, taken, table = self._rehearsed[masks]
            rehearsal = Rehearsal(begun.party)
            has = self.model.facts.layout.vertical or shape.owner == self.model.rank
            features = np.zeros((shape.rows if has else 0, self.width), np.float32)
            if shape.owner == CLIENTS:
                features = np.zeros((shape.rows, self.words), np.uint64)
            self.predict(rehearsal.party, shape, features, np.ones(shape.rows, np.int64), taken, table)
            self._demands[shape, masks] = rehearsal.cut()
        return self._demands[shape, masks]

    def begin(self, party: Party) -> None:
        """Prepare a session before its first batch. Raises MacFailure."""
        if self.mac:
            check_macs(party, self._method)
        if self._takes:
            self._taken = planned(party, "take_in", self.take_in)
        if self.request:
            self._table = planned(party, "reasons_table", self.make_table)

    def make_table(self, party: Party) -> Table:
        """Make the table of reasons, which serves all batches of a session."""
        assert self.request is not None, "the caller has asked"
        return party.run(make_table(party, self.model, self.request))

    def take_in(self, party: Party) -> AuthenticatedModel | FixedOperand:
        """Take in this party's half of the model, under new keys or masks. Raises MacFailure."""
        if not self.mac:
            return party.run(fix_features(party, self.model.ensemble))
        authentic = party.run(input_model(party, self.model.ensemble, self.model.facts.layout))
        require_macs(party, authentic.keyring)
        return authentic

    def layout(self, shape: BatchShape) -> Layout:
        """Return the model's layout with the rows of a batch."""
        known = self.model.facts.layout
        rows = [shape.rows if known.vertical or p == shape.owner else 0 for p in (0, 1)]
        return replace(known, rows=(rows[0], rows[1]))

    def ahead(self, room: int, masks: bool) -> list[BatchShape]:
        """Return the shapes whose material is kept ready in `room` bytes: one of each, smallest first, and then
        repeatedly as many as fit.
        """
        chosen: list[BatchShape] = []
        for _ in range(_MOST_ALIKE):
            for shape in self._shapes:
                held = sum(request_bytes(request).held for request in self.demand(shape, masks).requests)
                if held > room:
                    continue
                chosen.append(shape)
                room -= held
        return chosen

    def run(self, lot: Lot, link: Peer, shape: BatchShape, features: np.ndarray, shown: np.ndarray) -> Answers | None:
        """Return the batch's answers at its owner; a margin is 0, and there are no reasons, where `shown`, int64[rows],
        is 0.

        `features` are those of this party's rows, padded. Raises PeerFailure, MacFailure.
        """
        party = self._begun(lot, link)
        found = self.predict(party, shape, features, shown, self._taken, self._table)
        own, several = found.margins, self.model.config.num_class
        if shape.owner != party.rank or own is None:
            return None
        margins = (own.T if several else own[0]) * (self.model.facts.margin_unit / (1 << MARGIN_SCALE))
        if not shape.reasons:
            return Answers(margins, [])
        assert self.request is not None and self._table is not None, "the session has made the table"
        reasons: Any = told(link.peer, self.model, self.request, self._table, found)
        if isinstance(reasons, Contributions):
            reasons = reasons.strongest(self.request.top, self.request.toward)
        if several:
            reasons = [of_row[k] for of_row, k in zip(reasons, margins.argmax(axis=1).tolist(), strict=True)]
        return Answers(margins, reasons)

    def release(self, lot: Lot, link: Peer, keys: np.ndarray) -> np.ndarray:
        """Return this party's half of the margins of clients' rows, uint64[classes, rows], for its half of their
        keys, padded. Raises PeerFailure.
        """
        return self._released(self._begun(lot, link), keys, self._taken)

    def _begun(self, lot: Lot, link: Peer) -> Party:
        lot.begin()
        return Party(self.model.rank, link, lot, matrices=lot.first)

    def begin_halves(self, lot: Lot, link: Peer, shape: BatchShape, keys: np.ndarray) -> Begun:
        """Begin a batch of this party's half of clients' keys, padded, whose first message goes with a turn."""
        assert isinstance(self._taken, FixedOperand), "the session has fixed the model's features"
        party = self._begun(lot, link)
        return Begun(party, self.model, self._taken, AShare(keys, party.rank))

    def predict(
        self,
        party: Party,
        shape: BatchShape,
        features: np.ndarray,
        shown: np.ndarray,
        taken: AuthenticatedModel | FixedOperand | None,
        table: Table | None = None,
    ) -> Learned:
        """Return what a batch reveals to its owner; nothing for clients, for whom it releases a half."""
        nothing = np.zeros((0, 0, 0), np.int64), np.zeros(0, np.int64)
        if shape.owner == CLIENTS:
            self._released(party, features, taken)
            return Learned(*nothing)
        layout, authentic = self.layout(shape), taken if isinstance(taken, AuthenticatedModel) else None
        if shape.reasons:
            assert self.request is not None and table is not None, "only then there are such shapes"
            asked = self._method, table, self.request
            return revealed_reasons(party, self.model, layout, features, *asked, shown=shown, predicted=True)
        margins = revealed_margins(party, self.model, layout, features, self._method, shape.owner, authentic, shown)
        return Learned(*nothing, margins)

    def _released(self, party: Party, keys: np.ndarray, taken: AuthenticatedModel | FixedOperand | None) -> np.ndarray:
        assert isinstance(taken, FixedOperand), "the session has fixed the model's features"
        return released_margins(party, self.model, taken, AShare(keys, party.rank))


class Ready:
    """The material of one session: lots that are ready by shape, and lots made on demand for other shapes.

    Waits until the first lots are ready. The session has `kept` matrices for all batches. Raises PeerFailure.
    """

    def __init__(self, batches: Batches, supply: Supply, room: int, kept: int = 0) -> None:
        self._batches, self._stock = batches, Pool(supply, kept)
        self._lots: dict[BatchShape, deque[Lot]] = {}
        for shape in batches.ahead(room, supply.has_dealer):
            self._lots.setdefault(shape, deque()).append(self._made(shape))
        self._stock.settle()

    @property
    def held(self) -> int:
        """Return the bytes of material that is ready or being made."""
        return self._stock.held

    def use(self, shape: BatchShape, work: Callable[[Lot], T]) -> T:
        """Do a batch's `work` with a lot, and have an equal lot made."""
        lot = self.take(shape)
        result = work(lot or self._made(shape))
        if lot:
            self.renew(shape)
        return result

    def take(self, shape: BatchShape) -> Lot | None:
        """Take a lot that is ready, if there is one, to be replaced by `renew`."""
        kept = self._lots.get(shape)
        return kept.popleft() if kept else None

    def renew(self, shape: BatchShape) -> None:
        """Have a lot made in place of one that was taken."""
        self._lots[shape].append(self._made(shape))

    def _made(self, shape: BatchShape) -> Lot:
        demand = self._batches.demand(shape, self._stock.supply.has_dealer)
        return self._stock.lot(demand.requests, demand.matrices)
