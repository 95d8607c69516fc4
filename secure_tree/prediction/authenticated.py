"""Prediction by thresholds on shares with MACs: a path sum as in secure_tree/prediction/predict.py, with every opening
checked.

Both halves of the model are taken in once, then each batch of rows. The owner of rows or of a half may choose them
freely. All values opened later follow from them and from dealt values, and `party.reveal` gives the result to its
receiver only after all openings have passed. See mpc/authenticated/macs.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc.authenticated.authenticated_rows import Taken, choose, input_at, input_rows, product
from mpc.authenticated.authenticated_sign import below_zero
from mpc.authenticated.macs import AuthenticatedShare, Keyring, input_authenticated, masked_wide
from mpc.party import Party
from mpc.rings import Z128
from mpc.rounds import Steps, parallel
from mpc.words import U64
from secure_tree.data.bins import keys_of
from secure_tree.model.ensemble import Ensemble
from secure_tree.prediction.paths import paths
from secure_tree.prediction.routers import THRESHOLD_BITS, columns_of
from secure_tree.public.layout import Layout

# Comparisons at a time: the dealer makes 4 kB for each.
PIECE = 1 << 14


@dataclass(frozen=True)
class AuthenticatedModel:
    """A model with MACs: chosen features among each party's columns, thresholds [T m], leaves [T leaves], base."""

    keyring: Keyring
    chosen: Sequence[Taken]
    thresholds: AuthenticatedShare
    leaves: Taken
    base: AuthenticatedShare
    trees: int
    depth: int


def input_model(party: Party, ensemble: Ensemble, layout: Layout) -> Steps[AuthenticatedModel]:
    """Take in this party's half of the model -> AuthenticatedModel under new keys. One round."""
    keyring = Keyring.begin(party)
    trees, leaves = ensemble.leaves.shape
    # For horizontal data both parties have the same columns.
    blocks = [columns_of(layout, p) for p in ((0, 1) if layout.vertical else (0,))]
    own: list[np.ndarray] = [ensemble.compared[..., columns].words.reshape(-1, len(columns)) for columns in blocks]
    own += [ensemble.thresholds.words.reshape(-1), ensemble.leaves.words.reshape(-1)]
    steps = [input_at(party, keyring, number, words) for number, words in enumerate(own)]
    base = masked_wide(party, keyring, ensemble.base.shape)
    taken, (_, of_base) = yield from parallel(
        parallel(*steps), input_authenticated.steps(party, base, Z128.widened(ensemble.base.words))
    )
    *chosen, thresholds, leaf_words = taken
    return AuthenticatedModel(keyring, chosen, thresholds.share, leaf_words, of_base, trees, leaves.bit_length() - 1)


def authenticated_margins(
    party: Party, model: AuthenticatedModel, layout: Layout, owners: tuple[int, ...], features: np.ndarray, classes: int
) -> Steps[AuthenticatedShare]:
    """Own features float32[n, d_p] of the rows of `owners` -> [margin] of these rows at MARGIN_SCALE, [classes, n]."""
    n, nodes = layout.rows[owners[0]], (1 << model.depth) - 1
    handed = []
    for p in owners:
        own = keys_of(features, layout.optional[p]) if party.rank == p else None
        handed.append(input_rows.steps(party, model.keyring, p, own, n, len(columns_of(layout, p))))
    rows = yield from parallel(*handed)
    step = classes * max(1, PIECE // (classes * nodes * n))
    at_once = max(1, PIECE // (step * nodes))
    total = model.base.repeated(n)
    for first in range(0, model.trees, step):
        count = min(step, model.trees - first)
        places = slice(first * nodes, (first + count) * nodes)
        parts = [
            product(party, of, taken, places.start, count * nodes) for of, taken in zip(rows, model.chosen, strict=True)
        ]
        both = parts[0] + parts[1] if len(parts) > 1 else parts[0]
        difference = both - model.thresholds[places].repeated(n)
        found = []
        for low in range(0, n, at_once):
            x = difference[low : low + at_once]
            left = (yield from below_zero.steps(party, x.reshape(x.size), THRESHOLD_BITS)).reshape(len(x), count, nodes)
            found.append((yield from _sum_of_paths(party, model, left, first, classes)))
        total = total + AuthenticatedShare.joined(found)
    return total.transposed()


def _sum_of_paths(
    party: Party, model: AuthenticatedModel, left: AuthenticatedShare, first: int, classes: int
) -> Steps[AuthenticatedShare]:
    """[goes left], [rows, t, nodes], of the trees from `first` on -> [sum of the reached weights], [rows, classes]."""
    rows, count, _ = left.shape
    nodes, turns = paths(model.depth)
    leaves = len(nodes)
    agreed = left[:, :, nodes].times((2 * turns - 1).astype(U64)).sum()
    missing = ((1 - turns).sum(axis=1) - model.depth).astype(U64)
    short = agreed.plus(np.broadcast_to(missing, agreed.shape)).reshape(rows, count * leaves)
    weights = yield from choose.steps(party, short, model.depth.bit_length(), model.leaves, first * leaves)
    return weights.reshape(rows, count // classes, classes, leaves).sum(3).sum(1)
