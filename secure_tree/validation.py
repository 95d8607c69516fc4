"""Rows held out of a training: their margins grow with the trees, and only a number that judges them is revealed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from mpc.party import Party
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, concatenate, stack
from secure_tree import metrics
from secure_tree.binning import Bins
from secure_tree.boost import first_margin, own_rows, routes, scales, targets
from secure_tree.config import TrainConfig
from secure_tree.curves import EXP, quadratics
from secure_tree.layout import Facts, Layout
from secure_tree.numerics import MARGIN_SCALE
from secure_tree.predict import Router, bin_router, row_groups, sum_of_paths
from secure_tree.public import ln
from secure_tree.schema import Table
from secure_tree.tree import TreeShares

_JUDGES = {"logloss": metrics.logloss, "mae": metrics.absolute, "rmse": metrics.squared}


@dataclass
class Validation:
    """[margin] and [label] of the held-out rows, [classes, n], and how the trees reach them."""

    config: TrainConfig
    facts: Facts
    layout: Layout
    routers: list[Router]
    labels: AShare
    margin: AShare

    def measure(self, party: Party, trees: list[TreeShares], count: int) -> float:
        """Grow the margins by more trees, `count` by now, and reveal to both parties how good they are."""
        self.margin = self.margin + party.run(self._steps(party, trees))
        judged = party.run(self._judge(party))
        opened = party.reveal(judged, what=f"{self.config.metric} of held-out rows after {count} trees")
        assert opened is not None, "revealed to both"
        over = self.config.classes if self.config.metric == "auc" else self.layout.row_count
        mean = float(opened) / (1 << MARGIN_SCALE) / over
        if self.config.logistic:
            return mean
        return (math.sqrt(mean) if self.config.metric == "rmse" else mean) * self.facts.label_scale

    def _steps(self, party: Party, trees: list[TreeShares]) -> Steps:
        path, leaves = routes(self.layout, trees), stack([t.leaves for t in trees])
        parts = []
        for router in self.routers:
            left = yield from router.route(path)
            parts.append((yield from sum_of_paths(party, left, leaves, self.config.classes)))
        return concatenate(parts, axis=1)

    def _judge(self, party: Party) -> Steps:
        margins = yield from metrics.clip(party, self.margin, scales(self.config, self.facts).margin_bits)
        if self.config.metric == "auc":
            each = (metrics.auc(party, margins[k], self.labels[k]) for k in range(self.config.classes))
            return stack((yield from parallel(*each))).sum()
        if self.config.num_class:
            judge = metrics.class_error if self.config.metric == "error" else metrics.class_logloss
            return (yield from judge(party, margins, self.labels)).sum()
        margin, labels = margins[0], self.labels[0]
        if self.config.counts:
            margin = yield from quadratics(party, margin, EXP)
        if self.config.metric == "error":
            threshold = self.config.eval_threshold
            return (yield from metrics.error(party, margin, labels, ln(threshold / (1 - threshold)))).sum()
        return (yield from _JUDGES[self.config.metric](party, margin, labels)).sum()


def set_up_validation(party: Party, config: TrainConfig, facts: Facts, base: AShare, bins: Bins, held: Table) -> Steps:
    """Own held-out rows -> Validation. A round for each party's rows."""
    layout = replace(facts.layout, rows=facts.held)
    routers = []
    for owners in row_groups(layout):
        routers.append((yield from bin_router(party, layout, owners, bins.cuts, held.features)))
    labels = own_rows(party, layout, targets(config, facts, held.labels), config.classes)
    start = first_margin(base, facts, layout.row_count)
    if config.squared:
        # Only the difference counts, and both may be far from 0.
        labels, start = labels - start, start.map(np.zeros_like)
    return Validation(config, facts, layout, routers, labels, start)
