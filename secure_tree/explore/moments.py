"""Missing rates, means, deviations and correlations of the named features, rounded, to both parties.

By columns, missing rates, means and deviations are those of the owner, who publishes three digits of them; correlations
between the parties are products of standardised columns on shares. By rows, each party adds up its own rows; sums,
quotients and rounding are on shares: first means and variances, in units that follow from the joint edges, then
products of columns that these public numbers standardise.

Reveals    missing rate, mean and variance of each feature; the correlation of each pair, by rows its three products
No dealer  by columns, products are those of at most MOST_ROWS rows, chosen by the id of the run: 9 transfers for each
           row and column of party 1, of 4 bytes for each column of party 0
Error      before rounding 1e-5 of a standard deviation, and of a correlation. A missing value counts as the mean, and
           values more than 8 deviations from it as 8. Without a dealer, values of party 1 are rounded at random to 2^-4
           of a deviation: an error of at most 2^-5 / sqrt(rows)
Security   semi-honest, perfect: composition of perfect protocols
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mpc.functions.sums_by_bin import ChosenSums, chosen_sums
from mpc.matrix.interface import released
from mpc.matrix.known_matrix import DenseWords
from mpc.matrix.linear_map import apply_matrix, share_masked_matrix
from mpc.party import Party
from mpc.protocol import U64, Z32, Z64
from mpc.rounding.widening import widen
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, stack
from secure_tree.agreement.messages import Message, exchange
from secure_tree.explore.agreement import Explored
from secure_tree.explore.histograms import opened
from secure_tree.explore.own_table import OwnTable
from secure_tree.explore.precision import plain_fraction
from secure_tree.explore.statistics import rounded
from secure_tree.functions.divergence import quotients
from secure_tree.public.exact import choose
from secure_tree.public.layout import LEAST_FLOAT
from secure_tree.public.numerics import MARGIN_SCALE

MOST_DEVIATIONS = 8.0
# Relative to the largest, the least eigenvalue of correlations that counts.
_RANK = 1e-9
# Fractional bits of standardised values: of vectors, and of the columns of a matrix before they are divided by n.
VECTOR_SCALE, MATRIX_SCALE = 12, 15
_LARGEST = 64.0
# Without a dealer, correlations by columns are those of so many rows, chosen at random: a standard error of 0.014.
MOST_ROWS = 5000
# Values of one party as integers of 9 bits, 16 to a deviation; of the other in units of 2^-10; the scale of 1 / n.
_BITS, _BIT_SCALE, _WORD_SCALE, _MEAN_SCALE = 9, 4, 10, 30


class Published(Message):
    """What a party by columns tells of its features."""

    missing: list[float]
    mean: list[float]
    deviation: list[float]


def moments(
    party: Party, facts: Explored, own: OwnTable, chosen: np.ndarray, edges: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Return missing rate, mean and deviation of the chosen features, revealed to both.

    edges: the joint edges of the chosen features, float32[d, K]; None by columns.
    """
    if edges is None:
        return _published(party, facts, own, chosen)
    f = plain_fraction(facts.config.floors.digits, facts.row_count)
    centre = edges[:, edges.shape[1] // 2].astype(np.float64)
    spread = edges[:, -1].astype(np.float64) - edges[:, 1]
    unit = 2.0 ** np.ceil(np.log2(np.where(spread > 0, spread, 1)))
    z = np.clip((_columns(own, chosen) - centre) / unit, -_LARGEST, _LARGEST)
    there = ~np.isnan(z)
    z = np.where(there, z, 0)
    count = AShare(there.sum(axis=0).astype(U64), party.rank)
    rate, first, second = (
        _share(party, x) for x in ((~there).sum(axis=0) / facts.row_count, z.sum(axis=0), (z**2).sum(axis=0))
    )

    def steps(party: Party) -> Steps[AShare]:
        sums, counts = stack([first, second]), stack([count, count])
        means = yield from quotients(party, sums, counts, facts.row_count.bit_length())
        return (yield from rounded(party, stack([rate, means[0], means[1]]), f))

    what = f"missing rate, mean and variance of {len(chosen)} features, to {2.0**-f:.2g}"
    missing, mean, square = opened(party, steps, what)
    variance = np.maximum(square - mean**2, np.where(spread > 0, 2.0**-f, 0))
    # A feature without any value has no edges but the lowest number.
    found = {"mean": centre + unit * mean, "deviation": unit * np.sqrt(variance)}
    none = edges[:, -1] == LEAST_FLOAT
    return {"missing": missing, **{name: np.where(none, np.nan, values) for name, values in found.items()}}


def correlations(
    party: Party, facts: Explored, own: OwnTable, chosen: np.ndarray, known: dict[str, np.ndarray]
) -> np.ndarray:
    """Return the correlations of the chosen features, float64[d, d], revealed to both: NaN of one that does not vary.

    known: by rows, public means and deviations.
    """
    n, d = facts.row_count, len(chosen)
    mine = own_places(party, facts, chosen)
    values = _columns(own, _own_numbers(facts, party.rank, chosen[mine]))
    if facts.label_holder is not None and not party.randomness.has_dealer and n > MOST_ROWS:
        # The run's id is random, and known to both only since they have agreed.
        n, values = MOST_ROWS, values[choose(MOST_ROWS, n, f"correlations {facts.run}")]
    f = plain_fraction(facts.config.floors.digits, n)
    if facts.label_holder is None:
        z = _standardised(values, known["mean"], known["deviation"])
        products = _share(party, np.concatenate([z.T @ z, z.sum(axis=0)[None]]) / n)
        found = opened(party, lambda party: rounded(party, products, f), f"correlations, to {2.0**-f:.2g}")
        covariance = found[:d] - np.outer(found[d], found[d])
        deviation = np.sqrt(np.maximum(np.diag(covariance), 2.0**-f))
        return _of_varying(covariance / np.outer(deviation, deviation))
    some = np.where(np.isnan(values).all(axis=0), 0, values)
    z = _standardised(some, np.nanmean(some, axis=0), np.nanstd(some, axis=0))
    spread = np.maximum(np.sqrt((z**2).mean(axis=0)), 1e-9)
    z = z / spread
    first = np.flatnonzero([facts.every[f][0] == 0 for f in chosen])
    second = np.setdiff1d(np.arange(d), first)
    own_block = np.zeros((d, d))
    own_block[np.ix_(mine, mine)] = z.T @ z / n

    def of_columns(party: Party) -> Steps[AShare]:
        products = _crossed if party.randomness.has_dealer else _crossed_by_transfers
        crossed = yield from products(party, z, n, len(first), len(second))
        own, between = yield from parallel(rounded(party, _share(party, own_block), f), rounded(party, crossed, f))
        words = own.words.copy()
        words[np.ix_(first, second)] = between.words
        words[np.ix_(second, first)] = between.words.T
        return AShare(words, party.rank, f)

    return _of_varying(opened(party, of_columns, f"correlations in {n} rows, to {2.0**-f:.2g}"))


def _of_varying(correlation: np.ndarray) -> np.ndarray:
    """Return correlations within -1 and 1, NaN of features that have none with themselves: all values are equal."""
    constant = np.diag(correlation) < 0.5
    return np.clip(np.where(constant | constant[:, None], np.nan, correlation), -1, 1)


def inflation(correlation: np.ndarray) -> np.ndarray:
    """Return the variance inflation factors of features with these correlations, float64[d]: inf of one that others
    determine, NaN of one that does not vary.
    """
    found = np.full(len(correlation), np.nan)
    varying = np.flatnonzero(~np.isnan(np.diag(correlation)))
    for f in varying:
        others = varying[varying != f]
        inverse = np.linalg.pinv(correlation[np.ix_(others, others)], _RANK, hermitian=True)
        explained = correlation[f, others] @ inverse @ correlation[others, f]
        found[f] = np.inf if explained > 1 - _RANK else 1 / (1 - explained)
    return found


def own_places(party: Party, facts: Explored, chosen: np.ndarray) -> np.ndarray:
    """Return the places among the chosen features of those that this party has."""
    held = [facts.label_holder is None or facts.every[f][0] == party.rank for f in chosen]
    return np.flatnonzero(held)


def _crossed(party: Party, z: np.ndarray, n: int, first: int, second: int) -> Steps[AShare]:
    """Standardised columns of each party, [n, own] -> [correlations], [first, second]."""
    scale = MATRIX_SCALE + n.bit_length()
    matrix, vectors = None, np.zeros((second, n), U64)
    if party.rank == 0:
        matrix = DenseWords(np.rint(np.ldexp(z / n, scale)).astype(np.int64).view(U64))
    else:
        vectors = np.ascontiguousarray(np.rint(np.ldexp(z.T, VECTOR_SCALE)).astype(np.int64)).view(U64)
    shared = yield from share_masked_matrix.steps(party, 0, matrix, n, first, Z64)
    with released(party, [shared]):
        found = yield from apply_matrix.steps(party, shared.supply(party, second), AShare(vectors, party.rank))
    return found.map(np.transpose).at_scale(scale + VECTOR_SCALE)


def _crossed_by_transfers(party: Party, z: np.ndarray, n: int, first: int, second: int) -> Steps[AShare]:
    """As `_crossed`, without a dealer: bits of the columns of party 1 choose among words of party 0.

    Values of party 1 are rounded at random to 2^-4, so that a product is right on average.
    """
    if not (first and second):
        return AShare(np.zeros((first, second), U64), party.rank, MARGIN_SCALE)
    if party.rank == 0:
        own = np.rint(np.ldexp(z, _WORD_SCALE)).astype(np.int64).astype(np.uint32)
        offset = own.sum(axis=0, dtype=np.uint32) << np.uint32(_BITS - 1)
    else:
        coins = np.frombuffer(party.audit.once(lambda: party.draw(4 * z.size)), "<u4").reshape(z.T.shape) * 2.0**-32
        moved = np.floor(np.ldexp(z.T, _BIT_SCALE) + coins).astype(np.int64) + (1 << _BITS - 1)
        numbers = np.clip(moved, 0, (1 << _BITS) - 1)
        own = (numbers[:, None] >> np.arange(_BITS)[:, None] & 1).astype(np.uint8).reshape(-1, n)
        offset = np.zeros(first, np.uint32)
    request = ChosenSums(party.next_matrix(), 0, n, first, second * _BITS, n, Z32)
    planes = chosen_sums(party, request, own).reshape(second, _BITS, first)
    sums = planes.times((1 << np.arange(_BITS))[:, None]).sum(axis=1).map(lambda w: w - offset)
    found = (yield from widen.steps(party, sums)).map(np.transpose).times(round(math.ldexp(1, _MEAN_SCALE) / n))
    return found.at_scale(_WORD_SCALE + _BIT_SCALE + _MEAN_SCALE)


def _columns(own: OwnTable, features: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return some of a party's columns, float64[n, some]; these are its own numbers by columns."""
    return np.concatenate(
        [np.zeros((own.rows, 0)), *(part[:, np.isin(range(s.start, s.stop), features)] for s, part in own.portions())],
        axis=1,
    )


def _standardised(values: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    z = (values - mean) / np.where(deviation > 0, deviation, 1)
    return np.clip(np.where(np.isnan(z), 0, z), -MOST_DEVIATIONS, MOST_DEVIATIONS)


def _share(party: Party, own: np.ndarray) -> AShare:
    """Return a party's own numbers as its share of their sum, at MARGIN_SCALE."""
    return AShare(np.rint(np.ldexp(own, MARGIN_SCALE)).astype(np.int64).view(U64), party.rank, MARGIN_SCALE)


def _published(party: Party, facts: Explored, own: OwnTable, chosen: np.ndarray) -> dict[str, np.ndarray]:
    places = own_places(party, facts, chosen)
    summary = own.summary().iloc[_own_numbers(facts, party.rank, chosen[places])]
    digits = facts.config.floors.digits
    told = {c: [float(f"{v:.{digits}g}") for v in summary[c]] for c in summary.columns}
    theirs = exchange(party, "explore.moments", Published.of(**told))
    party.learn(f"missing rates, means and deviations of {len(chosen)} features, to {digits} digits", None)
    found = {}
    for name, values in told.items():
        both = np.zeros(len(chosen))
        both[places] = values
        both[np.setdiff1d(np.arange(len(chosen)), places)] = getattr(theirs, name)
        found[name] = both
    return found


def _own_numbers(facts: Explored, rank: int, features: np.ndarray) -> np.ndarray:
    """Return the places of features in their party's table."""
    return features - (len(facts.names[0]) if rank == 1 and facts.label_holder is not None else 0)
