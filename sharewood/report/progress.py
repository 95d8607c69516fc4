"""Show the progress of a training: a bar on a terminal, otherwise lines in the log; and metrics as they come."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from mpc.errors import WorkersLost
from mpc.meter import Stage
from mpc.party import Party
from secure_tree.public.config import TrainConfig
from secure_tree.training.train import LearningCurves
from sharewood.logs import on_terminal
from sharewood.report.figures import Phase
from sharewood.report.shards import ShardCosts, by_shard

log = logging.getLogger("sharewood")
_SILENCE = 10.0
# Receives the progress of a training as plain values, which sharewood/report/live.py shows.
Watch = Callable[[dict[str, Any]], None]


class Progress:
    """An observer that logs a line after the first round of trees, after every tenth, and after ten seconds.

    On a terminal, a bar takes the place of these lines while the observer is entered as a context. Metrics are logged
    as soon as held-out rows are evaluated. `watch` is called after every round of trees; `curves` grow as rows are
    evaluated.
    """

    def __init__(
        self, party: Party, config: TrainConfig, watch: Watch | None = None, curves: LearningCurves | None = None
    ) -> None:
        self._party, self._config, self._watch, self._curves = party, config, watch, {} if curves is None else curves
        self._grown = self._done = 0
        self._bar: Bar | None = None
        self._first = self._logged = -_SILENCE
        self._shards: list[ShardCosts] = []

    def __call__(self, number: int, *_: Any) -> None:
        rounds, of_round = self._config.n_estimators, self._config.trees_of_round
        if (number + 1) % of_round:
            return
        self._done = done = (number + 1) // of_round
        self._grown += 1
        now = monotonic()
        if self._grown == 1:
            self._first = now
        tenth = done * 10 // rounds > (done - 1) * 10 // rounds
        says = tenth or now - self._logged >= _SILENCE
        if self._bar:
            left = (rounds - done) * self._seconds(now)
            self._bar.update(self._bar.task_ids[0], completed=done, left=f"about {left:.0f} s left")
            says = False
        if says or self._watch:
            self._shards = self._asked()
        if self._watch:
            self._watch(self._state(done, now))
        if not says:
            return
        self._logged = now
        party = self._party
        log.info(
            "%d of %d rounds of trees: %d rounds of messages, %.1f MB with the other party%s, %s, about %.0f s left",
            done,
            rounds,
            party.meter.total.rounds,
            self._sent() / 1e6,
            self._slowest(),
            self._ahead(),
            (rounds - done) * self._seconds(now),
        )

    def evaluated(self, done: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics after `done` rounds of trees."""
        shown = ", ".join(f"{metric} {value:.6g}" for metric, value in metrics.items())
        log.info("%d of %d rounds of trees: %s on held-out rows", done, self._config.n_estimators, shown)
        if self._bar:
            self._bar.update(self._bar.task_ids[0], metrics=shown)

    @property
    def doing(self) -> str:
        """What the training is doing, in an operator's words."""
        if not self._done:
            return "the training was set up, or its first trees were grown"
        return f"trees were grown ({self._done} of {self._config.n_estimators} rounds were complete)"

    def __enter__(self) -> Self:
        if on_terminal() and log.isEnabledFor(logging.INFO):
            columns = TextColumn("rounds of trees"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
            told = TextColumn("{task.fields[left]}"), TextColumn("{task.fields[metrics]}")
            self._bar = Bar(*columns, *told, console=Console(stderr=True), transient=True)
            self._bar.add_task("", total=self._config.n_estimators, left="", metrics="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None

    def end(self) -> None:
        """Report the end of the training, with its last metric."""
        if self._watch:
            self._watch(self._state(self._config.n_estimators, monotonic()) | {"ended": True, "seconds_left": 0.0})

    def _state(self, done: int, now: float) -> dict[str, Any]:
        """Return public facts of the training so far, as plain values."""
        party, rounds = self._party, self._config.n_estimators
        stages = {name: Phase.of_party(stage).document() for name, stage in party.parts.items()}
        return {
            "done": done,
            "rounds": rounds,
            "ended": False,
            "seconds_left": (rounds - done) * self._seconds(now),
            "metric": self._config.metric,
            "curve": list(self._curves.get(self._config.metric, ())),
            "stages": stages,
            "bytes": self._sent(),
            "bytes_dealt": party.randomness.dealt,
        }

    def _asked(self) -> list[ShardCosts]:
        """Return the workers' progress; nothing if a worker was lost, which the training itself detects."""
        if self._party.workers is None:
            return []
        try:
            return by_shard(self._party.workers.costs())
        except WorkersLost:
            return []

    def _sent(self) -> int:
        """Return the bytes between the parties in both directions, of all shards."""
        link = self._party.link
        return link.wire_sent + link.wire_received + sum(each.bytes for each in self._shards)

    def _slowest(self) -> str:
        """Describe the number of shards, and the one that has worked longest."""
        if not self._shards:
            return ""
        longest = max(self._shards, key=lambda each: sum(each.busy_seconds.values()))
        seconds = sum(longest.busy_seconds.values())
        return f" in {len(self._shards)} shards, of which shard {longest.shard} has worked longest ({seconds:.0f} s)"

    def _ahead(self) -> str:
        """Describe the correlated randomness received so far."""
        if self._party.randomness.has_dealer:
            return f"{self._party.randomness.dealt / 1e6:.1f} MB dealt to both{' leads' if self._shards else ''}"
        stage = self._party.stages.get("offline", Stage())
        return f"{(stage.bytes_sent + stage.bytes_received) / 1e6:.1f} MB with it offline"

    def _seconds(self, now: float) -> float:
        """Return the seconds per round of trees in this run; for the first round, only its online work."""
        if self._grown == 1:
            return sum(part.seconds for part in self._party.parts.values())
        return (now - self._first) / (self._grown - 1)
