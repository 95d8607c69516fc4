"""Progress of a training on the log: trees, rounds, bytes, time left."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any

from mpc.party import Party
from secure_tree.config import TrainConfig

log = logging.getLogger("sharewood")
_SILENCE = 10.0


class Progress:
    """An observer of a training: a line after the first round of trees, after each tenth, and after ten seconds."""

    def __init__(self, party: Party, config: TrainConfig, validation: bool = False) -> None:
        """`validation`: some party has a table of its own for it, so that dealing goes on between evaluations."""
        self._party, self._config = party, config
        self._step = config.eval_epochs if validation or config.test_size else config.n_estimators
        self._grown = 0
        self._logged = -_SILENCE

    def __call__(self, number: int, *_: Any) -> None:
        rounds, classes = self._config.n_estimators, self._config.classes
        if (number + 1) % classes:
            return
        done = (number + 1) // classes
        self._grown += 1
        tenth = done * 10 // rounds > (done - 1) * 10 // rounds
        if not (tenth or monotonic() - self._logged >= _SILENCE):
            return
        self._logged = monotonic()
        party = self._party
        log.info(
            "%d of %d rounds of trees: %d rounds of messages, %.1f MB with the other party, %.1f MB from the dealer, "
            "about %.0f s left",
            done,
            rounds,
            party.meter.total.rounds,
            (party.link.wire_sent + party.link.wire_received) / 1e6,
            party.randomness.received / 1e6,
            self._left(done),
        )

    def _left(self, done: int) -> float:
        """Seconds, if the rounds to come take as long as those of this run, and dealing for them as it did."""
        rounds = self._config.n_estimators
        online = sum(part.seconds for part in self._party.parts.values()) / self._grown
        dealt = min(-(-done // self._step) * self._step, rounds)
        ahead = self._grown + dealt - done
        offline = self._party.stages["offline"].seconds / ahead if "offline" in self._party.stages else 0.0
        return (rounds - done) * online + (rounds - dealt) * offline
