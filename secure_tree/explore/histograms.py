"""Shared histograms of the labels by the bins of every feature.

By columns, the owner of the labels and the owner of a feature compute its histogram with mpc/functions/sums_by_bin.py;
features of the labels' owner cost nothing. By rows, each party counts its own rows in bins that both cut at the same
edges: quantiles of all rows, which become public as in secure_tree/setup/edges.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import numpy as np

from mpc.comparison.pooled_quantiles import masses_of, pooled_quantiles
from mpc.errors import ConfigError, DataError
from mpc.functions.sums_by_bin import sums_by_bin
from mpc.party import Party
from mpc.planning import planned
from mpc.rounds import Steps
from mpc.shares import AShare, Share, concatenate, stack
from secure_tree.agreement.training import agree_on_terms, agree_on_training
from secure_tree.data.categories import dictionary
from secure_tree.data.contributed import Source
from secure_tree.data.inputs import ColumnLike, TableLike
from secure_tree.data.own_rows import OwnRows
from secure_tree.explore.agreement import Explored, check_classes, cut_labels
from secure_tree.explore.config import OF_BINS, ExploreConfig
from secure_tree.explore.own_table import WEIGHT_BITS, OwnBins, OwnTable, class_of, label_vectors, numbers_at, sums
from secure_tree.explore.precision import least_of_class
from secure_tree.explore.statistics import few_rows
from secure_tree.interface.inputs import check_shares, open_contributed, own_rows
from secure_tree.owners.contributing import MOST_EDGE_BITS
from secure_tree.owners.lines import Line
from secure_tree.owners.stored import Stored
from secure_tree.owners.sums import SumsOfOwner, sums_of_owners
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerFacts, TrainingContext
from secure_tree.public.exact import ceil_log2
from secure_tree.public.names import indicator
from secure_tree.setup.edges import EDGES, Known, columns, cut_bins, joint_edges, without

STAGE = "explore"
# Bits of a float32 to which joint edges are rounded.
EDGE_BITS = 32


@dataclass
class OwnSums:
    """A party's own sums by bin, uint64[.., d, bins], and where the bins of its features, or all features, begin.

    labels: for each class compared and for all rows; None without own labels. periods: of both periods; None without.
    rows: how many of its rows each bin has. bins: those of a party by columns. owners: sums of further owners' rows.
    """

    labels: np.ndarray | None
    periods: np.ndarray | None
    rows: np.ndarray
    starts: list[list[float] | list[str]]
    bins: OwnBins | None
    vectors: np.ndarray | None
    owners: list[SumsOfOwner] = field(default_factory=list)


@dataclass(frozen=True)
class Joined:
    """A party's rows as a training has them, and rows of further owners. names: of its features."""

    context: TrainingContext
    own: OwnRows

    @classmethod
    def of(
        cls,
        party: Party,
        config: ExploreConfig,
        given: Mapping[str, Line] | Source,
        X: TableLike,
        y: ColumnLike | None,
        weights: ColumnLike | None,
    ) -> Joined:
        """Let owners contribute rows, as to a training. Raises ConfigError, DataError, PeerFailure."""
        if config.partition == "vertical" or config.numbers:
            raise ConfigError('rows of owners are explored with partition="horizontal", and classes as labels')
        if others := [s for s in config.statistics if s not in OF_BINS]:
            raise ConfigError(
                f"{', '.join(others)} need values, and of the owners' rows there are bins: leave them out"
            )
        fresh = cls.parameters(config, "all")
        terms = given.collected() if isinstance(given, Stored) else fresh
        if (terms.objective, terms.num_class) != (fresh.objective, fresh.num_class):
            raise ConfigError(f"owners contributed labels of {terms.objective}, which must be {config.classes} classes")
        if terms.scale_pos_weight != 1:
            raise ConfigError("rows that were collected with scale_pos_weight cannot be explored: collect without it")
        known, _ = agree_on_terms(party, terms, dictionary(X))
        own = own_rows(party, X, y, weights, None, terms, known, 0)
        open_contributed(party, given, terms, known, own)
        context = agree_on_training(party, terms, own)
        check_shares(context, own)
        assert own.contributed, "they were opened"
        if silent := [owner.name for owner in own.contributed.owners if not owner.explore]:
            raise DataError(f"{', '.join(silent)}: consents to trainings only (explore = false in its terms)")
        if (size := context.layout.sizes[0]) != config.bins:
            raise ConfigError(f"bins must be {size}, as the owners' rows have, got {config.bins}")
        return cls(context, own)

    @staticmethod
    def parameters(config: ExploreConfig, missing: str) -> TrainConfig:
        """Return the parameters of a training on rows with such bins and labels."""
        objective = {"objective": "multi:ova", "num_class": config.classes} if config.classes > 2 else {}
        bins = {"edges": "joint", "edge_bits": MOST_EDGE_BITS, "max_bin": config.bins}
        return TrainConfig.of(missing=missing, **bins, **objective)

    @property
    def owners(self) -> tuple[OwnerFacts, ...]:
        assert self.own.contributed, "they were opened"
        return self.own.contributed.owners

    def sums(self, party: Party, facts: Explored) -> tuple[np.ndarray, list[SumsOfOwner]]:
        """Return the joint edges of the features explored, float32[d, K], 0 for categories, and the owners' sums.

        Raises DataError at both parties if an owner has too few rows of a class.
        """
        contributed = self.own.contributed
        assert contributed, "they were opened"
        edges = cut_bins(party, self.context, self.own).edges
        unit = None if facts.exponent is None else facts.exponent - WEIGHT_BITS
        found = list(sums_of_owners(party, self.context, contributed, edges, unit, WEIGHT_BITS))
        if facts.config.of_labels:
            _check_owners(party, facts, found)
        place = {name: f for f, name in enumerate(self.context.facts.names)}
        of = np.zeros((len(facts.names[0]), facts.config.bins), np.float32)
        numeric = [f for f, name in enumerate(facts.names[0]) if name in place]
        of[numeric] = edges[[place[facts.names[0][f]] for f in numeric]]

        def joined(words: np.ndarray) -> np.ndarray:
            """Sums by bin of features and indicators -> those of features and categories."""
            out = np.zeros((*words.shape[:-2], len(of), facts.bins), np.uint64)
            last = facts.config.bins
            for f, name in enumerate(facts.names[0]):
                if name in place:
                    out[..., f, :] = words[..., place[name], :]
                    continue
                for c, category in enumerate(facts.categories[name]):
                    hot = words[..., place[indicator(name, category)], :]
                    out[..., f, min(c, last - 1)] += hot[..., 1:last].sum(axis=-1, dtype=np.uint64)
                    out[..., f, last:] = hot[..., last:]
            return out

        return of, [replace(o, labels=o.labels.map(joined), rows=o.rows.map(joined)) for o in found]


