"""Log the progress of a training: trees, rounds, bytes, remaining time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

from mpc.errors import WorkersLost
from mpc.meter import Stage
from mpc.party import Party
from secure_tree.config import TrainConfig
from secure_tree.training import Curves
from sharewood.figures import Phase
from sharewood.shard_costs import ShardCosts, by_shard

log = logging.getLogger("sharewood")
_SILENCE = 10.0
# Receives the progress of a training as plain values, which sharewood/live.py shows.
Watch = Callable[[dict[str, Any]], None]


class Progress:
    """An observer that logs a line after the first round of trees, after every tenth, and after ten seconds.

    It calls `watch` after every round of trees; `curves` grow as held-out rows are evaluated.
    """

    def __init__(
        self, party: Party, config: TrainConfig, watch: Watch | None = None, curves: Curves | None = None
    ) -> None:
        self._party, self._config, self._watch, self._curves = party, config, watch, {} if curves is None else curves
        self._grown = 0
        self._first = self._logged = -_SILENCE
        self._shards: list[ShardCosts] = []

    def __call__(self, number: int, *_: Any) -> None:
        rounds, classes = self._config.n_estimators, self._config.classes
        if (number + 1) % classes:
            return
        done = (number + 1) // classes
        self._grown += 1
        now = monotonic()
        if self._grown == 1:
            self._first = now
        tenth = done * 10 // rounds > (done - 1) * 10 // rounds
        says = tenth or now - self._logged >= _SILENCE
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

    def end(self) -> None:
        """Report the end of the training, with its last metric."""
        if self._watch:
            self._watch(self._state(self._config.n_estimators, self._first) | {"ended": True, "seconds_left": 0.0})

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
        if self._party.randomness.masks_operands:
            return f"{self._party.randomness.dealt / 1e6:.1f} MB dealt to both{' leads' if self._shards else ''}"
        stage = self._party.stages.get("offline", Stage())
        return f"{(stage.bytes_sent + stage.bytes_received) / 1e6:.1f} MB with it offline"

    def _seconds(self, now: float) -> float:
        """Return the seconds per round of trees in this run; for the first round, only its online work."""
        if self._grown == 1:
            return sum(part.seconds for part in self._party.parts.values())
        return (now - self._first) / (self._grown - 1)
