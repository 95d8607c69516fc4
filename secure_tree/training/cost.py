"""What a training requires of the network and of the dealer, computed from public sizes only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpc.checks.verdict import Auditor
from mpc.endpoint import ROUND_PRICE, Audit
from mpc.errors import ConfigError, SharewoodError
from mpc.planning import Demand, Rehearsal
from mpc.shares import BShare
from secure_tree.agreement.training import check_bins, check_declared, check_directions, check_validation_rows
from secure_tree.data.contributed import Contributed
from secure_tree.data.contributed_columns import ContributedColumns
from secure_tree.data.own_rows import Here
from secure_tree.data.table import Table, held_count, held_rows
from secure_tree.owners.admission import admit
from secure_tree.owners.column_admission import admit_columns
from secure_tree.owners.columns import OwnersOfColumns, shapes
from secure_tree.owners.contributing import refuse_unsupported
from secure_tree.owners.encoding import WEIGHT_BITS, label_width
from secure_tree.public.bounds import NO_BOUNDS, Bounds
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import OwnerColumns, OwnerFacts, PublicFacts, TrainingContext
from secure_tree.public.exact import ceil_log2
from secure_tree.public.layout import lay_out
from secure_tree.public.names import is_indicator
from secure_tree.public.sampling import alike, samples_by_round
from secure_tree.setup.base_score import settle
from secure_tree.setup.edges import cut_bins
from secure_tree.setup.orders import find_orders
from secure_tree.training.boost import boost_once, finish, set_up


@dataclass(frozen=True)
class Sizes:
    """The public sizes of both tables.

    rows, names: row counts and feature names of each party; a name that contains = is that of an indicator.
    validation_rows: the numbers of separate rows for validation; None: `test_size` of the rows is held out.
    largest_weight: None if no row has a weight. audit: whether the parties check their computation. owner_rows: by
    rows, the rows of each owner who is no party. owner_names: by columns, the feature names of each. round_price: as of
    the parties.
    """

    rows: tuple[int, int]
    names: tuple[tuple[str, ...], tuple[str, ...]]
    validation_rows: tuple[int, int] | None = None
    largest_weight: float | None = None
    audit: bool = False
    owner_rows: tuple[int, ...] = ()
    owner_names: tuple[tuple[str, ...], ...] = ()
    round_price: int = ROUND_PRICE

    @classmethod
    def numeric(cls, rows: tuple[int, int], features: int) -> Sizes:
        """Return the sizes of horizontal tables with numeric features only."""
        names = tuple(f"f{i}" for i in range(features))
        return cls(rows, (names, names))

    def context(self, config: TrainConfig) -> TrainingContext:
        """Return the context that the parties would agree on. Raises ConfigError for inconsistent sizes."""
        rows, held_out, names = self.rows, self.validation_rows, self.names
        if held_out is None:
            held_out = held_count(config, rows[0]), held_count(config, rows[1])
            rows = rows[0] - held_out[0], rows[1] - held_out[1]
        vertical = config.partition == "vertical"
        if vertical and (rows[0] != rows[1] or held_out[0] != held_out[1]):
            raise ConfigError("both parties of vertical data must have the same number of rows")
        if not vertical and names[0] != names[1]:
            raise ConfigError("both parties of horizontal data must have the same features")
        joined = sum(self.owner_names, ())
        check_declared(config, (*names, joined))
        check_validation_rows(held_out)
        every = names[0] + names[1] + joined if vertical else names[0]
        if not every:
            raise ConfigError("at least one party must have features, got none")
        weight_scale = masses = None
        if self.largest_weight is not None:
            weight_scale = math.ldexp(1.0, ceil_log2(self.largest_weight))
            bounds = [math.ldexp(1.0, ceil_log2(max(n, 1) * self.largest_weight)) / weight_scale for n in rows]
            masses = min(bounds[0], rows[0]), 0.0 if vertical else min(bounds[1], rows[1])
        indicators = tuple(f for f, name in enumerate(every) if is_indicator(name))
        held = [held_count(config, n) for n in self.owner_rows]
        left = [n - out for n, out in zip(self.owner_rows, held, strict=True)]
        more = (sum(left),) if left else ()
        further = [(joined, rows[0])] if joined else [(names[0], n) for n in more]
        layout = lay_out(config, (*names, *(own for own, _ in further)), (*rows, *(n for _, n in further)))
        check_bins(layout)
        check_directions(config, every, layout)
        facts = PublicFacts(
            pairing="",
            names=every,
            layout=layout,
            label_scale=config.huber_slope if config.pseudo_huber else 1.0,
            weight_scale=weight_scale,
            masses=masses and (*masses, *(float(n) for n in more)),
            label_holder=0 if vertical else None,
            validation_rows=(*held_out, *([held_out[0]] if joined else [sum(held)] if left else [])),
            indicators=indicators,
            power=config.power,
            owners=tuple((f"owner {k}", "", n) for k, n in enumerate(left or [rows[0]] * len(self.owner_names))),
            owner_widths=tuple(map(len, self.owner_names)),
        )
        return TrainingContext(config, facts)


@dataclass(frozen=True)
class _Zeros:
    """Implements `ContributedBins` in a rehearsal."""

    owners: tuple[OwnerFacts, ...]
    bounds: Bounds = NO_BOUNDS

    def at(self, edges: np.ndarray, missing: bool) -> Iterator[BShare]:
        width = edges.shape[0] * (edges.shape[1] + missing)
        return (BShare(np.zeros((owner.rows, width), np.uint8), 0) for owner in self.owners)

    def refuse(self, owner: OwnerFacts, error: SharewoodError) -> None:
        raise error

    def confirm(self) -> None:
        """Do nothing."""


def contributed_zeros(context: TrainingContext, rows: Sequence[int]) -> Contributed:
    """Return contributions of these numbers of rows for a rehearsal at party 0, with weights if any row has one."""
    config, scale = context.config, context.facts.weight_scale
    weight = None if scale is None else ceil_log2(scale)
    names = [name for name, *_ in context.facts.owners]
    owners = tuple(OwnerFacts(name, "", n, weight=weight) for name, n in zip(names, rows, strict=True))

    def zeros(width: int) -> list[Any]:
        return [BShare(np.zeros((width, owner.rows), np.uint8), 0) for owner in owners]

    searched = config.searched(context.facts.names)
    counts = np.zeros((len(searched), 1 << config.edge_bits), np.uint32)
    held = [held_rows(config, owner.rows) for owner in owners]
    weights = [None] * len(owners) if weight is None else zeros(WEIGHT_BITS)
    return Contributed(
        owners, zeros(label_width(config)), weights, [counts] * len(owners), held, _Zeros(owners), searched=searched
    )


def columns_of_zeros(config: TrainConfig, rows: int, names: Sequence[tuple[str, ...]]) -> ContributedColumns:
    """Return contributions of columns with these names for a rehearsal at party 0, without labels."""
    owners = {f"owner {k}": OwnerColumns(f"owner {k}", "", rows, names=own) for k, own in enumerate(names)}
    parts = [shapes(config, owner) for owner in owners.values()]
    bits = [np.zeros(-(-sum(map(math.prod, each.values())) // 8), np.uint8) for each in parts]
    return ContributedColumns(config, 0, owners, parts, bits, [None] * len(bits), OwnersOfColumns({}))


def plan_training(config: TrainConfig, sizes: Sizes, dealer: bool = True) -> list[Demand]:
    """Return the demand at party 0 of set-up, rounds of trees, evaluations of held-out rows, and the finished model.

    The label scale of a regression is assumed to be 1; rounds and bytes do not depend on it. The demand may differ from
    that of the training in three cases. Early stopping may need less. With `colsample_bytree`, the public coin may draw
    features with more or fewer candidates, if some are indicators, may be missing or are constrained. Joint edges of
    features with frequent values need further passes of the bisection, which do not follow from sizes. Raises
    RangeError.
    """
    context = sizes.context(config)
    layout, names = context.layout, sizes.names[0]
    rows = layout.rows[0], context.facts.validation_rows[0]
    table, held_out = (Table(np.zeros((n, len(names)), np.float32), names) for n in rows)
    columns = columns_of_zeros(config, sum(rows), sizes.owner_names) if sizes.owner_names else None
    own = Here(table, held_out, contributed_zeros(context, sizes.owner_rows) if sizes.owner_rows else None, columns)
    rehearsal = Rehearsal.at(0, dealer, sizes.round_price)
    party = rehearsal.party
    party.audit = Auditor() if sizes.audit else Audit()
    demands: list[Demand] = []

    def record(step: str, times: int = 1) -> None:
        party.audit.settle(party)
        demands.append(rehearsal.cut(step, times))

    bins = cut_bins(party, context, own)
    if own.contributed:
        refuse_unsupported(config)
        admit(party, context, own.contributed, bins.edges)
    if columns:
        admit_columns(party, context, columns)
    context, base = settle(party, context, own)
    if config.squared:
        context = context.with_label_scale(1.0)
    boosting = party.run(set_up(party, context, base, bins, own))
    if layout.sets:
        boosting.orders = party.run(find_orders(party, context, boosting.rows))
    record("set-up")
    for samples, times in alike(context, samples_by_round(context)):
        grown = party.run(boost_once(party, boosting, samples))
        record("one round of trees", times)
    trees = [tree for tree, _ in grown]
    whole, rest = divmod(config.n_estimators, config.eval_epochs)
    for count, times in ((config.eval_epochs, whole), (rest, 1)):
        if boosting.validation and count and times:
            boosting.validation.measure(party, trees * count, 0)
            record(f"evaluation of {count} rounds", times)
    party.run(finish(party, boosting, trees * config.n_estimators))
    record("finish")
    return demands
