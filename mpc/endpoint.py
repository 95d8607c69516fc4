"""One end of the connection: everything outside itself that a protocol may use.

An endpoint cannot reveal. `mpc.party.Party` adds what a program needs: input, output, and the cost of its stages.
"""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from mpc.host.streaming import Pieces, RowsInFile
from mpc.meter import Meter, Stage
from mpc.offline.correlation import Correlation
from mpc.rounds import Round, Steps, named
from mpc.words import U8, Shape

T = TypeVar("T")
Like = tuple[Shape, np.dtype] | RowsInFile
# A function that runs at a worker: program(its party, values kept by name, arguments).
Program = Callable[..., Any]
Call = tuple[Program, tuple[Any, ...]]


class Peer(Protocol):
    """The other party, as `protocols.transport` provides it; `peer` is its name."""

    peer: str

    def exchange(
        self, tag: str, arrays: Sequence[np.ndarray | Pieces], like: Sequence[Like] | None = None
    ) -> list[Any]: ...

    def post(
        self, tag: str, arrays: Sequence[np.ndarray | Pieces], like: Sequence[Like] | None = None
    ) -> Callable[[], list[Any]]: ...

    def exchange_public(self, tag: str, tree: object) -> Any: ...

    @property
    def wire_sent(self) -> int: ...

    @property
    def wire_received(self) -> int: ...


class Randomness(Protocol):
    """The source of this party's part of the correlated randomness, in the order of the plan."""

    # Whether fixed operands and known matrices must be masked, because a dealer masks the vectors that they multiply.
    has_dealer: bool
    # The stage to which the provision of later requests is charged, whenever it takes place.
    billed: Stage | None

    @property
    def waited(self) -> float:
        """Seconds that the program has waited for material that had not arrived."""

    @property
    def dealt(self) -> int:
        """Bytes of the dealer's corrections to both parties in the requests that have arrived so far."""

    @property
    def used(self) -> int:
        """Bytes of the dealer's corrections in the requests given out so far."""

    def provide(self, plan: Sequence[tuple[Sequence[Correlation[object]], int]]) -> None:
        """Request a plan ahead of its use, after earlier ones: lists of requests, each repeated a number of times."""

    def take(self, request: Correlation[T]) -> T:
        """Return this party's part of one request; each is given out once."""

    def discard(self) -> None:
        """Take everything that was provided but not yet taken, and drop it."""

    def keep(self, number: int, matrix: Any) -> None:
        """Keep the peer's known matrix as it arrived, masked; if operands are not masked, this party's part of it."""

    def forget(self, number: int) -> None:
        """Forget a known matrix or its mask, which is no longer needed; nobody else is notified."""


class Workers(Protocol):
    """A party's workers, as `protocols.runtime` provides them."""

    @property
    def count(self) -> int:
        """The number of workers."""

    def each(
        self, program: Program, given: tuple[Any, ...], own: Sequence[tuple[Any, ...]], planned: str, keep: bool
    ) -> list[Any]:
        """Return the workers' answers to program(party, kept, *given, *own of this worker), in order.

        `planned` names the stage that the costs count towards; the correlated randomness is requested now. If it is "",
        `provide` has already requested it, and the stage is online. With `keep` the answers stay at the workers, and
        references to them are returned, to be passed in `given` or `own` later. Raises WorkersLost.
        """

    def fetch(self, kept: Sequence[Any]) -> list[Any]:
        """Return answers that were kept. Local."""

    def provide(self, plan: Sequence[tuple[Sequence[Call], int]]) -> None:
        """Have each worker request what lists of calls take, each repeated a number of times."""

    def costs(self) -> list[dict[str, Any]]:
        """Return each worker's costs so far as plain values: stages, rounds, cpu_seconds, busy, memory_peak_bytes, pid.

        Raises WorkersLost.
        """

    def restart(self, party: Endpoint) -> None:
        """Replace all workers by new ones that have kept nothing. Raises PeerFailure if they do not connect."""


