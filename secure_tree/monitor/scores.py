"""Margins of the rows that are monitored, on shares, and counts of secret bits over these rows.

Functionality  sums: <b>, [n, k], and [x], [n] -> [sums of x over the rows where b is 1], [k]
               bins: [margin] and whether it is below and above the span -> <the bin that it is in>, [n, k]
               counts: <b>, [n, k] -> [their sums over the rows], [k]
Messages       bins: a clipping (1 round), a floor (2), and a table look-up (1). counts: a bit per row and count
               (`to_ring`); one bit per block of rows and count (`widen`): two rounds. sums: a choice in words that
               are as long as the sums (`select`), which are then widened: two rounds
Security       semi-honest, perfect: composition of perfect protocols
How            sums of 126 bits fit a byte with two bits to spare, so that only the blocks' sums are widened
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.arithmetic.bits import select, to_ring
from mpc.errors import ConfigError, DataError
from mpc.lookup.windows import Windows, look_up
from mpc.party import Party
from mpc.planning import planned
from mpc.rings import Z8, Z2k
from mpc.rounding.truncation import floor
from mpc.rounding.widening import widen
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare
from mpc.words import U64, low_bits
from secure_tree.agreement.models import agree_on_prediction
from secure_tree.data.inputs import TableLike
from secure_tree.interface.conventions import needs_party, shared_model
from secure_tree.interface.inputs import features_to_predict
from secure_tree.model.shared_model import SharedModel
from secure_tree.prediction.predict import margins
from secure_tree.prediction.reasons.table import magnitudes
from secure_tree.public.config import Method
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE

BLOCK = 126
# Bins between the ends of the span: for curves, and for drift and the calibration error.
FINE, COARSE = 96, 12
_SHIFT = 30


@dataclass(frozen=True)
class Scored:
    """Margins of rows on shares, which can be monitored without predicting them again.

    margin: [n] at MARGIN_SCALE, in the order of `layout`. bits: those of comparisons with a margin. pairing: the id of
    the model. features: this party's own, float32[n_p, d_p], None if they were not kept.
    """

    margin: AShare
    layout: Layout
    bits: int
    pairing: str
    features: np.ndarray | None = None


def monitored_model(given: Any) -> SharedModel:
    """Return the half of a model that can be monitored. Raises ConfigError."""
    model = shared_model(given)
    if model.config.objective != "binary:logistic":
        raise ConfigError(f"only models of two classes, binary:logistic, are monitored, got {model.config.objective}")
    if model.facts.owner_widths:
        raise ConfigError("a model must be without columns of owners who are no party to be monitored")
    return model


def score(party: Party, model: Any, X: TableLike, method: Method = "bins") -> Scored:
    """Predict the margins of rows without revealing them, for any number of monitorings. Stage: predict.

    Both parties must call this at the same time, each with its part of the rows, as `predict_margin`. Raises
    ConfigError, DataError.
    """
    needs_party(party, "score(party, model, X)")
    if party.workers or party.audit:
        raise ConfigError("a monitoring must run in one process per party and without audit: connect without these")
    half = monitored_model(model)
    _, features, names = features_to_predict(half, party.rank, X)
    layout = agree_on_prediction(party, half, names, len(features), method)

    def program(party: Party) -> AShare:
        return party.run(margins(party, half.ensemble, layout, half.cuts, features, method, 1))[0]

    margin = AShare(np.zeros(0, np.uint64), party.rank, half.ensemble.base.scale)
    if layout.row_count:
        margin = planned(party, "predict", program, offline="predict_offline")
    return Scored(margin, layout, magnitudes(half)[1] + 2, half.facts.pairing, features)


def entered(
    party: Party,
    model: Any,
    features: np.ndarray,
    margin: np.ndarray | None,
    method: Method = "bins",
    to: int | None = None,
) -> Scored:
    """Enter margins that were revealed before, int64[n_p] at MARGIN_SCALE: by rows those of each party's own rows, by
    columns those of all rows at one party, and None at the other.

    features: this party's, float32[n_p, d_p], in the order of the model. The method, and who was `to` learn them, are
    those of the prediction. Raises ConfigError, DataError.
    """
    half = monitored_model(model)
    names, bits = half.facts.names[half.facts.layout.features_of(party.rank)], magnitudes(half)[1]
    layout = agree_on_prediction(party, half, names, len(features), method, to)
    own = np.zeros(layout.row_count, np.uint64)
    if margin is not None:
        if (np.abs(margin) >> bits).any():
            raise DataError("margins must be those of this model: one is beyond its largest")
        own[layout.rows_of(party.rank)] = margin.view(np.uint64)
    share = AShare(own, party.rank, half.ensemble.base.scale)
    return Scored(share, layout, bits + 2, half.facts.pairing, features)


def ends(span: tuple[float, float]) -> tuple[int, int]:
    """Return the ends of the span at MARGIN_SCALE."""
    return round(span[0] * (1 << MARGIN_SCALE)), round(span[1] * (1 << MARGIN_SCALE))


def factor(span: tuple[float, float], count: int) -> tuple[int, int]:
    """Return F and s such that the bin of x units above the span's lower end is floor(x F / 2^s)."""
    low, high = ends(span)
    whole = (count << _SHIFT) // (high - low)
    even = (whole & -whole).bit_length() - 1
    return whole >> even, _SHIFT - even


