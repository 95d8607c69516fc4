"""Party: an endpoint with input, output, and meters of a program's stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mpc.endpoint import Endpoint
from mpc.errors import ConfigError, DataError
from mpc.host.spans import span
from mpc.meter import Counters, Stage
from mpc.shares import AShare, BShare
from mpc.sharing import agree_on_shape, rerandomise, reveal, share
from mpc.words import decode_signed, to_units


@dataclass
class Party(Endpoint):
    """One of two parties, as a program sees it; only `reveal` opens shares, and only `release` hands them out.

    A party that is not `live` has no peer, so opened values are meaningless: `reveal` then returns zeros. `contributed`
    has a line to each owner of further rows, by name, and `clients` one to each client who asks for predictions.
    """

    stages: dict[str, Stage] = field(default_factory=dict)
    parts: dict[str, Stage] = field(default_factory=dict)
    revealed: list[str] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    live: bool = True
    contributed: Mapping[str, Any] = field(default_factory=dict)
    clients: Mapping[str, Any] = field(default_factory=dict)
    _part: tuple[str, Counters] | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Charge what happens inside to the phase `name`, and with it the provision of what is requested inside.

        Provision runs in parallel with the program: its time is charged to the stage that requested it, even while the
        program is in another, and the time that the program waits for it is charged nowhere else. A nested stage of the
        same name counts once.
        """
        stage = self.stages.setdefault(name, Stage())
        if self.randomness.billed is stage:
            yield stage
            return
        outer, self.randomness.billed = self.randomness.billed, stage
        before = self._counters(0)
        try:
            with span(name, rank=self.rank):
                yield stage
        finally:
            self.randomness.billed = outer
            stage.add(before, self._counters(0))

    def part(self, name: str | None) -> None:
        """Charge costs to the part `name` of the work from here to the next call; None: to no part.

        Bytes dealt are those of the requests used in a part, whenever they arrived. Programs that run in parallel enter
        their parts together, so that no cost is counted twice.
        """
        self.audit.enter(name)
        now = self._counters(self.randomness.used)
        if self._part is not None:
            before, at = self._part
            self.parts.setdefault(before, Stage()).add(at, now)
        self._part = None if name is None else (name, now)

    def _counters(self, dealt: int) -> Counters:
        return (
            perf_counter() - self.randomness.waited,
            self.meter.total.rounds,
            self.link.wire_sent,
            self.link.wire_received,
            dealt,
        )

    def share(self, values: ArrayLike | None, owner: int, scale: int = 0) -> AShare:
        """Return shares of the owner's numbers; the other party passes None.

        Integers are in units of 2^-scale; floats are rounded to units, and at scale 0 must be integers. Raises
        DataError, RangeError.
        """
        units = None if values is None else to_units(values, scale)
        shape = agree_on_shape(self, None if units is None else units.shape, owner, scale)
        return share(self, units, owner, shape, scale)

    def reveal(self, x: AShare | BShare, *, to: int | None = None, what: str, units: bool = False) -> np.ndarray | None:
        """Open the secret at party `to` (None: both), which records that it learned `what`; return None at the other.

        Numbers at a scale above 0 are floats, value / 2^scale, as they were shared; numbers at scale 0 are signed
        integers; bits are 0 and 1. With `units`, numbers of any scale are integers in units of 2^-scale: exact, where a
        float has 53 bits. Shares with MACs have a `reveal` of their own (mpc/authenticated/reveal.py).

        An audit first takes a verdict on everything that x follows from, then opens it twice; if the verdict is bad, or
        the two differ at a party, both raise AuditFailure.
        """
        if not isinstance(x, AShare | BShare):
            raise DataError(f"reveal takes a share, got {type(x).__name__}")
        words = self.audit.reveal(self, x, to, what) if self.audit else self._open(x, to, what)
        if words is not None and not self.live:
            words = np.zeros_like(words)
        if words is None or isinstance(x, BShare):
            return words
        integers = decode_signed(words)
        return integers if units or not x.scale else np.ldexp(integers.astype(np.float64), -x.scale)

    def _open(self, x: AShare | BShare, to: int | None, what: str) -> np.ndarray | None:
        self.learn(what, to)
        return reveal(self, x, to)

    def release(self, x: AShare, *, what: str) -> np.ndarray:
        """Return this party's half of a secret, for someone who is no party, the only one to get both halves.

        The halves are uniform but for their sum, so they say nothing more, whatever x was computed from. The record
        `released` says that `what` left, which neither party learns. No message. Raises ConfigError in an audit.
        """
        if self.audit:
            raise ConfigError("audit must be false where clients get predictions: a verdict cannot follow them")
        self.released.append(what)
        return rerandomise(self, x).words

    def learn(self, what: str, to: int | None) -> None:
        """Record what is revealed to party `to` (None: both), if this is the one."""
        if to != 1 - self.rank:
            self.revealed.append(what)