def _check_owners(party: Party, facts: Explored, owners: Sequence[SumsOfOwner]) -> None:
    """Raise DataError at both parties if an owner has too few rows of a class, or labels of too small an entropy."""
    config = facts.config
    bits = (facts.spent + sum(facts.bits.values())) / config.floors.bits
    counts, least = [], []
    for each in owners:
        rows = each.owner.rows
        none = each.classes[:0] if config.classes > 2 else rows - each.classes
        counts.append(concatenate([each.classes, none]))
        least.append(least_of_class(rows, config.classes, bits, config.floors.class_rows))
    what = "whether the classes of an owner have enough rows"
    few = opened(party, lambda party: few_rows(party, facts, stack(counts), least), what)
    if few.any():
        k = int(few.argmax())
        raise DataError(
            f"{owners[k].owner.name}: has fewer than {least[k]} rows of a class, which {config.floors.class_rows} rows "
            f"(floors.class_rows) or the bits that are told of its labels (floors.bits) ask for"
        )


def opened(party: Party, steps: Callable[[Party], Steps[Share]], what: str) -> np.ndarray:
    """Run a protocol, and open its result at both parties; an audit takes its verdict before. Stage: explore."""

    def program(party: Party) -> np.ndarray:
        found = party.reveal(party.audit.repeat(party, lambda party: party.run(steps(party))), what=what)
        assert found is not None, "revealed to both"
        return found

    return planned(party, STAGE, program, own_verdicts=True)


