"""Party: an endpoint with input, output, and meters of a program's stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from mpc.authenticated.macs import Keyring, WideShare, agree, open_to
from mpc.checks.audit import FIRST_STAGE
from mpc.endpoint import Endpoint
from mpc.errors import AuditFailure, DataError, MacFailure
from mpc.meter import Counters, Stage
from mpc.rounds import Round, Steps, named, parallel
from mpc.shares import AShare, BShare
from mpc.sharing import agree_on_shape, reveal, share, zero_for
from mpc.words import U8, decode_signed, to_units


@dataclass
class Party(Endpoint):
    """One of two parties, as a program sees it; only `reveal` opens shares."""

    stages: dict[str, Stage] = field(default_factory=dict)
    parts: dict[str, Stage] = field(default_factory=dict)
    revealed: list[str] = field(default_factory=list)
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
            yield stage
        finally:
            self.randomness.billed = outer
            stage.add(before, self._counters(0))

    def part(self, name: str | None) -> None:
        """Charge costs to the part `name` of the work from here to the next call; None: to no part.

        Bytes dealt are those of the requests used in a part, whenever they arrived. Programs that run in parallel enter
        their parts together, so that no cost is counted twice.
        """
        if self.audit is not None:
            self.audit.stage = name or FIRST_STAGE
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

    def reveal(
        self, x: AShare | BShare | WideShare, *, to: int | None = None, what: str, units: bool = False
    ) -> np.ndarray | None:
        """Open the secret at party `to` (None: both), which records that it learned `what`; return None at the other.

        Numbers at a scale above 0 are floats, value / 2^scale, as they were shared; numbers at scale 0 are signed
        integers; bits are 0 and 1. With `units`, numbers of any scale are integers in units of 2^-scale: exact, where a
        float has 53 bits. A share with MACs always opens to integers.

        An audit first takes a verdict on everything that x follows from, then opens it twice; if the verdict is bad, or
        the two differ at a party, both raise AuditFailure. A share with MACs is revealed to one party, and only if
        everything opened before matches its MACs; otherwise raises MacFailure.
        """
        if not isinstance(x, AShare | BShare | WideShare):
            raise DataError(f"reveal takes a share, got {type(x).__name__}")
        if isinstance(x, WideShare):
            assert to is not None, "a share with MACs is revealed to one party"
            return self._reveal_authentic(x, to, what)
        zeros = []
        if self.audit is not None:
            zeros = [zero_for(self, x) for _ in range(2)]
            for zero in zeros:
                self.audit.zero(zero, "sharings of zero")
            self.audit.settle(self)
        if to != 1 - self.rank:
            self.revealed.append(what)
        words = self.open_twice(x, to, zeros, what) if zeros else reveal(self, x, to)
        if words is None or isinstance(x, BShare):
            return words
        integers = decode_signed(words)
        return integers if units or not x.scale else np.ldexp(integers.astype(np.float64), -x.scale)

    def open_twice(
        self, x: AShare | BShare, to: int | None, zeros: Sequence[AShare | BShare], what: str
    ) -> np.ndarray | None:
        """Open x twice in one round, under two sharings of zero. Raises AuditFailure at both parties if they differ."""
        first, second = self.run(parallel(*(reveal.steps(self, x, to, zero) for zero in zeros)))
        differ = first is not None and second is not None and not np.array_equal(first, second)
        # Without this round, the party that learns nothing would end as if all were well.
        if self.once(lambda: self.run(named("audit.opened", _either(differ)))):
            raise AuditFailure(f"the audit opened {what} twice with different results: use neither")
        return first

    def _reveal_authentic(self, x: WideShare, to: int, what: str) -> np.ndarray | None:
        self.require_macs(x.keyring)
        opened, known = self.run(open_to(self, x, to))
        self.require_macs(x.keyring)
        if to != self.rank:
            return None
        self.revealed.append(what)
        return decode_signed(opened - known)

    def require_macs(self, keyring: Keyring) -> None:
        """Raise MacFailure if an opened value does not match its MACs."""
        if not self.run(agree(self, keyring)):
            raise MacFailure(
                "the values opened in the prediction do not match their MACs, so no prediction is shown: the other "
                "party, or a hardware fault, changed a value that was sent"
            )


def _either(mine: bool) -> Steps[bool]:
    """Whether this is so here or at the other party."""
    (theirs,) = yield Round([np.array([mine], U8)], [1])
    return mine or bool(theirs.any())
