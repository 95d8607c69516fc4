"""Predict in batches of a few sizes: rows are padded to a power of two, so that material is made in advance by size.

A batch has rows of one party, which gets the predictions; by columns, it has rows of both, and the requester gets them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpc.authenticated.reveal import require_macs, reveal
from mpc.endpoint import Peer
from mpc.offline.correlation import Correlation
from mpc.party import Party
from mpc.planning import Trace, planned
from mpc.rings import Z128
from mpc.words import U64
from protocols.offline.lots import Lot, Stock
from protocols.offline.sizes import request_bytes
from protocols.offline.supply import Supply
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.authenticated import AuthenticatedModel, authenticated_margins, input_model
from secure_tree.prediction.predict import margins, row_groups
from secure_tree.prediction.revealing import check_macs
from secure_tree.public.config import Method
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE

# Maximum number of waiting lots of one size.
_MOST_ALIKE = 16


@dataclass(frozen=True)
class Shape:
    """The requesting party, and the padded number of rows."""

    owner: int
    rows: int


@dataclass(frozen=True)
class Demand:
    """The randomness of a batch: requests, matrices, and their bytes at a party."""

    requests: Sequence[Correlation[object]]
    matrices: int
    held: int


def padded(rows: int) -> int:
    """Return the smallest power of two that is at least `rows`."""
    return 1 << (rows - 1).bit_length()


class Batches:
    """Batches of one model at one party. `owners` are the parties that may request; `largest` is a power of two.

    With `mac`, each session takes in the model before its first batch.
    """

    def __init__(
        self, model: SharedModel, method: Method, owners: Sequence[int], largest: int, mac: bool = False
    ) -> None:
        self.model, self._method, self.mac = model, method, mac
        self._authentic: AuthenticatedModel | None = None
        self.width = len(model.facts.names[model.facts.layout.features_of(model.rank)])
        self._shapes = [Shape(owner, 1 << k) for k in range(largest.bit_length()) for owner in owners]
        self._demands: dict[tuple[Shape, bool], Demand] = {}

    def demand(self, shape: Shape, masks: bool) -> Demand:
        """Find the randomness by one rehearsal on zeros; `masks` is that of `Randomness.masks_operands`."""
        if (shape, masks) not in self._demands:
            trace = Trace.at(self.model.rank, masks)
            authentic = self.input_authenticated(trace.party) if self.mac else None
            trace.cut()
            count = len(self.own_rows(shape, slice(0, shape.rows)))
            features, shown = np.zeros((count, self.width), np.float32), np.ones(shape.rows, np.int64)
            self.predict(trace.party, shape, features, shown, authentic)
            requests = trace.cut()
            held = sum(request_bytes(request).held for request in requests)
            self._demands[shape, masks] = Demand(requests, trace.party.matrices, held)
        return self._demands[shape, masks]

    def begin(self, party: Party) -> None:
        """Prepare a session before its first batch. Raises MacFailure."""
        if self.mac:
            check_macs(party, self._method)
            self._authentic = planned(party, "take_in", self.input_authenticated)

    def input_authenticated(self, party: Party) -> AuthenticatedModel:
        """Take in this party's half of the model under new keys. Raises MacFailure."""
        authentic = party.run(input_model(party, self.model.ensemble, self.model.facts.layout))
        require_macs(party, authentic.keyring)
        return authentic

    def own_rows(self, shape: Shape, rows: slice) -> range:
        """Return the places of the rows of a batch for which this party has features."""
        has = self.model.facts.layout.vertical or shape.owner == self.model.rank
        return range(shape.rows)[rows] if has else range(0)

    def layout(self, shape: Shape) -> Layout:
        """Return the model's layout with the rows of a batch."""
        known = self.model.facts.layout
        rows = [shape.rows if known.vertical or p == shape.owner else 0 for p in (0, 1)]
        return replace(known, rows=(rows[0], rows[1]))

    def ahead(self, room: int, masks: bool) -> list[Shape]:
        """Return the shapes whose material is kept ready in `room` bytes: one of each, smallest first, and then
        repeatedly as many as fit.
        """
        chosen: list[Shape] = []
        for _ in range(_MOST_ALIKE):
            for shape in self._shapes:
                held = self.demand(shape, masks).held
                if held > room:
                    break
                chosen.append(shape)
                room -= held
        return chosen

    def run(self, lot: Lot, link: Peer, shape: Shape, features: np.ndarray, shown: np.ndarray) -> np.ndarray | None:
        """Return the batch's margins, float64[rows] or [rows, classes], at its owner; 0 where `shown`, int64[rows], is
        0.

        `features` are those of this party's rows, padded. Raises PeerFailure, MacFailure.
        """
        lot.begin()
        party = Party(self.model.rank, link, lot, matrices=lot.first)
        own = self.predict(party, shape, features, shown, self._authentic)
        if own is None:
            return None
        margin = own.T if self.model.config.num_class else own[0]
        return margin * (self.model.facts.margin_unit / (1 << MARGIN_SCALE))

    def predict(
        self, party: Party, shape: Shape, features: np.ndarray, shown: np.ndarray, authentic: AuthenticatedModel | None
    ) -> np.ndarray | None:
        """Return the margins of a batch, int64[classes, rows] at MARGIN_SCALE, at its owner."""
        model, what = self.model, "predictions of the requested rows"
        if authentic is not None:
            layout = self.layout(shape)
            (owners,) = row_groups(layout)
            steps = authenticated_margins(party, authentic, layout, owners, features, model.config.classes)
            return reveal(party, party.run(steps).times(Z128.widened(shown.astype(U64))), shape.owner, what)
        computed = party.run(
            margins(
                party,
                model.ensemble,
                self.layout(shape),
                model.cuts,
                features,
                self._method,
                model.config.classes,
            )
        )
        return party.reveal(computed.times(shown), to=shape.owner, what=what, units=True)


class Ready:
    """The material of one session: lots that are ready by shape, and lots made on demand for other shapes.

    Waits until the first lots are ready. Raises PeerFailure.
    """

    def __init__(self, batches: Batches, supply: Supply, room: int) -> None:
        self._batches, self._stock = batches, Stock(supply)
        self._lots: dict[Shape, deque[Lot]] = {}
        for shape in batches.ahead(room, supply.masks_operands):
            self._lots.setdefault(shape, deque()).append(self._made(shape))
        self._stock.settle()

    @property
    def held(self) -> int:
        """Return the bytes of material that is ready or being made."""
        return self._stock.held

    def use(self, shape: Shape, work: Callable[[Lot], np.ndarray | None]) -> np.ndarray | None:
        """Do a batch's `work` with a lot, and have an equal lot made."""
        kept = self._lots.get(shape)
        result = work(kept.popleft() if kept else self._made(shape))
        if kept is not None:
            kept.append(self._made(shape))
        return result

    def _made(self, shape: Shape) -> Lot:
        demand = self._batches.demand(shape, self._stock.supply.masks_operands)
        return self._stock.lot(demand.requests, demand.matrices)
