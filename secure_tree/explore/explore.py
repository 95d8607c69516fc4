"""Explore joint data before a training: names of the best features and, on request, rounded numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from mpc.errors import ConfigError
from mpc.host.encryption import FileKey
from mpc.host.ledger import Ledger
from mpc.party import Party
from mpc.planning import planned
from mpc.rounds import Steps
from mpc.shares import AShare, BShare, stack
from secure_tree.data.contributed import Source
from secure_tree.data.inputs import ColumnLike, TableLike, in_memory
from secure_tree.explore.agreement import Explored, agree, class_counts, settle
from secure_tree.explore.config import ExploreConfig, Statistic
from secure_tree.explore.histograms import (
    STAGE,
    Joined,
    OwnSums,
    between_parties_or_periods,
    histograms,
    opened,
    own_sums,
)
from secure_tree.explore.moments import correlations, inflation, moments
from secure_tree.explore.noise import deviation, draw, epsilon, noisy
from secure_tree.explore.own_rows import OwnRows
from secure_tree.explore.own_table import WEIGHT_BITS, OwnBins, OwnTable
from secure_tree.explore.precision import entropy, plain_fraction
from secure_tree.explore.result import Exploration, Screened
from secure_tree.explore.statistics import best, reveal_rounded, reveal_woe, rounded, shown
from secure_tree.interface.conventions import needs_party
from secure_tree.owners.contributing import has_missing
from secure_tree.owners.lines import Line

# Fractional bits of a rate before it is rounded: 2^-24 of it, for fewer than 2^24 rows.
_RATE_SCALE = 40


def explore(
    party: Party,
    X: TableLike,
    y: ColumnLike | None = None,
    sample_weight: ColumnLike | None = None,
    *,
    period: ColumnLike | None = None,
    ids: ColumnLike | None = None,
    ledger: str | Path | None = None,
    key: FileKey | None = None,
    contributed: Mapping[str, Line] | Source | None = None,
    **parameters: Any,
) -> Exploration:
    """Explore the tables of both parties, who must call this at the same time with the same parameters.

    By default, only the names of the `top` features with the largest information value are revealed. Public are also
    row counts, names of features with their categories, whether values are missing, and by rows the edges of the bins.

    Parameters
    ----------
    party : Party
        The connection to the other party.
    X : array [n, d] or DataFrame
        The features of this party, in which values may be missing. Columns of dtype `category` are categorical.
    y : array [n], optional
        Labels 0, 1, ..., or numbers with `numbers`. None at the party without labels of data by columns.
    sample_weight : array [n], optional
        A weight for each label, used to 2^-12 of the largest.
    period : array [n], optional
        0 or 1 for each row: `psi` compares the bins of the two periods.
    ids : array [n], optional
        An id for each row, by which the ledger recognises rows. None: rows are recognised by their content.
    ledger : path, optional
        This party's ledger of releases, which both parties must keep, or neither. Without one, each call has the whole
        budget of bits.
    key : FileKey, optional
        Encrypts the hashes of this party's rows beside the ledger.
    contributed : mapping or Stored, optional
        By rows, owners of further rows who are no party, as of `fit`: their rows count in all statistics that follow
        from bins. With a folder of collected rows, the joint edges are those of the collection.
    parameters
        As of `ExploreConfig`, such as `partition`, `top`, `statistics` and `reveal`.

    Raises
    ------
    ConfigError
        If parameters are invalid, or differ between the parties.
    DataError
        If a table is invalid, or if this party refuses the release: below a floor, or beyond its budget.
    PeerFailure
        If the other party refuses, or the connection fails.
    """
    config = ExploreConfig.of(**parameters)
    needs_party(party, "explore(party, X, y)")
    X = in_memory(X)
    if party.workers:
        raise ConfigError("an exploration must run in one process per party: connect without workers")
    if contributed and period is not None:
        raise ConfigError("period must be left out: rows of owners have none, and psi compares them with the parties'")
    joined = Joined.of(party, config, contributed, X, y, sample_weight) if contributed else None
    table = OwnTable.read(X, y, sample_weight, period, config, 0 if joined else 1)
    kept = Ledger(ledger) if ledger is not None else None
    rows = OwnRows(kept.path, key) if kept else None
    hashes = rows.hashes(table, None if ids is None else np.asarray(ids)) if rows else None
    bins = None
    if config.partition == "vertical":
        bins = OwnBins.of(table, config.bins, config.floors.cell_rows)
        missing = bins.missing
    elif joined:
        missing = has_missing(joined.context.config)
    else:
        missing = any(bool(np.isnan(features).any()) for _, features in table.portions())
    with kept.turn(party.rank) if kept else nullcontext():
        facts = agree(party, config, table, missing, kept, joined.owners if joined else ())
        if config.partition == "horizontal":
            table = replace(table, categories=facts.categories)
        nearest = rows.nearest(hashes) if rows and hashes is not None else None
        number = settle(party, facts, table, kept, nearest)
    if rows and hashes is not None:
        rows.add(hashes)
    before = len(party.revealed)
    party.audit.enter(STAGE)
    own = own_sums(party, facts, table, bins, joined)
    chosen, numbers, woe = computed(party, facts, own)
    told, correlation, rate = others(party, facts, table, own, chosen)
    counts = class_counts(table, config) if config.of_labels else []
    noise = config.privacy
    privacy = (noise.rho, epsilon(noise.rho, noise.delta), noise.delta) if noise else None
    features = [facts.every[f] for f in chosen]
    mine = party.rank if facts.label_holder is not None else 0
    names = tuple(name for p, name in features if p == 0), tuple(name for p, name in features if p == 1)
    return Exploration(
        run=facts.run,
        config=config,
        rows=facts.rows,
        screened=Screened(names, mine, config.rank, len(facts.every), number),
        features=features,
        numbers=numbers,
        woe=woe,
        moments=told,
        correlation=correlation,
        label_rate=rate,
        starts=dict(zip(facts.names[mine], own.starts, strict=True)),
        own=table.summary(),
        quantiles=table.quantiles(names[mine]),
        counts=counts,
        bits=facts.bits,
        spent=facts.spent,
        budget=config.floors.bits * entropy(counts) if counts else None,
        privacy=privacy,
        ledger=number,
        revealed=list(dict.fromkeys(party.revealed[before:])),
    )


def computed(
    party: Party, facts: Explored, own: OwnSums
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray | None]:
    """Return the numbers of the chosen features, their revealed statistics, and their weights of evidence.

    All correlated randomness is requested at once. An audit takes its verdict on each part before any of it is opened.
    """
    noise = own_noise(party, facts) if facts.config.privacy and facts.config.of_labels else None

    def program(party: Party) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray | None]:
        config, chosen, of_labels = facts.config, np.arange(len(facts.every)), None
        if config.of_labels:
            counted, which = party.audit.repeat(party, lambda party: party.run(_screened(party, facts, own, noise)))
            party.audit.remember(STAGE, *counted)
            if which is not None:
                what = f"which {config.top} of {len(chosen)} features have the largest {config.rank}"
                told = party.reveal(which, what=what)
                assert told is not None, "revealed to both"
                chosen = np.flatnonzero(told) if party.live else np.arange(config.top)
            if config.reveal != "names":
                party.audit.require_unchanged(STAGE, *counted)
            of_labels = counted[0][:, chosen], counted[1][:, chosen]
        compared, numbers, woe = dict[Statistic, tuple[AShare, AShare]](), dict[str, np.ndarray](), None
        for name in (*config.shown, *(("iv",) if config.reveal == "woe" else ())):
            pair = of_labels
            if name == "psi":
                first, second = between_parties_or_periods(party, facts, own)
                pair = first[None, chosen], second[None, chosen]
            assert pair is not None, "its labels are there"
            compared[name] = pair
        if compared:
            cells = _cells(facts, own, chosen)
            found, of_bins = party.audit.repeat(party, lambda party: party.run(shown(party, facts, compared, *cells)))
            numbers, woe = reveal_rounded(party, facts, found), of_bins and reveal_woe(party, facts, *of_bins)
        party.audit.settle(party)
        return chosen, numbers, woe

    chosen, numbers, woe = planned(party, STAGE, program, own_verdicts=True)
    for name in {"auc", "ks"} & numbers.keys():
        numbers[name][:, ~facts.ordered[chosen]] = np.nan
    return chosen, numbers, woe


def _screened(
    party: Party, facts: Explored, own: OwnSums, noise: np.ndarray | None
) -> Steps[tuple[tuple[AShare, AShare], BShare | None]]:
    """[counts of each class and of the others], [groups, d, bins], and <one of the `top` best> unless all are, [d]."""
    counted = yield from histograms(party, facts, own)
    if noise is not None:
        counted = yield from noisy(party, *counted, noise, facts.bits_of_counts + 1)
    named = facts.config.top < len(facts.every)
    return counted, (yield from best(party, facts, *counted)) if named else None


def own_noise(party: Party, facts: Explored) -> np.ndarray:
    """Return this party's own noise for the counts of every bin, int64[groups, d, bins], in the unit of the counts."""
    groups, d, privacy = facts.config.groups, len(facts.every), facts.config.privacy
    assert privacy, "the caller has asked"
    drawn = draw(deviation(privacy.rho, d, groups), (groups, d, facts.bins), party.draw)
    return drawn << (0 if facts.exponent is None else WEIGHT_BITS)