def bins(party: Party, margin: AShare, below_ends: BShare, span: tuple[float, float], count: int) -> Steps[BShare]:
    """[margin], <it is below each end of the span>, [n, 2] -> <its bin>, one-hot [n, count], all of equal width.

    Margins beyond the span are in the first or the last bin. Four rounds.
    """
    (low, high), under, over = ends(span), below_ends[:, 0], ~below_ends[:, 1]
    inner, ones = yield from parallel(
        select.steps(party, ~(under ^ over), margin.at_scale(0) - low), to_ring.steps(party, over)
    )
    clipped = inner + ones.times(high - low - 1)
    times, shift = factor(span, count)
    index = yield from floor.steps(party, clipped.times(times), shift)
    # A table has words of at most 64 bits.
    parts = -(-count // 64)
    width, size = count // parts, 1 << (count - 1).bit_length()
    tables = tuple(tuple(1 << k - j * width if k // width == j else 0 for k in range(size)) for j in range(parts))
    looked = yield from look_up.steps(party, index, Windows(0, 0, tables, tuple(range(parts)), width))
    words = np.ascontiguousarray(looked.words).view(np.uint8).reshape(len(margin), parts, 8)
    hot = np.unpackbits(words, axis=2, count=width, bitorder="little")
    return BShare(hot.reshape(len(margin), count), party.rank)


def merged(bits: BShare, count: int) -> BShare:
    """<one-hot of a bin>, [n, k] -> that of `count` bins, of neighbours each. Local."""
    return bits.reshape(len(bits), count, -1).parity(axis=2)


def counts(party: Party, bits: BShare) -> Steps[AShare]:
    """<b>, [n, k] -> [number of rows with 1], [k]. Two rounds."""
    n, k = bits.shape
    if not n or not k:
        return AShare(np.zeros(k, np.uint64), party.rank)
    ring = yield from to_ring.steps(party, bits, Z8)
    starts = np.arange(0, n, BLOCK)
    middle = np.minimum(BLOCK, n - starts) // 2
    by_block = ring.map(lambda w: np.add.reduceat(w, starts, axis=0, dtype=np.uint8)) - middle[:, None]
    wide = yield from widen.steps(party, by_block)
    return wide.sum(axis=0) + int(middle.sum())


def sums(party: Party, bits: BShare, x: AShare, most: int) -> Steps[AShare]:
    """<b>, [n, k], and [x], [n], |x| < 2^most units -> [sums of x where b is 1], [k]. Two rounds."""
    short = most + len(x).bit_length() + 2
    found = yield from select.steps(party, bits, x[:, None], Z2k(U64, short), True)
    return (yield from widen.steps(party, found.map(lambda w: low_bits(w, short)), short))
