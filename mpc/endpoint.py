"""One end of the connection: everything that a protocol may touch outside itself.

An endpoint cannot reveal. `mpc.party.Party` adds what a program needs: input, output, and the cost of its stages.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np

from mpc.audit import Audit
from mpc.correlation import Correlation
from mpc.meter import Meter, Stage
from mpc.pieces import Pieces, RowsInFile
from mpc.ring import U8, Shape
from mpc.rounds import Round, Steps

T = TypeVar("T")
Like = tuple[Shape, np.dtype] | RowsInFile
# What runs at a worker: program(its party, what it has kept by name, what it is given).
Program = Callable[..., Any]
Call = tuple[Program, tuple[Any, ...]]
# How comparisons are made where a protocol is not told: see mpc/comparison.py and mpc/comparison_keys.py.
Variant = Literal["bits", "keys", "carries"]


class Peer(Protocol):
    """The other party, as `protocols.transport` provides it."""

    def exchange(
        self, tag: str, arrays: Sequence[np.ndarray | Pieces], like: Sequence[Like] | None = None
    ) -> list[Any]: ...

    def exchange_public(self, tag: str, tree: object) -> Any: ...

    @property
    def wire_sent(self) -> int: ...

    @property
    def wire_received(self) -> int: ...


class Randomness(Protocol):
    """The source of this party's part of the correlated randomness, in the order of the plan."""

    # Whether matrices that stay have to be masked, as somebody else makes the masks of what they are applied to.
    masks_operands: bool
    # The stage that the provision of what is asked for from now on counts towards, whenever it takes place.
    billed: Stage | None

    @property
    def waited(self) -> float:
        """Seconds that the program has waited for what was not there yet."""

    @property
    def dealt(self) -> int:
        """Bytes of the dealer's corrections to both parties in the requests that have come in so far."""

    @property
    def used(self) -> int:
        """Bytes of the dealer's corrections in the requests given out so far."""

    def provide(self, plan: Sequence[tuple[Sequence[Correlation[object]], int]]) -> None:
        """Have a plan fulfilled ahead, after earlier ones: lists of requests, each repeated a number of times."""

    def take(self, request: Correlation[T]) -> T:
        """This party's part of one request; each is given out once."""

    def discard(self) -> None:
        """Take what was provided and not taken so far, for no use."""

    def keep(self, number: int, matrix: Any) -> None:
        """The peer's known matrix as it arrived, masked; where operands are not masked, this party's part of it."""

    def forget(self, number: int) -> None:
        """A known matrix or its mask is not needed any more; nobody else is told."""


class Workers(Protocol):
    """A party's workers, as `protocols.runtime` provides them."""

    @property
    def count(self) -> int:
        """How many there are."""

    def each(
        self, program: Program, given: tuple[Any, ...], own: Sequence[tuple[Any, ...]], planned: str, keep: bool
    ) -> list[Any]:
        """The answers of all to program(party, kept, *given, *own of this worker), in order. Raises WorkersLost.

        `planned`: its correlated randomness is asked for now, and the costs count towards this stage; where it is "",
        `provide` has asked, and the stage is online. `keep`: not the answers
        come back, but what stands for them where they are `given` or `own` later.
        """

    def fetch(self, kept: Sequence[Any]) -> list[Any]:
        """The answers that were kept. Local."""

    def provide(self, plan: Sequence[tuple[Sequence[Call], int]]) -> None:
        """Have each worker ask for what lists of calls take, each repeated a number of times."""

    def costs(self) -> list[dict[str, Any]]:
        """Of each so far, in plain values: stages, rounds, cpu_seconds, busy, memory_peak_bytes, pid.

        Raises WorkersLost.
        """

    def restart(self, party: Endpoint) -> None:
        """New ones that have kept nothing, in the place of all. Raises PeerFailure where they do not come."""


@dataclass
class Endpoint:
    """A party as its protocols see it: rank, link to the peer, correlated randomness, meter.

    `draw` gives so many random bytes that nobody else knows, the dealer included. With an `audit` protocols are
    evaluated twice, and the results compared. `workers`
    have its rows, where it is more than one process.
    """

    rank: int
    link: Peer
    randomness: Randomness
    meter: Meter = field(default_factory=Meter)
    comparison: Variant = "bits"
    draw: Callable[[int], bytes] = os.urandom
    matrices: int = 0
    audit: Audit | None = None
    workers: Workers | None = None

    @property
    def evaluations(self) -> int:
        """How often a protocol is evaluated: supplies of masks are for so many times what a program uses."""
        return 1 if self.audit is None else 2

    def unaudited(self) -> Self:
        """The same end of the connection, without the audit."""
        end = copy.copy(self)
        end.audit = None
        return end

    def run(self, steps: Steps[T]) -> T:
        """Drive a protocol to its result."""
        try:
            asked = next(steps)
            while True:
                asked = steps.send(self._exchange([asked] if isinstance(asked, Round) else asked))
        except StopIteration as done:
            result: T = done.value
            return result

    def exchange_public(self, tag: str, facts: object) -> Any:
        """Tell the peer public facts (a tree of plain values) and return its own."""
        self.meter.total.rounds += 1
        return self.link.exchange_public(tag, facts)

    def next_matrix(self) -> int:
        """A number for a known matrix, the same at both parties."""
        self.matrices += 1
        return self.matrices

    def _exchange(self, rounds: Sequence[Round]) -> list[Any]:
        sent = [array for r in rounds for array in r.sent]
        expected: list[Like] = [((x,), U8) if isinstance(x, int) else x for r in rounds for x in r.expected]
        mine, theirs = sum(a.size for a in sent), sum(_expected_bytes(r) for r in rounds)
        sizes = (mine, theirs) if self.rank == 0 else (theirs, mine)
        tag = f"{sizes[0]}/{sizes[1]} {'+'.join(dict.fromkeys(r.name for r in rounds))}"
        answer = self.link.exchange(tag[:255], sent, expected)
        self.meter.total.rounds += 1
        for r in rounds:
            self.meter.count(r.name, 8 * sum(a.size for a in r.sent), 8 * _expected_bytes(r))
        return answer


def _expected_bytes(asked: Round) -> int:
    return sum(x if isinstance(x, int) else x.size for x in asked.expected)