def _cells(facts: Explored, own: OwnSums, chosen: np.ndarray) -> tuple[np.ndarray | None, list[AShare]]:
    """Return counts of each class and the others by bin, [2, groups, chosen, bins]: a party's own, None by columns; and
    those of owners.
    """
    if facts.label_holder is not None or own.labels is None:
        return None, []
    groups = facts.config.groups
    cells, shared = own.labels[:, chosen], [each.labels[:, chosen] for each in own.owners]
    of_owners = [stack([each[:groups], each[groups:] - each[:groups]]) for each in shared]
    return np.stack([cells[:groups], cells[groups:] - cells[:groups]]), of_owners


def others(
    party: Party, facts: Explored, table: OwnTable, own: OwnSums, chosen: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray | None, float | None]:
    """Return moments and correlations of the chosen features, and the rate of positives; a rehearsal, which has no
    peer, leaves out what owners by columns publish.
    """
    asked, found, matrix, rate = set(facts.config.others), dict[str, np.ndarray](), None, None
    numeric = facts.ordered[chosen]
    if own.owners:
        rows = reduce(add, (each.rows for each in own.owners), AShare(own.rows, party.rank))
        if "missing" in asked:
            found["missing"] = np.where(
                numeric, _rates(party, facts, rows[chosen, facts.config.bins :], "missing"), np.nan
            )
    elif asked - {"label_rate"} and numeric.any():
        places, by_rows = chosen[numeric], facts.label_holder is None
        edges = np.array([own.starts[f] for f in places], np.float32) if by_rows else None
        told = by_rows or (asked & {"missing", "mean", "deviation"} and party.live)
        known = moments(party, facts, table, places, edges) if told else {}
        if asked & {"correlation", "vif"}:
            some = correlations(party, facts, table, places, known)
            known["vif"] = inflation(some)
            matrix = np.full((len(chosen), len(chosen)), np.nan)
            matrix[np.ix_(numeric, numeric)] = some
        for name in asked & known.keys():
            found[name] = np.full(len(chosen), np.nan)
            found[name][numeric] = known[name]
    if "label_rate" in asked:
        mine = class_counts(table, facts.config)
        positives = AShare(np.array([[table.rows - mine[0] if mine else 0]], np.uint64), party.rank)
        for each in own.owners:
            first = 1 if facts.config.classes > 2 else 0
            positives = positives + each.classes[first:].sum(axis=0)
        rate = float(_rates(party, facts, positives, "positive labels")[0])
    return found, matrix if "correlation" in asked else None, rate


def _rates(party: Party, facts: Explored, counts: AShare, of: str) -> np.ndarray:
    """[rows], [d, k], to be added up -> their rounded fractions of all rows, float64[d], revealed to both."""
    n, f = facts.row_count, plain_fraction(facts.config.floors.digits, facts.row_count)
    share = counts.sum(axis=1).times(round(math.ldexp(1, _RATE_SCALE) / n)).at_scale(_RATE_SCALE)
    what = f"the rate of {of}, to {2.0**-f:.2g}"
    return opened(party, lambda party: rounded(party, share, f), what)