class Audit:
    """What checks a program beside its run. This one checks nothing, and is false; `mpc.checks` has one that does."""

    evaluations = 1

    def __bool__(self) -> bool:
        return False

    def steps(self, contract: Any, party: Endpoint, args: Sequence[Any], kwargs: dict[str, Any]) -> Steps[Any]:
        """Return the rounds of a protocol, with those of its check."""
        return named(contract.name, contract.body(party, *args, **kwargs))

    def run(self, party: Any, program: Callable[..., T], *changed: Any) -> T:
        """Return program(party, *changed), checked before anything of it is revealed."""
        return program(party, *changed)

    def repeat(self, party: Any, program: Callable[..., T], *changed: Any) -> T:
        """Return program(party, *changed), after a repetition of its local work."""
        return program(party, *changed)

    def once(self, make: Callable[[], T]) -> T:
        """Return what `make` returns, which is made only once, however often the program is run."""
        return make()

    def enter(self, stage: str | None) -> None:
        """Name the stage of what is checked from here on."""

    def zero(self, x: Any, relation: str, bits: int | None = None) -> None:
        """Require [x] = 0, modulo 2^bits if the words are wider; `relation` names the check in the verdict. Local."""

    def later(self, check: Steps[Any], relation: str) -> None:
        """Before the verdict, run `check`, whose result must be zero."""
        check.close()

    def settle(self, party: Any) -> None:
        """Raise AuditFailure at both parties if a stage since the last verdict is inconsistent."""

    def reveal(self, party: Any, x: Any, to: int | None, what: str) -> np.ndarray | None:
        """Open x at party `to`, after a verdict on everything that it follows from."""
        raise NotImplementedError("without an audit, Party.reveal opens shares")

    def remember(self, name: str, *parts: Any, more: bool = False) -> None:
        """Remember under a name what stays in memory; with `more`, in addition to what was remembered already."""

    def require_unchanged(self, name: str, *parts: Any) -> None:
        """Require that these are the first parts that were remembered under this name."""

    def anew(self) -> Audit:
        """Return an audit of the same kind that has checked nothing so far."""
        return self


# What a round is worth in bytes dealt where nothing is known of the link: those of a round trip of a millisecond at
# 400 Mbit/s, as between hosts of one data centre.
ROUND_PRICE = 50_000


@dataclass
class Endpoint:
    """A party as its protocols see it: rank, link to the peer, correlated randomness, meter.

    `draw` returns a number of random bytes that nobody else knows, not even the dealer. `audit` checks what is
    computed. `workers` hold the party's rows if it has more than one process. `round_price` is what a round is worth
    in bytes dealt: a protocol that can save a round at a lower cost does so.
    """

    rank: int
    link: Peer
    randomness: Randomness
    meter: Meter = field(default_factory=Meter)
    round_price: int = 0
    draw: Callable[[int], bytes] = os.urandom
    matrices: int = 0
    audit: Audit = field(default_factory=Audit)
    workers: Workers | None = None

    def unaudited(self) -> Self:
        """Return the same end of the connection without the audit."""
        end = copy.copy(self)
        end.audit = Audit()
        return end

    def run(self, steps: Steps[T]) -> T:
        """Drive a protocol to its result."""
        try:
            request = next(steps)
            while True:
                request = steps.send(self._exchange([request] if isinstance(request, Round) else request))
        except StopIteration as done:
            result: T = done.value
            return result

    def run_in_turns(self, programs: Sequence[Steps[Any]]) -> None:
        """Drive programs that send a message each in turn: while one waits for the peer's, the next computes.

        The order of turns is the same at both parties. A program that yields no round waits for its next turn.
        """
        turns: deque[tuple[Steps[Any], Callable[[], Any]]] = deque((steps, lambda: None) for steps in programs)
        while turns:
            steps, arrived = turns.popleft()
            try:
                request = steps.send(arrived())
            except StopIteration:
                continue
            rounds = [request] if isinstance(request, Round) else request
            if not rounds:
                turns.append((steps, list))
            elif len(programs) == 1:
                answer = self._exchange(rounds)
                turns.append((steps, lambda answer=answer: answer))  # type: ignore[misc]
            else:
                turns.append((steps, self.link.post(*self._message(rounds))))

    def exchange_public(self, tag: str, facts: object) -> Any:
        """Send public facts (a tree of plain values) to the peer and return those of the peer."""
        self.meter.total.rounds += 1
        return self.link.exchange_public(tag, facts)

    def next_matrix(self) -> int:
        """Return a number for a known matrix, the same at both parties."""
        self.matrices += 1
        return self.matrices

    def _exchange(self, rounds: Sequence[Round]) -> list[Any]:
        return self.link.exchange(*self._message(rounds))

    def _message(self, rounds: Sequence[Round]) -> tuple[str, list[np.ndarray | Pieces], list[Like]]:
        """Return the tag, the arrays and the expected sizes of one message for rounds, and count it."""
        sent = [array for r in rounds for array in r.sent]
        expected: list[Like] = [((x,), U8) if isinstance(x, int) else x for r in rounds for x in r.expected]
        mine, theirs = sum(a.size for a in sent), sum(_expected_bytes(r) for r in rounds)
        sizes = (mine, theirs) if self.rank == 0 else (theirs, mine)
        tag = f"{sizes[0]}/{sizes[1]} {'+'.join(dict.fromkeys(r.name for r in rounds))}"
        self.meter.total.rounds += 1
        for r in rounds:
            self.meter.count(r.name, 8 * sum(a.size for a in r.sent), 8 * _expected_bytes(r))
        return tag[:255], sent, expected


def _expected_bytes(request: Round) -> int:
    return sum(x if isinstance(x, int) else x.size for x in request.expected)
