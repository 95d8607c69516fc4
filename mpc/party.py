"""Party: everything that a protocol may touch outside itself.

A protocol is a generator that yields the `Round`s it needs and receives the peer's arrays; `Party.run`
drives it, one message per round in each direction. `together` merges several, so that steps which do not
depend on one another share their rounds.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal, Protocol

import numpy as np

from mpc.correlation import Correlation
from mpc.ring import Shape, decode_signed, pack_words, packed_sizes, to_units, unpack_words
from mpc.shares import AShare, BShare

Like = tuple[Shape, np.dtype]
# How comparisons are made where a protocol is not told: see mpc/comparison.py and mpc/comparison_keys.py.
Variant = Literal["bits", "keys", "carries"]
U8 = np.dtype(np.uint8)
# Seconds, rounds, and bytes sent, received and dealt so far.
Counters = tuple[float, int, int, int, int]


@dataclass(frozen=True)
class Round:
    """What one protocol says in one round: byte arrays sent, and the sizes expected back."""

    name: str
    sent: Sequence[np.ndarray]
    expected: Sequence[int]


Steps = Generator[Round | list[Round], list[np.ndarray], Any]


class Link(Protocol):
    """The peer, as `protocols.transport` provides it."""

    def exchange(
        self, tag: str, arrays: Sequence[np.ndarray], like: Sequence[Like] | None = None
    ) -> list[np.ndarray]: ...

    def swap(self, tag: str, tree: Any) -> Any: ...

    @property
    def wire_sent(self) -> int: ...

    @property
    def wire_received(self) -> int: ...


class Randomness(Protocol):
    """The source of this party's part of the correlated randomness, in the order of the plan."""

    @property
    def received(self) -> int:
        """Bytes on the wire from the dealer so far."""

    @property
    def used(self) -> int:
        """Bytes of the dealer's corrections in the requests given out so far."""

    def provide(self, plan: Sequence[tuple[Sequence[Correlation], int]]) -> None:
        """Fulfil a plan ahead: lists of requests, each with the number of times it is repeated."""

    def take(self, kind: Correlation) -> Any:
        """This party's part of one request; each is given out once."""

    def keep(self, number: int, masked: np.ndarray) -> None:
        """The peer's known matrix as it arrived, masked."""


@dataclass
class Traffic:
    """Rounds and payload bits, this party's point of view."""

    rounds: int = 0
    sent: int = 0
    received: int = 0


@dataclass
class Meter:
    """Traffic in total and by protocol."""

    total: Traffic = field(default_factory=Traffic)
    by_protocol: dict[str, Traffic] = field(default_factory=dict)

    def count(self, name: str, sent: int, received: int) -> None:
        traffic = self.by_protocol.setdefault(name, Traffic())
        for line in (traffic, self.total):
            line.sent += sent
            line.received += received
        traffic.rounds += 1


@dataclass
class Stage:
    """What a phase has cost: wall-clock seconds, rounds, bytes on the wire to and from the peer, bytes dealt."""

    seconds: float = 0.0
    rounds: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    bytes_dealt: int = 0

    def add(self, before: Counters, now: Counters) -> None:
        """Count what lies between two readings of the counters."""
        seconds, rounds, sent, received, dealt = (b - a for a, b in zip(before, now, strict=True))
        self.seconds += seconds
        self.rounds += int(rounds)
        self.bytes_sent += int(sent)
        self.bytes_received += int(received)
        self.bytes_dealt += int(dealt)


