"""Margins of rows, revealed to those who are to know them: by this process, or by workers, each for its shard."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpc.party import Party
from mpc.verdict import settle
from mpc.workers import ask_again
from secure_tree.config import Method
from secure_tree.layout import Layout, place
from secure_tree.model import SharedModel
from secure_tree.predict import margins
from secure_tree.shards import Kept, shard_ranges


def revealed_margins(
    party: Party, model: SharedModel, layout: Layout, features: np.ndarray, method: Method, receiver: int | None
) -> np.ndarray:
    """Own features float32[n_p, d_p] -> int64[classes, rows] at MARGIN_SCALE: vertically of all rows, at the receiver;
    horizontally of own rows.
    """
    if layout.vertical:
        receivers = {receiver: slice(None)}
    else:
        receivers = {p: place(p, layout.rows) for p in (0, 1) if layout.rows[p]}
    classes = model.config.classes
    result = party.run(margins(party, model.ensemble, layout, model.cuts, features, method, classes))
    settle(party)
    own = np.zeros((classes, 0), np.int64)
    for p, rows in receivers.items():
        opened = party.reveal(
            result[:, rows], to=p, what=f"predictions of {'the' if layout.vertical else 'its own'} rows"
        )
        own = own if opened is None else opened
    return own


def predict_shards(
    party: Party, model: SharedModel, layout: Layout, features: np.ndarray, method: Method, receiver: int | None
) -> np.ndarray:
    """The same by workers. Stage: predict."""
    assert party.workers is not None, "rows are divided among workers"
    shards = [shard_ranges(layout, party.workers.count, i) for i in range(party.workers.count)]
    own = [
        (replace(layout, rows=(of[0].stop - of[0].start, of[1].stop - of[1].start)), features[of[party.rank]])
        for of in shards
    ]
    with party.stage("predict_offline"):
        pass  # it is on the workers' meters
    with party.stage("predict"):
        answers = ask_again(party, _predict, model, method, receiver, own=own, planned="predict")
    party.revealed += dict.fromkeys(what for _, revealed in answers for what in revealed)
    return np.concatenate([margin for margin, _ in answers], axis=1)


def _predict(
    party: Party,
    kept: Kept,
    model: SharedModel,
    method: Method,
    receiver: int | None,
    layout: Layout,
    features: np.ndarray,
) -> tuple[np.ndarray, list[str]]:
    party.comparison = model.config.comparison
    before = len(party.revealed)
    return revealed_margins(party, model, layout, features, method, receiver), party.revealed[before:]
