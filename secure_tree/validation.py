"""Rows held out of a training: their margins grow with the trees, and only a metric over all of them is revealed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from mpc.party import Party
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, concatenate, stack
from mpc.verdict import settle
from secure_tree import metrics
from secure_tree.context import TrainingContext
from secure_tree.curves import EXP, quadratics
from secure_tree.ensemble import Routes, TreeShares
from secure_tree.layout import Layout
from secure_tree.numerics import MARGIN_SCALE
from secure_tree.predict import Router, bin_router, row_groups, sum_of_paths
from secure_tree.public import ln
from secure_tree.rows import first_margin, own_rows, targets_of
from secure_tree.schema import Table

_OF_NUMBERS = {"mae": metrics.absolute, "rmse": metrics.squared}


@dataclass
class Validation:
    """[margin] and [label] of the held-out rows, [classes, n], and how the trees reach them."""

    context: TrainingContext
    layout: Layout
    routers: list[Router]
    labels: AShare
    margin: AShare

    def measure(self, party: Party, trees: list[TreeShares], count: int) -> float:
        """Grow the margins by more trees, `count` by now, and reveal to both parties how good they are."""
        config = self.context.config
        self.margin = self.margin + party.run(self._grown(party, trees))
        total = party.run(self._metric(party))
        settle(party)
        opened = party.reveal(total, what=f"{config.metric} of held-out rows after {count} trees")
        assert opened is not None, "revealed to both"
        over = config.classes if config.metric == "auc" else self.layout.row_count
        mean = float(opened) / (1 << MARGIN_SCALE) / over
        if config.logistic:
            return mean
        return (math.sqrt(mean) if config.metric == "rmse" else mean) * self.context.facts.label_scale

    def _grown(self, party: Party, trees: list[TreeShares]) -> Steps[AShare]:
        """What the trees add to the margins."""
        path, leaves = Routes.of(self.layout, trees), stack([t.leaves for t in trees])
        parts = []
        for router in self.routers:
            left = yield from router.route(path)
            parts.append((yield from sum_of_paths(party, left, leaves, self.context.config.classes)))
        return concatenate(parts, axis=1)

    def _metric(self, party: Party) -> Steps[AShare]:
        """[sum of the metric over rows, or of the classes' AUC] at MARGIN_SCALE."""
        config = self.context.config
        margins = yield from metrics.clip(party, self.margin, self.context.numerics.margin_bits)
        if config.metric == "auc":
            each = (metrics.auc(party, margins[k], self.labels[k]) for k in range(config.classes))
            return stack((yield from parallel(*each))).sum()
        if config.num_class:
            of_classes = metrics.class_error if config.metric == "error" else metrics.class_logloss
            return (yield from of_classes(party, margins, self.labels)).sum()
        margin, labels = margins[0], self.labels[0]
        if config.metric == "error":
            cut = ln(config.eval_threshold / (1 - config.eval_threshold))
            return (yield from metrics.error(party, margin, labels, cut)).sum()
        if config.metric == "logloss":
            return (yield from metrics.logloss(party, margin, labels)).sum()
        if config.counts:
            margin = yield from quadratics(party, margin, EXP)
        return (yield from _OF_NUMBERS[config.metric](party, margin, labels)).sum()


def share_validation_rows(
    party: Party, context: TrainingContext, base: AShare, cuts: np.ndarray, table: Table
) -> Steps[Validation]:
    """Own held-out rows and the cuts of the bins -> Validation. A round for each party's rows."""
    config = context.config
    layout = replace(context.layout, rows=context.facts.validation_rows)
    routers = []
    for owners in row_groups(layout):
        routers.append((yield from bin_router(party, layout, owners, cuts, table.features)))
    scale = 0 if config.logistic else MARGIN_SCALE
    labels = own_rows(party, layout, targets_of(context, table.labels), config.classes, scale)
    start = first_margin(base, context, layout.row_count)
    if config.squared:
        # Only the difference counts, and both may be far from 0.
        labels, start = labels - start, start.map(np.zeros_like)
    return Validation(context, layout, routers, labels, start)
