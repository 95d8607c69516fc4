"""A training from agreed facts to the finished ensemble: set-up, the plan of correlated randomness, the trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mpc.correlation import Correlation
from mpc.linear_map import released
from mpc.party import Party
from mpc.shares import AShare
from mpc.tracing import Trace
from mpc.verdict import settle
from secure_tree.binning import Bins
from secure_tree.boost import Boosting, boost_once, finish, set_up
from secure_tree.checkpoint import Attempt
from secure_tree.config import RISING, Metric, TrainConfig
from secure_tree.context import TrainingContext
from secure_tree.ensemble import Ensemble, TreeShares
from secure_tree.sampling import Samples, alike, samples_by_round
from secure_tree.schema import Table

# Called after each tree with its number, its shares, the shares of (g, h) it was grown on, and of the new margin.
Observer = Callable[[int, TreeShares, AShare, AShare], None]
# What was revealed of held-out rows: number of rounds, metric; and the curves of all metrics.
Curve = list[tuple[int, float]]
Curves = dict[Metric, Curve]
# Requests of correlated randomness, and how many times they are made.
Step = tuple[list[Correlation[object]], int]


def train(
    party: Party,
    context: TrainingContext,
    base: AShare,
    bins: Bins,
    table: Table,
    validation: Table,
    curves: Curves,
    observer: Observer | None = None,
    attempt: Attempt | None = None,
) -> Ensemble:
    """Grow the trees -> the ensemble. What is revealed of the held-out rows is added to `curves` as it comes.

    [base] is the margin before the first tree, of `secure_tree.base_score`.

    Held-out rows are evaluated after each `eval_epochs` rounds and at the end. With early stopping, training ends once
    the best of these numbers is `early_stopping_rounds` old, and the trees after the best are dropped.
    Stages of the meter: setup, offline, online. Correlated randomness is asked for before the first round, and comes in
    while the trees grow; with early stopping it is asked for up to the next evaluation, so that none is left over.
    An `attempt` keeps every round; the rounds that it has already are evaluated again, not grown again.
    """

    def begin(party: Party) -> Boosting:
        boosting = party.run(set_up(party, context, base, bins, table, validation))
        settle(party)
        return boosting

    config, rounds = context.config, samples_by_round(context)
    with party.stage("setup"):
        rehearsal = _Rehearsal(party, begin)
        party.randomness.provide([rehearsal.asked()])
        boosting = begin(party)
    trees, curve = list[TreeShares](), curves[config.metric]
    if attempt and attempt.margin is not None:
        trees = list(attempt.trees)
        boosting.rows.go_on(attempt.margin)
        rehearsal.like(trees[: config.classes])
    step = config.eval_epochs if boosting.validation else len(rounds)
    plans = rehearsal.steps(rounds, len(trees) // config.classes, step)
    with released(party, boosting.matrices):
        if not config.early_stopping_rounds:
            with party.stage("offline"):
                for plan in plans:
                    party.randomness.provide(plan)
                party.randomness.provide(rehearsal.finish(len(rounds)))
        for start in range(0, len(rounds), step):
            end = min(start + step, len(rounds))
            if config.early_stopping_rounds:
                with party.stage("offline"):
                    party.randomness.provide(next(plans))
            with party.stage("online"):
                for samples in rounds[max(start, len(trees) // config.classes) : end]:
                    trees += _grow(party, boosting, samples, len(trees), observer, attempt)
                if boosting.validation:
                    grown = trees[start * config.classes : end * config.classes]
                    for metric, value in boosting.validation.measure(party, grown, end).items():
                        curves[metric].append((end, value))
            if config.early_stopping_rounds and end - best_round(curve, config) >= config.early_stopping_rounds:
                break
        if config.early_stopping_rounds:
            trees = trees[: best_round(curve, config) * config.classes]
            with party.stage("offline"):
                party.randomness.provide(rehearsal.finish(len(trees) // config.classes))
        with party.stage("online"):
            ensemble = party.run(finish(party, boosting, trees))
            settle(party)
    return ensemble


def _grow(
    party: Party,
    boosting: Boosting,
    samples: Samples,
    number: int,
    observer: Observer | None,
    attempt: Attempt | None,
) -> list[TreeShares]:
    """One round of trees, from tree `number` on; kept, and shown to the observer."""
    grown = party.run(boost_once(party, boosting, samples))
    settle(party)
    trees = [tree for tree, _ in grown]
    if attempt:
        attempt.save(number // len(trees) + 1, trees, boosting.rows.margin)
    if observer:
        for k, (tree, values) in enumerate(grown):
            observer(number + k, tree, values, boosting.rows.margins[k])
    return trees


class _Rehearsal:
    """The same training on zeros, a step ahead: what each step asks of the dealer."""

    def __init__(self, party: Party, begin: Callable[[Party], Boosting]) -> None:
        self._trace = Trace(party)
        self._boosting = begin(self._trace.party)
        self._trees = list[TreeShares]()
        self._asked = dict[tuple[int, ...], list[Correlation[object]]]()

    def like(self, trees: list[TreeShares]) -> None:
        """Trees of a round that was grown before, whose shapes those to come have, too."""
        self._trees = trees

    def asked(self) -> Step:
        """What was asked for since the last call."""
        return self._trace.cut(), 1

    def steps(self, rounds: Sequence[Samples], grown: int, step: int) -> Iterator[list[Step]]:
        """To grow rounds of trees, but those that are `grown`, and to evaluate them on the held-out rows; by `step`."""
        for start in range(0, len(rounds), step):
            end = min(start + step, len(rounds))
            plan = [(self._round(samples), times) for samples, times in alike(rounds[max(start, grown) : end])]
            if validation := self._boosting.validation:
                validation.measure(self._trace.party, self._trees * (end - start), 0)
                plan.append(self.asked())
            yield plan

    def _round(self, samples: Samples) -> list[Correlation[object]]:
        """To grow a round of trees: rehearsed once for samples of these sizes."""
        sizes = tuple(map(len, samples))
        if sizes not in self._asked:
            grown = self._trace.party.run(boost_once(self._trace.party, self._boosting, samples))
            settle(self._trace.party)
            self._trees = [tree for tree, _ in grown]
            self._asked[sizes] = self._trace.cut()
        return self._asked[sizes]

    def finish(self, count: int) -> list[Step]:
        """To finish a model of so many rounds, and to release what was kept: then a training needs no dealer."""
        party, boosting = self._trace.party, self._boosting
        party.run(finish(party, boosting, self._trees * count))
        settle(party)
        plan = [self.asked()]
        for matrix in boosting.matrices:
            matrix.release(party)
        return [*plan, self.asked()]


def best_round(curve: Curve, config: TrainConfig) -> int:
    """Rounds at the best number so far; the earliest of equals."""
    sign = -1 if config.metric in RISING else 1
    return min(curve, key=lambda point: sign * point[1])[0]
