"""Predict in batches of a few sizes: rows are padded to a power of two, so that material is made in advance by size.

A batch has rows of one party, which gets the predictions; by columns, it has rows of both, and the requester gets them.
Or it has rows of clients who are no party, of which each party has a half.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
from secure_tree.prediction.revealing import check_macs, revealed_margins
from secure_tree.public.config import Method
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE

# Maximum number of waiting lots of one size.
_MOST_ALIKE = 16
# The owner of batches whose rows are of clients who are no party.
CLIENTS = 2


@dataclass(frozen=True)
class BatchShape:
    """The requesting party, or CLIENTS, and the padded number of rows."""

    owner: int
    rows: int


def padded(rows: int) -> int:
    """Return the smallest power of two that is at least `rows`."""
    return 1 << (rows - 1).bit_length()


class Batches:
    """Batches of one model at one party. `owners` are those who may request; `largest` is a power of two.

    With `mac`, each session takes in the model before its first batch; with CLIENTS, it fixes the model's features.
    """

    def __init__(
        self, model: SharedModel, method: Method, owners: Sequence[int], largest: int, mac: bool = False
    ) -> None:
        self.model, self._method, self.mac = model, method, mac
        self._taken: AuthenticatedModel | FixedOperand | None = None
        self._takes = mac or CLIENTS in owners
        self.width = len(model.facts.names[model.facts.layout.features_of(model.rank)])
        self.words = offer_of(model).width
        self._shapes = [BatchShape(owner, 1 << k) for k in range(largest.bit_length()) for owner in owners]
        self._demands: dict[tuple[BatchShape, bool], Demand] = {}

    def demand(self, shape: BatchShape, masks: bool) -> Demand:
        """Find what a batch takes by one rehearsal; `masks` is that of `Randomness.has_dealer`."""
        if (shape, masks) not in self._demands:
            rehearsal = Rehearsal.at(self.model.rank, masks)
            taken = self.take_in(rehearsal.party) if self._takes else None
            rehearsal.cut()
            has = self.model.facts.layout.vertical or shape.owner == self.model.rank
            features = np.zeros((shape.rows if has else 0, self.width), np.float32)
            if shape.owner == CLIENTS:
                features = np.zeros((shape.rows, self.words), np.uint64)
            self.predict(rehearsal.party, shape, features, np.ones(shape.rows, np.int64), taken)
            self._demands[shape, masks] = rehearsal.cut()
        return self._demands[shape, masks]

    def begin(self, party: Party) -> None:
        """Prepare a session before its first batch. Raises MacFailure."""
        if self.mac:
            check_macs(party, self._method)
        if self._takes:
            self._taken = planned(party, "take_in", self.take_in)

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
                    break
                chosen.append(shape)
                room -= held
        return chosen

    def run(
        self, lot: Lot, link: Peer, shape: BatchShape, features: np.ndarray, shown: np.ndarray
    ) -> np.ndarray | None:
        """Return the batch's margins, float64[rows] or [rows, classes], at its owner; 0 where `shown`, int64[rows], is
        0. Of rows of clients, return this party's half, uint64[classes, rows].

        `features` are those of this party's rows, or its half of clients' keys, padded. Raises PeerFailure, MacFailure.
        """
        lot.begin()
        party = Party(self.model.rank, link, lot, matrices=lot.first)
        own = self.predict(party, shape, features, shown, self._taken)
        if shape.owner == CLIENTS:
            return own
        if shape.owner != party.rank:
            return None
        margin = own.T if self.model.config.num_class else own[0]
        return margin * (self.model.facts.margin_unit / (1 << MARGIN_SCALE))

    def begin_halves(self, lot: Lot, link: Peer, shape: BatchShape, keys: np.ndarray) -> Begun:
        """Begin a batch of this party's half of clients' keys, padded, whose first message goes with a turn."""
        assert isinstance(self._taken, FixedOperand), "the session has fixed the model's features"
        lot.begin()
        party = Party(self.model.rank, link, lot, matrices=lot.first)
        return Begun(party, self.model, self._taken, AShare(keys, party.rank))

    def predict(
        self,
        party: Party,
        shape: BatchShape,
        features: np.ndarray,
        shown: np.ndarray,
        taken: AuthenticatedModel | FixedOperand | None,
    ) -> np.ndarray:
        """Return the margins of a batch, int64[classes, rows] at MARGIN_SCALE, at its owner, or a half for clients."""
        if shape.owner == CLIENTS:
            assert isinstance(taken, FixedOperand), "the session has fixed the model's features"
            return released_margins(party, self.model, taken, AShare(features, party.rank))
        layout, authentic = self.layout(shape), taken if isinstance(taken, AuthenticatedModel) else None
        return revealed_margins(party, self.model, layout, features, self._method, shape.owner, authentic, shown)


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

    def use(self, shape: BatchShape, work: Callable[[Lot], np.ndarray | None]) -> np.ndarray | None:
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