@dataclass
class Party:
    """One of two parties: its rank, its link to the other, its correlated randomness, its meters."""

    rank: int
    link: Link
    randomness: Randomness
    meter: Meter = field(default_factory=Meter)
    stages: dict[str, Stage] = field(default_factory=dict)
    parts: dict[str, Stage] = field(default_factory=dict)
    revealed: list[str] = field(default_factory=list)
    comparison: Variant = "bits"
    matrices: int = 0
    _part: tuple[str, Counters] | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Count what happens inside as part of the phase `name`."""
        stage = self.stages.setdefault(name, Stage())
        before = self._counters(self.randomness.received)
        try:
            yield stage
        finally:
            stage.add(before, self._counters(self.randomness.received))

    def part(self, name: str | None) -> None:
        """From here to the next call, costs count towards the part `name` of the work; None: towards no part.

        Bytes dealt are those of the requests that it uses, whenever they arrived. Programs that run together enter
        their parts together, so that no cost is counted twice.
        """
        now = self._counters(self.randomness.used)
        if self._part is not None:
            before, at = self._part
            self.parts.setdefault(before, Stage()).add(at, now)
        self._part = None if name is None else (name, now)

    def _counters(self, dealt: int) -> Counters:
        return perf_counter(), self.meter.total.rounds, self.link.wire_sent, self.link.wire_received, dealt

    def exchange_public(self, tag: str, facts: Any) -> Any:
        """Tell the peer public facts (a tree of plain values) and return what it tells."""
        self.meter.total.rounds += 1
        return self.link.swap(tag, facts)

    def next_matrix(self) -> int:
        """A number for a known matrix, the same at both parties."""
        self.matrices += 1
        return self.matrices

    def run(self, steps: Steps) -> Any:
        """Drive a protocol to its result."""
        try:
            said = next(steps)
            while True:
                said = steps.send(self._exchange(said))
        except StopIteration as done:
            return done.value

    def share(self, values: Any, owner: int, scale: int = 0) -> AShare:
        """The owner's numbers as shares; the other party passes None.

        Integers are in units of 2^-scale; floats are rounded to units, and at scale 0 are integers. Raises DataError,
        RangeError.
        """
        from mpc.sharing import agree_on_shape, share

        units = None if values is None else to_units(values, scale)
        shape = agree_on_shape(self, None if units is None else units.shape, owner, scale)
        return share(self, units, owner, shape, scale)

    def reveal(self, x: AShare | BShare, *, to: int | None = None, what: str) -> np.ndarray | None:
        """The secret as signed integers, or bits, at party `to` (None: both), which records that it learned `what`."""
        from mpc.sharing import reveal

        if to != 1 - self.rank:
            self.revealed.append(what)
        words = reveal(self, x, to)
        return decode_signed(words) if words is not None and isinstance(x, AShare) else words

    def _exchange(self, said: Round | Sequence[Round]) -> list[np.ndarray]:
        rounds = [said] if isinstance(said, Round) else list(said)
        sent = [array for r in rounds for array in r.sent]
        expected = [((size,), U8) for r in rounds for size in r.expected]
        mine, theirs = sum(a.size for a in sent), sum(size for r in rounds for size in r.expected)
        sizes = (mine, theirs) if self.rank == 0 else (theirs, mine)
        tag = f"{sizes[0]}/{sizes[1]} {'+'.join(dict.fromkeys(r.name for r in rounds))}"
        answer = self.link.exchange(tag[:255], sent, expected)
        self.meter.total.rounds += 1
        for r in rounds:
            self.meter.count(r.name, 8 * sum(a.size for a in r.sent), 8 * sum(r.expected))
        return answer


def parallel(*protocols: Steps) -> Steps:
    """Run several protocols in the same rounds; their results in order."""
    results: list[Any] = [None] * len(protocols)
    waiting: dict[int, list[Round]] = {}

    def advance(index: int, answer: list[np.ndarray] | None) -> None:
        try:
            said = protocols[index].send(answer) if answer is not None else next(protocols[index])
            waiting[index] = [said] if isinstance(said, Round) else list(said)
        except StopIteration as done:
            results[index] = done.value

    for index in range(len(protocols)):
        advance(index, None)
    while waiting:
        asked, waiting = waiting, {}
        answers = yield [r for rounds in asked.values() for r in rounds]
        start = 0
        for index, rounds in asked.items():
            count = sum(len(r.expected) for r in rounds)
            advance(index, answers[start : start + count])
            start += count
    return results


def exchange_words(name: str, words: Sequence[np.ndarray], widths: Sequence[int]) -> Steps:
    """One round in which both parties send words below 2^width, masked; the peer's, of the same shapes and types."""
    packed = [pack_words(w, bits) for w, bits in zip(words, widths, strict=True)]
    sizes = [size for w, bits in zip(words, widths, strict=True) for size in packed_sizes(w.size, bits)]
    answer = iter((yield Round(name, [array for arrays in packed for array in arrays], sizes)))
    theirs = [[next(answer) for _ in arrays] for arrays in packed]
    return [unpack_words(data, w.shape, w.dtype, bits) for data, w, bits in zip(theirs, words, widths, strict=True)]


def open_shares(name: str, *shares: AShare | BShare, bits: Sequence[int] | None = None) -> Steps:
    """One round in which both parties send their shares; the public values, as words or 0/1 bytes.

    `bits` narrows an additive share to Z_2^bits on the wire. Only masked shares may be opened.
    """
    widths = bits or [1 if isinstance(s, BShare) else s.bits for s in shares]
    theirs = yield from exchange_words(name, [s.bits if isinstance(s, BShare) else s.words for s in shares], widths)
    return [s.bits ^ w if isinstance(s, BShare) else s.words + w for s, w in zip(shares, theirs, strict=True)]


def open_words(name: str, *words: np.ndarray, bits: int | None = None) -> Steps:
    """One round that opens words shared by xor, of so many bits or all; they must be masked."""
    widths = [bits or 8 * w.dtype.itemsize for w in words]
    return [w ^ other for w, other in zip(words, (yield from exchange_words(name, words, widths)), strict=True)]