def own_sums(
    party: Party, facts: Explored, own: OwnTable, bins: OwnBins | None, joined: Joined | None = None
) -> OwnSums:
    """Add up a party's own rows by bin; by rows, after the joint edges are found. Stage: explore."""
    config, size = facts.config, facts.bins
    vectors = None
    if own.labels.labels is not None and config.of_labels:
        edges = _label_edges(party, facts, own) if config.numbers else None
        vectors = label_vectors(own, config, edges, facts.exponent)
    periods = None if own.period is None else np.stack([own.period == 1, own.period == 0])
    ones = np.ones((1, own.rows), np.uint8)
    counted = [v for v in (vectors, periods, ones) if v is not None]
    every = np.concatenate(counted) if len(counted) > 1 else ones
    parts, starts = [], list[list[float] | list[str]]()
    given, owners = joined.sums(party, facts) if joined else (None, [])
    if bins is not None:
        starts = bins.starts
        parts.append(sums(bins.numbers, size, every))
    else:
        categorical = ~facts.ordered
        for some, features in own.portions(max(facts.rows[:2])):
            without_edges = np.flatnonzero(categorical[some]).tolist()
            joint = (
                joint_edges_of(party, facts.row_count, features, config.bins, without_edges)
                if given is None
                else given[some]
            )
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
        owners,
    )


def joint_edges_of(
    party: Party, rows: int, features: np.ndarray, size: int, categorical: Sequence[int] = ()
) -> np.ndarray:
    """Return the joint edges of some features of so many rows, float32[some, size]; those of `categorical` ones are
    not found.
    """
    own = columns(features, np.ones(len(features), np.int64), EDGE_BITS)
    bits = ceil_log2(rows + 1) + size.bit_length() + 1

    def quantiles(known: Known, rank: np.ndarray, parts: np.ndarray) -> np.ndarray:
        others = without(own, known)

        def program(p: Party) -> np.ndarray:
            # A rehearsal asks no rows.
            up_to = masses_of(others) if p is party else np.zeros_like
            return pooled_quantiles(
                p, lambda keys: p.audit.once(lambda: up_to(keys)), rank, parts, EDGE_BITS, bits, EDGES
            )

        return planned(party, STAGE, program)

    unused = dict.fromkeys(categorical, np.zeros(size, np.float32))
    return joint_edges(quantiles, features.shape[1], size, EDGE_BITS, unused)


def _label_edges(party: Party, facts: Explored, own: OwnTable) -> np.ndarray:
    """Return where the classes of labels that are numbers begin: at own quantiles by columns, at joint ones by rows."""
    labels = own.labels.labels
    assert labels is not None, "the caller has asked"
    if facts.label_holder is not None:
        return cut_labels(labels, facts.config)
    (edges,) = joint_edges_of(party, facts.row_count, labels.astype(np.float32).reshape(-1, 1), facts.config.classes)
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
    every = reduce(add, (each.labels for each in own.owners), concatenate(shares, axis=1))
    totals = every.sum(axis=-1)
    party.audit.zero(totals - totals[:, :1], "the bins of each feature add up to the same sums")
    return every[:groups], every[groups:] - every[:groups]


def between_parties_or_periods(party: Party, facts: Explored, own: OwnSums) -> tuple[AShare, AShare]:
    """[rows], [rows] by bin, [d, bins], of the later and the earlier period or, without periods, of the parties; with
    further owners, of the parties and of the owners.
    """
    if own.owners:
        return AShare(own.rows, party.rank), reduce(add, (each.rows for each in own.owners))
    start = len(facts.names[0]) if facts.label_holder is not None and party.rank == 1 else 0
    whole = np.zeros((2, len(facts.every), facts.bins), np.uint64)
    mine = own.rows[None] if own.periods is None else own.periods
    parts = slice(party.rank, party.rank + 1) if own.periods is None else slice(0, 2)
    whole[parts, start : start + mine.shape[1]] = mine
    return AShare(whole[0], party.rank), AShare(whole[1], party.rank)
