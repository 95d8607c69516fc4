"""What both parties know about a training: the parameters, the agreed facts, and the numbers that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from secure_tree.public.config import TrainConfig
from secure_tree.public.exact import ceil_log2, ln
from secure_tree.public.interactions import Interactions, interactions
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import Numerics, Size, plan_numerics


@dataclass(frozen=True)
class OwnerFacts:
    """What both parties know about an owner who is no party: its name, the id of its contribution, its rows.

    exponent, weight: base-2 exponents of powers of two above its labels in magnitude, if they are numbers, and above
    its weights, if it has any.
    least_owners, until, reveal_to, explore: what it consents to (secure_tree/public/bounds.py); the date as in
    2027-06-30.
    """

    name: str
    id: str
    rows: int
    exponent: int | None = None
    weight: int | None = None
    least_owners: int = field(default=1, kw_only=True)
    until: str | None = field(default=None, kw_only=True)
    reveal_to: tuple[str, ...] = field(default=(), kw_only=True)
    explore: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class OwnerColumns(OwnerFacts):
    """What both parties know about an owner of further columns: besides, its features.

    labelled: whether it has the labels. ids: whether its rows have ids.
    """

    names: tuple[str, ...] = ()
    labelled: bool = False
    ids: bool = False


@dataclass(frozen=True)
class PublicFacts:
    """What both parties know about a training besides its parameters.

    label_scale: power of two by which labels are divided, and with them gradients and margins. power: that of
    `TrainConfig`; margins are logarithms then, and gradients and hessians are divided by `power_unit`. weight_scale:
    power of two by which weights are divided, or None if no row has a weight. masses: for each block of rows an upper
    bound of the sum of its divided weights. label_bound: no label is larger in magnitude. label_holder: the party with
    the labels, 2 + k for owner k, or None if all have. validation_rows: the number of each block's held-out rows.
    indicators: the features that are indicators of a category. owners: the names, ids and rows of the contributions
    trained on. owner_widths: by columns, the number of features of each owner. offsets:
    whether rows have offsets of margins of their own. receivers: who may get the model in the
    clear, by the terms of owners; None: there are none.
    """

    pairing: str
    names: tuple[str, ...]
    layout: Layout
    label_scale: float
    weight_scale: float | None = None
    masses: tuple[float, ...] | None = None
    label_bound: float = 1.0
    label_holder: int | None = None
    validation_rows: tuple[int, ...] = (0, 0)
    indicators: tuple[int, ...] = ()
    power: float | None = None
    owners: tuple[tuple[str, str, int], ...] = ()
    owner_widths: tuple[int, ...] = ()
    receivers: tuple[str, ...] | None = None
    offsets: bool = False

    @property
    def tables(self) -> list[tuple[str, ...]]:
        """The names of the features: by columns those of each party and owner, otherwise of everybody."""
        widths = [*self.layout.widths[:2], *self.owner_widths] if self.layout.vertical else [len(self.names)]
        ends = np.cumsum(widths).tolist()
        return [self.names[end - width : end] for end, width in zip(ends, widths, strict=True)]

    @property
    def margin_unit(self) -> float:
        """The value of a margin or leaf weight that is 1 in the training."""
        return self.label_scale if self.power is None else 1.0

    @property
    def margin_offset(self) -> float:
        """What to add to a margin of the training: the logarithm of the label scale for counts, otherwise 0."""
        return ln(self.label_scale) if self.power == 1 else 0.0

    @property
    def power_unit(self) -> float:
        """The power of two above the label scale to 2 - power; 1 without a power."""
        return 1.0 if self.power is None else 2.0 ** math.ceil((2 - self.power) * ceil_log2(self.label_scale))

    @property
    def hessian_unit(self) -> float:
        """The value of a hessian that is 1 in the training."""
        return (self.weight_scale or 1.0) * self.power_unit

    @property
    def statistics_units(self) -> tuple[float, float]:
        """The values of a gain and of a sum of hessians that are 1 in the training."""
        return self.margin_unit**2 * self.hessian_unit, self.hessian_unit


@dataclass(frozen=True)
class TrainingContext:
    """Parameters and public facts of a training, with its layout and its numerics.

    For a shard, `facts` describes the shard, and `whole` the entire training, which determines the numerics.
    """

    config: TrainConfig
    facts: PublicFacts
    whole: PublicFacts | None = None

    @property
    def layout(self) -> Layout:
        return self.facts.layout

    @cached_property
    def numerics(self) -> Numerics:
        """Scales and ranges. Raises RangeError if the arithmetic cannot hold the training."""
        facts = self.whole or self.facts
        layout = facts.layout
        rows = tuple(layout.rows[p] for p in layout.cover)
        masses: tuple[float, ...] | None = facts.masses
        if masses is not None and layout.vertical:
            masses = (sum(masses),)
        size = Size(rows, masses, facts.margin_unit, facts.hessian_unit)
        return plan_numerics(self.config, size)

    @cached_property
    def directions(self) -> np.ndarray:
        """For every candidate but the null split: whether weights must rise (1), must fall (-1), or are free (0)."""
        return np.array(self.config.directions(self.facts.names))[self.layout.candidate_features]

    @cached_property
    def interactions(self) -> Interactions | None:
        """Which candidates may follow which others on a path; None: all."""
        found = interactions(self.config, self.facts.tables)
        return found and found.at(self.layout.candidate_features)

    def of_rows(self, rows: tuple[int, ...]) -> TrainingContext:
        """Return the context of a shard with these numbers of rows."""
        facts = replace(self.facts, layout=replace(self.layout, rows=rows), validation_rows=(0, 0))
        return TrainingContext(self.config, facts, self.facts)

    def with_label_scale(self, scale: float) -> TrainingContext:
        """Return the context with another label scale."""
        return TrainingContext(self.config, replace(self.facts, label_scale=scale))
