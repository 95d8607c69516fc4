"""What both parties know of a training: the parameters, the facts they agreed on, and the numbers that follow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from secure_tree.config import TrainConfig
from secure_tree.layout import Layout
from secure_tree.numerics import Numerics, Size, plan_numerics
from secure_tree.public import ln


@dataclass(frozen=True)
class PublicFacts:
    """What both parties know of a training besides its parameters.

    Labels are divided by `label_scale` and weights by `weight_scale`, powers of two; the latter is None where no row
    has a weight, and else `masses` has, of each party, a bound of the sum of its weights, so divided. No label exceeds
    `label_bound`. Gradients are divided with the labels, and margins, too; where margins are logarithms
    (`counts`), hessians instead. `label_holder` is None where both have labels. `validation_rows` counts each party's
    held-out rows, which no tree is grown on. `indicators` are the features that stand for a category.
    """

    pairing: str
    names: tuple[str, ...]
    layout: Layout
    label_scale: float
    weight_scale: float | None = None
    masses: tuple[float, float] | None = None
    label_bound: float = 1.0
    label_holder: int | None = None
    validation_rows: tuple[int, int] = (0, 0)
    indicators: tuple[int, ...] = ()
    counts: bool = False

    @property
    def margin_unit(self) -> float:
        """What a margin, or a leaf weight, of 1 in the training stands for."""
        return 1.0 if self.counts else self.label_scale

    @property
    def margin_offset(self) -> float:
        """What is added to margins of the training, that labels are divided."""
        return ln(self.label_scale) if self.counts else 0.0

    @property
    def hessian_unit(self) -> float:
        """What a hessian of 1 in the training stands for."""
        return (self.weight_scale or 1.0) * (self.label_scale if self.counts else 1.0)

    @property
    def statistics_units(self) -> tuple[float, float]:
        """What a gain and a sum of hessians of 1 in the training stand for."""
        return self.margin_unit**2 * self.hessian_unit, self.hessian_unit


@dataclass(frozen=True)
class TrainingContext:
    """Parameters and public facts of a training, with its layout and its numerics.

    Of a shard of the rows, the facts are its own, and `whole` are those of the training, which set the numerics.
    """

    config: TrainConfig
    facts: PublicFacts
    whole: PublicFacts | None = None

    @property
    def layout(self) -> Layout:
        return self.facts.layout

    @cached_property
    def numerics(self) -> Numerics:
        """Scales and ranges. Raises RangeError where the arithmetic cannot hold the training."""
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
        """Of every candidate but the null split: whether weights must rise (1), fall (-1) or neither (0)."""
        return np.array(self.config.directions(self.facts.names))[self.layout.candidate_features]

    def of_rows(self, rows: tuple[int, int]) -> TrainingContext:
        """A shard that has so many of the rows."""
        facts = replace(self.facts, layout=replace(self.layout, rows=rows), validation_rows=(0, 0))
        return TrainingContext(self.config, facts, self.facts)

    def with_label_scale(self, scale: float) -> TrainingContext:
        """The same training with another unit of its labels."""
        return TrainingContext(self.config, replace(self.facts, label_scale=scale))
