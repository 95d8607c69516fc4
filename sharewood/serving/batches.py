"""Predict in batches of a few sizes: rows are padded to a power of two, so that material is made in advance by size.

A batch has rows of one party, which gets the predictions, and their reasons if it asks for them; by columns, it has
rows of both, and the requester gets them. Or it has rows of clients who are no party, of which each party has a half.

What routes rows at the model's nodes, and secret paths, are fixed once a session. A party that knows a row, or a part
of it, or has a half of it, then needs nothing of the other party's for its first messages: they go with its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mpc.authenticated.reveal import require_macs
from mpc.endpoint import Peer
from mpc.party import Party
from mpc.planning import Demand, Rehearsal, planned
from mpc.rounds import Begun, Steps, replying
from mpc.shares import AShare
from protocols.offline.lots import Lot, Pool
from protocols.offline.sizes import request_bytes
from protocols.offline.supply import Supply
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.answering import WHAT, offer_of
from secure_tree.prediction.authenticated import AuthenticatedModel, input_model
from secure_tree.prediction.predict import fix_model, margins_of_own, margins_of_shared
from secure_tree.prediction.reasons.explaining import (
    Contributions,
    Explained,
    Explanation,
    Learned,
    explained_own,
    revealed_reasons,
    told,
)
from secure_tree.prediction.reasons.request import Request
from secure_tree.prediction.reasons.table import make_table
from secure_tree.prediction.revealing import check_macs, revealed_margins, revealed_to_owner
from secure_tree.prediction.routers import FixedModel, own_rows
from secure_tree.public.config import Method
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE

T = TypeVar("T")
# Maximum number of waiting lots of one size.
_MOST_ALIKE = 16
# Maximum number of rows in a batch with reasons.
MOST_EXPLAINED = 256
_NO_REASONS = np.zeros((0, 0, 0), np.int64), np.zeros(0, np.int64)
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


@dataclass(frozen=True)
class Prepared:
    """What a session has made before its first batch: the model with MACs, or fixed; and the table of reasons."""

    taken: AuthenticatedModel | FixedModel | None = None
    explanation: Explanation | None = None


@dataclass(frozen=True)
class Opened:
    """A batch that this party has begun, whose `opening` goes with its turn."""

    shape: BatchShape
    party: Party
    steps: Begun[AShare | Explained]

    @property
    def opening(self) -> bytes:
        return self.steps.opening


class Batches:
    """Batches of one model at one party. `owners` are those who may request; `largest` is a power of two.

    Before its first batch, each session makes the table of reasons, if there is a `request` for them; with `mac`, it
    takes in the model; otherwise, it fixes the model if its batches open. `round_price` is that of the
    session's party.
    """

    def __init__(
        self,
        model: SharedModel,
        method: Method,
        owners: Sequence[int],
        largest: int,
        mac: bool = False,
        request: Request | None = None,
        round_price: int = 0,
    ) -> None:
        self.model, self._method, self.mac, self.request = model, method, mac, request
        self._price = round_price
        self._prepared = Prepared()
        self._own_rows = not mac
        self._largest = largest
        self._takes = mac or self._own_rows or CLIENTS in owners
        self.width = len(model.facts.names[model.facts.layout.features_of(model.rank)])
        self.words = offer_of(model).width
        self.explains = min(largest, MOST_EXPLAINED) if request else 0
        shapes = [BatchShape(owner, 1 << k) for k in range(largest.bit_length()) for owner in owners]
        explained = [replace(one, reasons=True) for one in shapes if one.owner != CLIENTS and one.rows <= self.explains]
        self._shapes = sorted([*shapes, *explained], key=lambda one: one.rows)
        self._demands: dict[tuple[BatchShape, bool], Demand] = {}
        self._rehearsed: dict[bool, tuple[Rehearsal, Prepared]] = {}

    def demand(self, shape: BatchShape, masks: bool) -> Demand:
        """Find what a batch takes by one rehearsal; `masks` is that of `Randomness.has_dealer`."""
        if (shape, masks) not in self._demands:
            if masks not in self._rehearsed:
                begun = Rehearsal.at(self.model.rank, masks, self._price)
                self._rehearsed[masks] = begun, self.prepare(begun.party)
            begun, prepared = self._rehearsed[masks]
            rehearsal = Rehearsal(begun.party)
            has = self.model.facts.layout.vertical or shape.owner == self.model.rank
            features = np.zeros((shape.rows if has else 0, self.width), np.float32)
            if shape.owner == CLIENTS:
                features = np.zeros((shape.rows, self.words), np.uint64)
            self.predict(rehearsal.party, shape, features, np.ones(shape.rows, np.int64), prepared)
            self._demands[shape, masks] = demand = rehearsal.cut()
            # What needs this batch's matrices is made from its beginning on, and each party begins at another time.
            assert masks or not self.opens(shape) or not demand.matrices, "a batch that opens has no matrices"
        return self._demands[shape, masks]

    def begin(self, party: Party) -> None:
        """Prepare a session before its first batch. Raises MacFailure."""
        if self.mac:
            check_macs(party, self._method)
        taken = planned(party, "take_in", self.take_in) if self._takes else None
        explanation = planned(party, "reasons_table", self.explanation) if self.request else None
        self._prepared = Prepared(taken, explanation)

    def prepare(self, party: Party) -> Prepared:
        """Return what a session prepares."""
        taken = self.take_in(party) if self._takes else None
        return Prepared(taken, self.explanation(party) if self.request else None)

    def explanation(self, party: Party) -> Explanation:
        """Make the table of reasons, which serves all batches of a session."""
        assert self.request is not None, "the caller has asked"
        table = party.run(make_table(party, self.model, self.request))
        return Explanation(self.model, table, self.request, predicted=True)

    def take_in(self, party: Party) -> AuthenticatedModel | FixedModel:
        """Take in this party's half of the model, under new keys or masks. Raises MacFailure."""
        if not self.mac:
            bins_of = self.model.facts.layout if self._method == "bins" else None
            return party.run(fix_model(party, self.model.ensemble, self._largest, self.model.config.classes, bins_of))
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

    def opens(self, shape: BatchShape) -> bool:
        """Return whether a party may begin such a batch before the other one has answered its turn."""
        return shape.owner == CLIENTS or self._own_rows

    def opening_bytes(self, shape: BatchShape) -> int:
        """Return the bytes of the opening of a batch, or somewhat more."""
        nodes, layout = self.model.ensemble.null.size, self.model.facts.layout
        if shape.owner == CLIENTS:
            return 8 * shape.rows * self.words
        if self._method == "thresholds":
            return 8 * shape.rows * (self.words + nodes)
        blocks = layout.blocks if layout.vertical else [shape.owner]
        return shape.rows * (sum(layout.widths[p] * (layout.bins(p) + 1) for p in blocks) + nodes) // 8 + 16

    def open(self, lot: Lot, link: Peer, shape: BatchShape, rows: np.ndarray) -> Opened:
        """Begin a batch: `rows` are the features of this party's, padded, or its half of the keys of clients'."""
        party = self._begun(lot, link)
        return Opened(shape, party, Begun(self._steps(party, shape, rows, self._prepared)))

    def run(
        self,
        lot: Lot,
        link: Peer,
        shape: BatchShape,
        features: np.ndarray,
        shown: np.ndarray,
        opening: bytes = b"",
    ) -> Answers | None:
        """Return the batch's answers at its owner; a margin is 0, and there are no reasons, where `shown`, int64[rows],
        is 0.

        `features` are those of this party's rows, padded; `opening` is that of an owner that has begun the batch.
        Raises PeerFailure, MacFailure, ProtocolDesync.
        """
        party = self._begun(lot, link)
        if opening:
            found = party.run(replying(self._steps(party, shape, features, self._prepared), opening))
            return self._answers(party, shape, self._learned(party, shape, found, shown, self._prepared))
        return self._answers(party, shape, self.predict(party, shape, features, shown, self._prepared))

    def finish(self, opened: Opened, shown: np.ndarray) -> Answers | None:
        """Return the answers of a batch that this party has begun. Raises PeerFailure, ProtocolDesync."""
        party, shape = opened.party, opened.shape
        learned = self._learned(party, shape, party.run(opened.steps.rest()), shown, self._prepared)
        return self._answers(party, shape, learned)

    def _answers(self, party: Party, shape: BatchShape, found: Learned) -> Answers | None:
        own, several = found.margins, self.model.config.num_class
        if shape.owner != party.rank or own is None:
            return None
        margins = (own.T if several else own[0]) * (self.model.facts.margin_unit / (1 << MARGIN_SCALE))
        if not shape.reasons:
            return Answers(margins, [])
        explanation = self._prepared.explanation
        assert self.request is not None and explanation is not None, "the session has made the table"
        reasons: Any = told(party.link.peer, self.model, self.request, explanation.table, found)
        if isinstance(reasons, Contributions):
            reasons = reasons.strongest(self.request.top, self.request.toward)
        if several:
            reasons = [of_row[k] for of_row, k in zip(reasons, margins.argmax(axis=1).tolist(), strict=True)]
        return Answers(margins, reasons)

    def release(self, lot: Lot, link: Peer, keys: np.ndarray) -> np.ndarray:
        """Return this party's half of the margins of clients' rows, uint64[classes, rows], for its half of their
        keys, padded. Raises PeerFailure.
        """
        party = self._begun(lot, link)
        steps = self._steps(party, BatchShape(CLIENTS, len(keys)), keys, self._prepared)
        return self._released(party, party.run(steps))

    def finish_halves(self, opened: Opened, theirs: bytes) -> np.ndarray:
        """Return this party's half of the margins of clients' rows that both have begun. Raises ProtocolDesync."""
        return self._released(opened.party, opened.party.run(opened.steps.rest(theirs)))

    def _begun(self, lot: Lot, link: Peer) -> Party:
        lot.begin()
        return Party(self.model.rank, link, lot, round_price=self._price, matrices=lot.first)

    def _steps(
        self, party: Party, shape: BatchShape, rows: np.ndarray, prepared: Prepared
    ) -> Steps[AShare | Explained]:
        """Own features, or this party's half of clients' keys -> what to reveal, by the model that it has fixed."""
        taken, explanation = prepared.taken, prepared.explanation
        assert isinstance(taken, FixedModel), "the session has fixed the model"
        facts, classes = self.model.facts, self.model.config.classes
        if shape.owner == CLIENTS:
            half = AShare(rows, party.rank)
            return (yield from margins_of_shared(party, self.model.ensemble, taken, half, classes))
        own = own_rows(party, facts.layout, shape.owner, shape.rows, rows, self.model.cuts, self._method)
        owner = None if facts.layout.vertical else shape.owner
        if shape.reasons:
            assert explanation is not None, "only then there are such shapes"
            return (yield from explained_own(party, explanation, taken, own, owner))
        return (yield from margins_of_own(party, self.model.ensemble, taken, own, owner, classes))

    def predict(
        self,
        party: Party,
        shape: BatchShape,
        features: np.ndarray,
        shown: np.ndarray,
        prepared: Prepared,
    ) -> Learned:
        """Return what a batch reveals to its owner; nothing for clients, for whom it releases a half."""
        if self.opens(shape):
            found = party.run(self._steps(party, shape, features, prepared))
            return self._learned(party, shape, found, shown, prepared)
        layout, taken, explanation = self.layout(shape), prepared.taken, prepared.explanation
        authentic = taken if isinstance(taken, AuthenticatedModel) else None
        if shape.reasons:
            assert explanation is not None, "only then there are such shapes"
            return revealed_reasons(party, explanation, layout, features, self._method, shown)
        margins = revealed_margins(party, self.model, layout, features, self._method, shape.owner, authentic, shown)
        return Learned(*_NO_REASONS, margins)

    def _learned(
        self, party: Party, shape: BatchShape, found: AShare | Explained, shown: np.ndarray, prepared: Prepared
    ) -> Learned:
        """Reveal to the owner of the rows what was found, or release the halves of clients' margins."""
        if isinstance(found, Explained):
            explanation = prepared.explanation
            assert explanation is not None, "only then there are such shapes"
            return explanation.reveal(party, found, shape.owner, explanation.nothing, shown)
        if shape.owner == CLIENTS:
            self._released(party, found)
            return Learned(*_NO_REASONS)
        return Learned(*_NO_REASONS, revealed_to_owner(party, found, shape.owner, shown))

    def _released(self, party: Party, found: AShare | Explained) -> np.ndarray:
        assert isinstance(found, AShare), "clients get no reasons"
        return party.release(found, what=WHAT)


class Ready:
    """The material of one session: lots that are ready by shape, and lots made on demand for other shapes.

    Waits until the first lots are ready. The session has `kept` matrices for all batches. Raises PeerFailure.
    """

    def __init__(self, batches: Batches, supply: Supply, room: int, kept: int = 0) -> None:
        self._batches, self._stock = batches, Pool(supply, kept)
        # All lots that are being made count among those of `room`, so several may be on their way at once.
        supply.hold(room)
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

    def has(self, shape: BatchShape) -> bool:
        """Return whether a lot is ready."""
        return bool(self._lots.get(shape))

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
