"""Held-out rows of a training: every tree is added to their margins, and only metrics over all of them are revealed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mpc.errors import DataError
from mpc.functions.sigmoid import sigmoid
from mpc.party import Party
from mpc.rings import Z64
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, concatenate, stack
from secure_tree.data.own_rows import OwnRows, labels_of_owners
from secure_tree.functions import metrics, powers
from secure_tree.functions.curves import EXP, quadratics
from secure_tree.model.ensemble import Routes, TreeShares
from secure_tree.prediction.paths import sum_of_paths
from secure_tree.prediction.routers import HiddenBins, Router, bin_router, row_groups, shared_bin_router
from secure_tree.public.context import TrainingContext
from secure_tree.public.exact import ln
from secure_tree.public.layout import Layout
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.public.objectives import Metric
from secure_tree.tree.rows import first_margin, offsets_of, own_rows, targets_of, with_contributed

HELD_OUT = "held-out rows"
_OF_POWERS: dict[Metric, Callable[[Party, TrainingContext, AShare, AShare], Steps[AShare]]] = {
    "gamma-deviance": powers.gamma_deviance,
    "gamma-nloglik": powers.gamma_nloglik,
    "tweedie-nloglik": powers.tweedie_nloglik,
}
_OF_NUMBERS: dict[Metric, Callable[[Party, AShare, AShare], Steps[AShare]]] = {
    "mae": metrics.absolute,
    "rmse": metrics.squared,
}


@dataclass
class Validation:
    """[margin] and [label] of the held-out rows, [classes, n], and the routers that send them through the trees."""

    context: TrainingContext
    layout: Layout
    routers: list[Router]
    labels: AShare
    margin: AShare

    def measure(self, party: Party, trees: list[TreeShares], count: int) -> dict[Metric, float]:
        """Add more trees to the margins, `count` in total, and reveal the metrics to both parties."""
        config = self.context.config

        def program(party: Party, rows: Validation) -> AShare:
            rows.margin = rows.margin + party.run(rows._grown(party, trees))
            return party.run(rows._metrics(party))

        party.audit.require_unchanged(HELD_OUT, self)
        totals = party.audit.repeat(party, program, self)
        party.audit.remember(HELD_OUT, self)
        what = f"{', '.join(config.metrics)} of held-out rows after {count} trees"
        opened = party.reveal(totals, what=what, units=True)
        assert opened is not None, "revealed to both"
        return {metric: self._mean(metric, float(total)) for metric, total in zip(config.metrics, opened, strict=True)}

    def _mean(self, metric: Metric, total: float) -> float:
        """Compute a metric from its sum over rows; NaN, as in XGBoost, if it is undefined."""
        config = self.context.config
        mean = total / (1 << MARGIN_SCALE) / self.layout.row_count
        if metric in metrics.OF_ALL_ROWS:
            if not total:
                return math.nan
            return 2 * mean - 3 if metric == "gini" else mean - 1
        if not config.scaled:
            return math.sqrt(mean) if metric == "rmse" else mean
        if metric in _OF_POWERS:
            return mean * self.context.facts.power_unit
        if metric == "mphe":
            return mean * config.huber_slope**2
        return (math.sqrt(mean) if metric == "rmse" else mean) * self.context.facts.label_scale

    def _grown(self, party: Party, trees: list[TreeShares]) -> Steps[AShare]:
        """Return [what the trees add to the margins], [classes, n]."""
        path, leaves = Routes.of(self.layout, trees), stack([t.leaves for t in trees])
        parts = []
        for router in self.routers:
            left = yield from router.route(party, path, slice(None))
            parts.append((yield from sum_of_paths(party, left, leaves, self.context.config.classes)))
        return concatenate(parts, axis=1)

    def _metrics(self, party: Party) -> Steps[AShare]:
        """Return [sum of each metric over rows] at MARGIN_SCALE."""
        margins = self.margin
        if not self.context.config.pseudo_huber:
            margins = yield from metrics.clip(party, margins, self.context.numerics.margin_bits)
        sums = yield from parallel(*(self._sum(party, metric, margins) for metric in self.context.config.metrics))
        return stack(list(sums))

    def _sum(self, party: Party, metric: Metric, margins: AShare) -> Steps[AShare]:
        config = self.context.config
        if metric in metrics.OF_ALL_ROWS:
            return (yield from metrics.of_ranking(party, metric, margins, self.labels, config.softmax)).sum()
        if config.num_class:
            of_classes = metrics.softmax_logloss if config.softmax else metrics.class_logloss
            if metric == "error":
                of_classes = metrics.class_error
            return (yield from of_classes(party, margins, self.labels)).sum()
        margin, labels = margins[0], self.labels[0]
        if metric == "error":
            cut = ln(config.eval_threshold / (1 - config.eval_threshold))
            return (yield from metrics.error(party, margin, labels, cut)).sum()
        if metric == "logloss":
            return (yield from metrics.logloss(party, margin, labels)).sum()
        if metric in _OF_POWERS:
            return (yield from _OF_POWERS[metric](party, self.context, margin, labels)).sum()
        if metric == "mphe":
            return (yield from metrics.pseudo_huber(party, margin, labels, self.context.numerics.margin_bits)).sum()
        if config.log_odds:
            margin, _ = yield from sigmoid.steps(party, margin, MARGIN_SCALE, Z64)
        if config.counts:
            margin = yield from quadratics(party, margin, EXP)
        return (yield from _OF_NUMBERS[metric](party, margin, labels)).sum()


def undefined(metric: Metric) -> DataError:
    """Return the error if a metric by which rounds or parameters are chosen is undefined."""
    return DataError(
        f"{metric} must be defined to choose by it, but the held-out rows lack a class: hold out rows of every class, "
        "or choose by logloss"
    )


def share_validation_rows(
    party: Party, context: TrainingContext, base: AShare, cuts: np.ndarray, own: OwnRows
) -> Steps[Validation]:
    """Own held-out rows and the cuts of the bins -> Validation. One round per group of rows of parties."""
    config = context.config
    layout = replace(context.layout, rows=context.facts.validation_rows)
    routers, joined = [], own.contributed_columns
    for owners in row_groups(layout.of_parties):
        hidden = HiddenBins([joined.held_out], True) if joined and joined.held_out else None
        routers.append((yield from bin_router(party, layout, owners, cuts, own.validation.features, hidden)))
    if own.contributed:
        routers += [shared_bin_router(lines) for lines in own.contributed.held_out if lines]
    scale = 0 if config.logistic else MARGIN_SCALE
    labels = own_rows(party, layout, targets_of(context, own.validation.labels), config.classes, scale)
    if more := labels_of_owners(own):
        labels = with_contributed(layout, labels, more.validation_targets)
    start = first_margin(base, context, layout.row_count) + offsets_of(party, context, layout, own.validation)
    if config.squared:
        # Only the difference matters, and both may be far from 0.
        labels, start = labels - start, start.map(np.zeros_like)
    return Validation(context, layout, routers, labels, start)
