"""Training from agreed facts to the finished ensemble: set-up, the plan of correlated randomness, and the trees."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from mpc.errors import WorkersLost
from mpc.matrix.interface import released
from mpc.party import Party
from mpc.planning import Demand, Rehearsal, provide
from mpc.shares import AShare
from secure_tree.data.bins import Bins
from secure_tree.data.own_rows import OwnRows
from secure_tree.model.ensemble import Ensemble, TreeShares
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import TrainingContext
from secure_tree.public.objectives import RISING, Metric
from secure_tree.public.sampling import Samples, alike, samples_by_round, sizes
from secure_tree.setup.continuation import Begun
from secure_tree.setup.orders import find_orders
from secure_tree.training.boost import Boosting, boost_once, finish, set_up
from secure_tree.training.checkpoint import Attempt
from secure_tree.training.validation import HELD_OUT, undefined
from secure_tree.tree.candidates import Order
from secure_tree.tree.rows import Rows, TreeRows

log = logging.getLogger("sharewood")

# A function called after each tree with its number, its shares, and its rows with the gradients and the new margin. If
# it has a method `evaluated`, that is called with the number of rounds and the metrics of each evaluation.
Observer = Callable[[int, TreeShares, TreeRows], None]
# The revealed (number of rounds, metric) pairs on held-out rows, and these curves for all metrics.
LearningCurve = list[tuple[int, float]]
LearningCurves = dict[Metric, LearningCurve]
# Rounds of trees that are planned at a time if workers may be lost, in which case they are planned again.
ROUNDS_AHEAD = 8
ROWS, TREES = "rows and margins", "trees"
# How often workers are replaced until a round is whole.
MOST_RECOVERIES = 10


def train(
    party: Party,
    context: TrainingContext,
    base: AShare,
    bins: Bins,
    own: OwnRows,
    curves: LearningCurves,
    observer: Observer | None = None,
    attempt: Attempt | None = None,
    begun: Begun | None = None,
) -> Ensemble:
    """Grow the trees and return the ensemble. Append metrics on held-out rows to `curves` as they are revealed.

    [base] is the margin before the first tree (`secure_tree.setup.base_score`).

    Held-out rows are evaluated after every `eval_epochs` rounds and at the end. With early stopping, training stops
    when the best evaluation is `early_stopping_rounds` rounds old, and the trees after it are dropped.

    Stages of the meter: setup, offline, online. Correlated randomness is requested before the first round and arrives
    while the trees grow. With early stopping it is requested only up to the next evaluation, so that none is left over,
    and with workers a few rounds ahead. If a worker is lost, the training returns to the last complete round.

    An `attempt` saves every round. Rounds that it has already are evaluated but not grown again. If the training
    continues a model (`begun`), only its further rounds are grown, and only these can be dropped.
    """

    def begin(party: Party) -> Boosting:
        boosting = party.audit.run(party, lambda party: party.run(set_up(party, context, base, bins, own, begun)))
        party.audit.remember(HELD_OUT, boosting.validation)
        party.audit.remember(TREES)
        return boosting

    config, first = context.config, begun.rounds if begun else 0
    rounds, margin = samples_by_round(context)[first:], begun.margin(context) if begun else None
    if attempt and attempt.margin is not None:
        margin = attempt.margin
    with party.stage("setup"):
        rehearsal = _Rehearsal(party, begin)
        provide(party, [rehearsal.cut()])
        boosting = begin(party)
        try:
            boosting.rows.begin(party, margin)
        except WorkersLost as lost:
            _recover(party, boosting, lost)
        try:
            _order(party, boosting)
        except WorkersLost as lost:
            _recover(party, boosting, lost)
            _order(party, boosting)
        party.audit.remember(ROWS, *_of_rounds(boosting))
    trees, curve = list[TreeShares](), curves[config.metric]
    if attempt and attempt.margin is not None:
        trees = list(attempt.trees)
        party.audit.remember(TREES, *trees)
        rehearsal.like(trees[: config.trees_of_round])
    step = config.eval_epochs if boosting.validation else ROUNDS_AHEAD if party.workers else len(rounds)
    stepwise = bool(config.early_stopping_rounds or party.workers)

    def provide_from(start: int) -> None:
        with party.stage("offline"):
            following = rounds[max(start, len(trees) // config.trees_of_round) : start + step]
            provide(party, rehearsal.step(following, min(start + step, len(rounds)) - start))

    with released(party, boosting.matrices):
        if not stepwise:
            for start in range(0, len(rounds), step):
                provide_from(start)
            with party.stage("offline"):
                provide(party, rehearsal.finish(len(rounds)))
        for start in range(0, len(rounds), step):
            end = min(start + step, len(rounds))
            if stepwise:
                provide_from(start)
            with party.stage("online"):
                while len(trees) < end * config.trees_of_round:
                    samples = rounds[len(trees) // config.trees_of_round]
                    try:
                        done = len(trees) // config.trees_of_round
                        number = (first + done) * config.trees_of_round
                        trees += _grow(party, boosting, samples, number, done + 1, observer, attempt)
                    except WorkersLost as lost:
                        party.randomness.discard()
                        _recover(party, boosting, lost)
                        provide_from(start)
                if boosting.validation:
                    grown = trees[start * config.trees_of_round : end * config.trees_of_round]
                    measured = boosting.validation.measure(party, grown, first + end)
                    for metric, value in measured.items():
                        curves[metric].append((first + end, value))
                        if math.isnan(value):
                            log.warning("%s of held-out rows is undefined, because they lack a class", metric)
                    if tell := getattr(observer, "evaluated", None):
                        tell(first + end, measured)
                    if config.early_stopping_rounds and math.isnan(curve[-1][1]):
                        raise undefined(config.metric)
            if config.early_stopping_rounds and first + end - best_round(curve, config) >= config.early_stopping_rounds:
                break
        if config.early_stopping_rounds:
            trees = trees[: (best_round(curve, config) - first) * config.trees_of_round]
        if stepwise:
            with party.stage("offline"):
                provide(party, rehearsal.finish(len(trees) // config.trees_of_round))
        with party.stage("online"):
            ensemble = _finished(party, boosting, trees)
    return ensemble


def _grow(
    party: Party,
    boosting: Boosting,
    samples: Samples,
    number: int,
    kept: int,
    observer: Observer | None,
    attempt: Attempt | None,
) -> list[TreeShares]:
    """One round of trees, from tree `number` on; kept as round `kept` (from 1), and shown to the observer."""
    grown = _whole_round(party, boosting, samples)
    trees = [tree for tree, _ in grown]
    boosting.rows.keep(party)
    if attempt:
        attempt.save(kept, trees, boosting.rows.margin)
    if observer:
        for k, (tree, rows) in enumerate(grown):
            observer(number + k, tree, rows)
    return trees


def _whole_round(party: Party, boosting: Boosting, samples: Samples) -> list[tuple[TreeShares, TreeRows]]:
    """One round of trees, in an audit with its verdict."""

    def program(party: Party, rows: Rows) -> list[tuple[TreeShares, TreeRows]]:
        return party.run(boost_once(party, replace(boosting, rows=rows), samples))

    party.audit.require_unchanged(ROWS, *_of_rounds(boosting))
    grown = party.audit.run(party, program, boosting.rows)
    party.audit.remember(ROWS, *_of_rounds(boosting))
    party.audit.remember(TREES, *(tree for tree, _ in grown), more=True)
    return grown


def _order(party: Party, boosting: Boosting) -> None:
    """Order the categories of columns that are split by sets, in an audit with its verdict. Rows must have begun."""
    if boosting.context.layout.sets:

        def program(party: Party, rows: Rows) -> list[tuple[Order, ...]]:
            return party.run(find_orders(party, boosting.context, rows))

        boosting.orders = party.audit.run(party, program, boosting.rows)


def _of_rounds(boosting: Boosting) -> tuple[object, ...]:
    """What stays in memory from round to round."""
    return boosting.rows, boosting.candidates, boosting.edges, boosting.orders


def _finished(party: Party, boosting: Boosting, trees: list[TreeShares]) -> Ensemble:
    """The ensemble of these trees, in an audit with its verdict."""
    party.audit.require_unchanged(TREES, *trees)
    return party.audit.run(party, lambda party: party.run(finish(party, boosting, trees)))


def _recover(party: Party, boosting: Boosting, lost: WorkersLost) -> None:
    """Return to the end of the last complete round with new workers. Raises WorkersLost if these are lost as well."""
    for _ in range(MOST_RECOVERIES):
        log.warning("%s: all workers restart from the last complete round of trees", lost)
        try:
            return boosting.rows.recover(party)
        except WorkersLost as again:
            lost = again
    raise lost


class _Rehearsal(Rehearsal):
    """The same training on zeros, one step ahead, to find the demand of each step."""

    def __init__(self, like: Party, begin: Callable[[Party], Boosting]) -> None:
        super().__init__(like)
        self._boosting = begin(self.party)
        _order(self.party, self._boosting)
        self._trees = list[TreeShares]()
        self._rounds = dict[tuple[tuple[int, int], ...], Demand]()

    def like(self, trees: list[TreeShares]) -> None:
        """Use the trees of an earlier round, whose shapes are those of later rounds."""
        self._trees = trees

    def step(self, rounds: Sequence[Samples], count: int) -> list[Demand]:
        """Return the demand to grow rounds of trees and to evaluate the last `count` on the held-out rows."""
        plan = [replace(self._round(samples), times=times) for samples, times in alike(self._boosting.context, rounds)]
        if validation := self._boosting.validation:
            validation.measure(self.party, self._trees * count, 0)
            plan.append(self.cut())
        return plan

    def _round(self, samples: Samples) -> Demand:
        """Return the demand to grow a round of trees, rehearsed once for samples of these sizes."""
        shape = sizes(self._boosting.context, samples)
        if shape not in self._rounds:
            self._trees = [tree for tree, _ in _whole_round(self.party, self._boosting, samples)]
            self._rounds[shape] = self.cut()
        return self._rounds[shape]

    def finish(self, count: int) -> list[Demand]:
        """Return the demand to finish a model of `count` rounds and to release what was kept.

        After these, the training needs no dealer.
        """
        _finished(self.party, self._boosting, self._trees * count)
        plan = [self.cut()]
        for matrix in self._boosting.matrices:
            matrix.release(self.party)
        return [*plan, self.cut()]


def best_round(curve: LearningCurve, config: TrainConfig) -> int:
    """Return the number of rounds with the best metric so far, the earliest of equal ones."""
    sign = -1 if config.metric in RISING else 1
    return min(curve, key=lambda point: sign * point[1])[0]
