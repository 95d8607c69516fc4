"""Shared histograms of the labels by the bins of every feature.

By columns, the owner of the labels and the owner of a feature compute its histogram with mpc/functions/sums_by_bin.py;
features of the labels' owner cost nothing. By rows, each party counts its own rows in bins that both cut at the same
edges: quantiles of all rows, which become public as in secure_tree/setup/edges.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc.comparison.pooled_quantiles import masses_of, pooled_quantiles
from mpc.functions.sums_by_bin import sums_by_bin
from mpc.party import Party
from mpc.planning import planned
from mpc.rounds import Steps
from mpc.shares import AShare, concatenate
from secure_tree.explore.agreement import Explored, check_classes, cut_labels
from secure_tree.explore.own_table import WEIGHT_BITS, OwnBins, OwnTable, class_of, label_vectors, numbers_at, sums
from secure_tree.public.exact import ceil_log2
from secure_tree.setup.edges import EDGES, Known, columns, joint_edges, without

STAGE = "explore"
# Bits of a float32 to which joint edges are rounded.
EDGE_BITS = 32


@dataclass
class OwnSums:
    """A party's own sums by bin, uint64[.., d, bins], and where the bins of its features, or all features, begin.

    labels: for each class compared and for all rows; None without own labels. periods: of both periods; None without.
    rows: how many of its rows each bin has. bins: those of a party by columns.
    """

    labels: np.ndarray | None
    periods: np.ndarray | None
    rows: np.ndarray
    starts: list[list[float] | list[str]]
    bins: OwnBins | None
    vectors: np.ndarray | None


def own_sums(party: Party, facts: Explored, own: OwnTable, bins: OwnBins | None) -> OwnSums:
    """Add up a party's own rows by bin; by rows, after the joint edges are found. Stage: explore."""
    config, size = facts.config, facts.bins
    vectors = None
    if own.labels.labels is not None and config.of_labels:
        edges = _label_edges(party, facts, own) if config.numbers else None
        vectors = label_vectors(own, config, edges, facts.exponent)
    periods = None if own.period is None else np.stack([own.period == 1, own.period == 0])
    ones = np.ones((1, own.rows), np.uint8)
    given = [v for v in (vectors, periods, ones) if v is not None]
    every = np.concatenate(given) if len(given) > 1 else ones
    parts, starts = [], list[list[float] | list[str]]()
    if bins is not None:
        starts = bins.starts
        parts.append(sums(bins.numbers, size, every))
    else:
        categorical = ~facts.ordered
        for some, features in own.portions():
            joint = joint_edges_of(party, facts, features, config.bins, np.flatnonzero(categorical[some]).tolist())
            parts.append(sums(numbers_at(features, joint, categorical[some]), size, every))
            names = facts.names[0][some]
            starts += [facts.categories.get(name, line.tolist()) for name, line in zip(names, joint, strict=True)]
    found = np.concatenate(parts, axis=1) if parts else np.zeros((len(every), 0, size), np.uint64)
    cut = 0 if vectors is None else len(vectors)
    rest = found[cut:]
    return OwnSums(
        None if vectors is None else found[:cut],
        None if periods is None else rest[:2],
        rest[-1],
        starts,
        bins,
        vectors,
    )


def joint_edges_of(
    party: Party, facts: Explored, features: np.ndarray, size: int, categorical: Sequence[int] = ()
) -> np.ndarray:
    """Return the joint edges of some features, float32[some, size]; those of `categorical` ones are not found."""
    own = columns(features, np.ones(len(features), np.int64), EDGE_BITS)
    bits = ceil_log2(facts.row_count + 1) + size.bit_length() + 1

    def quantiles(known: Known, rank: np.ndarray, parts: np.ndarray) -> np.ndarray:
        others = without(own, known)

        def program(p: Party) -> np.ndarray:
            # A rehearsal asks no rows.
            up_to = masses_of(others) if p is party else np.zeros_like
            return pooled_quantiles(p, up_to, rank, parts, EDGE_BITS, bits, EDGES)

        return planned(party, STAGE, program)

    unused = dict.fromkeys(categorical, np.zeros(size, np.float32))
    return joint_edges(quantiles, features.shape[1], size, EDGE_BITS, unused)


def _label_edges(party: Party, facts: Explored, own: OwnTable) -> np.ndarray:
    """Return where the classes of labels that are numbers begin: at own quantiles by columns, at joint ones by rows."""
    labels = own.labels.labels
    assert labels is not None, "the caller has asked"
    if facts.label_holder is not None:
        return cut_labels(labels, facts.config)
    (edges,) = joint_edges_of(party, facts, labels.astype(np.float32).reshape(-1, 1), facts.config.classes)
    check_classes(party, facts.config, np.bincount(class_of(own, edges), minlength=facts.config.classes))
    return edges


def histograms(party: Party, facts: Explored, own: OwnSums) -> Steps[tuple[AShare, AShare]]:
    """[p], [q] of the class and of the others, [groups, d, bins]."""
    groups, bits = facts.config.groups, 1 if facts.exponent is None else WEIGHT_BITS + 1
    shares = []
    for p, names in enumerate(facts.names):
        d, holder = len(names), facts.label_holder
        if not d:
            continue
        if holder in (None, p):
            found = np.zeros((groups + 1, d, facts.bins), np.uint64)
            if own.labels is not None and (holder is None or party.rank == p):
                found = own.labels
            shares.append(AShare(found, party.rank))
            continue
        # Without weights, the owner of the features knows how many rows each of its bins has.
        count = groups if facts.exponent is None else groups + 1
        mine = own.bins.numbers if party.rank == p and own.bins else None
        vectors = None if party.rank == p or own.vectors is None else own.vectors[:count]
        found_sums = yield from sums_by_bin.steps(party, p, mine, vectors, facts.rows[0], d, facts.bins, count, bits)
        if facts.exponent is None:
            rows = own.rows[None] if party.rank == p else np.zeros((1, d, facts.bins), np.uint64)
            found_sums = concatenate([found_sums, AShare(rows, party.rank)])
        shares.append(found_sums)
    every = concatenate(shares, axis=1)
    return every[:groups], every[groups:] - every[:groups]


def between_parties_or_periods(party: Party, facts: Explored, own: OwnSums) -> tuple[AShare, AShare]:
    """[rows], [rows] by bin, [d, bins], of the later and the earlier period or, without periods, of the parties."""
    start = len(facts.names[0]) if facts.label_holder is not None and party.rank == 1 else 0
    whole = np.zeros((2, len(facts.every), facts.bins), np.uint64)
    mine = own.rows[None] if own.periods is None else own.periods
    parts = slice(party.rank, party.rank + 1) if own.periods is None else slice(0, 2)
    whole[parts, start : start + mine.shape[1]] = mine
    return AShare(whole[0], party.rank), AShare(whole[1], party.rank)
