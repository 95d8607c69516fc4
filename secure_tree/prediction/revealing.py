"""Prediction of margins and their reveal to the receivers, by this process or by workers for their shards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpc.authenticated.reveal import check_session_for_macs, reveal
from mpc.party import Party
from mpc.rings import Z128
from mpc.shares import AShare
from mpc.words import U64
from secure_tree.data.categories import Dictionary
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.authenticated import AuthenticatedModel, authenticated_margins
from secure_tree.prediction.predict import margins
from secure_tree.prediction.routers import row_groups
from secure_tree.public.config import Method, check_method
from secure_tree.public.layout import Layout, place
from secure_tree.workers.sources import PART, AtWorkers, Kept, Shards, agree_on_counts

OWN_ROWS = "predictions of its own rows"


def revealed_to_owner(party: Party, of_rows: AShare, owner: int, shown: np.ndarray) -> np.ndarray | None:
    """[margin] of rows, [classes, n] -> int64[classes, n] at MARGIN_SCALE at their owner, 0 where `shown` is 0."""
    return party.reveal(of_rows.times(shown), to=owner, what=OWN_ROWS, units=True)


def revealed_margins(
    party: Party,
    model: SharedModel,
    layout: Layout,
    features: np.ndarray,
    method: Method,
    receiver: int | None,
    authentic: AuthenticatedModel | None = None,
    shown: np.ndarray | None = None,
    keys: AShare | None = None,
) -> np.ndarray:
    """Own features float32[n_p, d_p] -> revealed margins, int64[classes, rows] at MARGIN_SCALE.

    For vertical data the receiver gets those of all rows, for horizontal data each party those of its own rows. With
    an `authentic` model, every opening is checked by MACs. Where `shown`, int64[rows], is 0, the margin is 0. [keys]
    are those of columns that owners contribute, if any.
    """
    classes, what = model.config.classes, "predictions of the rows" if layout.vertical else OWN_ROWS
    mask = np.ones(layout.row_count, np.int64) if shown is None else shown
    own = np.zeros((classes, 0), np.int64)
    if authentic is not None:
        for owners in row_groups(layout):
            of_rows = party.run(authenticated_margins(party, authentic, layout, owners, features, classes))
            to, rows = (receiver, slice(None)) if layout.vertical else (owners[0], place(owners[0], layout.rows))
            opened = reveal(party, of_rows.times(Z128.widened(mask[rows].astype(U64))), to, what)
            own = own if opened is None else opened
        return own
    if layout.vertical:
        receivers = {receiver: slice(None)}
    else:
        receivers = {p: place(p, layout.rows) for p in (0, 1) if layout.rows[p]}

    def program(party: Party) -> dict[int | None, AShare]:
        steps = margins(party, model.ensemble, layout, model.cuts, features, method, classes, keys)
        of_all = party.run(steps).times(mask)
        return {p: of_all[:, rows] for p, rows in receivers.items()}

    for p, part in party.audit.repeat(party, program).items():
        opened = party.reveal(part, to=p, what=what, units=True)
        own = own if opened is None else opened
    return own


def check_macs(party: Party, method: Method) -> None:
    """Raise ConfigError if predictions cannot have MACs."""
    check_method(method)
    check_session_for_macs(party.randomness.has_dealer, bool(party.audit), party.workers.count if party.workers else 0)


def predict_shards(
    party: Party, model: SharedModel, shards: Shards, known: Dictionary, method: Method, receiver: int | None
) -> np.ndarray:
    """Return `revealed_margins` of rows in shards, computed by workers. Stage: predict."""
    with party.stage("predict_offline"):
        pass  # the workers' meters count it
    counts = agree_on_counts(party, shards, model.config.partition == "vertical")
    own = AtWorkers(party, shards, model.config, known, counts, counts, "predict")
    layouts = [replace(model.facts.layout, rows=rows) for rows in zip(*counts, strict=True)]
    answers = own.ask(_predict, model, method, receiver, own=[(layout,) for layout in layouts])
    party.revealed += dict.fromkeys(what for _, revealed in answers for what in revealed)
    return np.concatenate([margin for margin, _ in answers], axis=1)


def _predict(
    party: Party, kept: Kept, model: SharedModel, method: Method, receiver: int | None, layout: Layout
) -> tuple[np.ndarray, list[str]]:
    before = len(party.revealed)
    # In a rehearsal there are no rows.
    shape = layout.rows[party.rank], layout.widths[party.rank]
    features = kept[PART].table.features if PART in kept else np.zeros(shape, np.float32)
    return revealed_margins(party, model, layout, features, method, receiver), party.revealed[before:]
