"""Rounds, and protocols as generators of rounds.

A protocol yields the `Round`s it needs and receives the peer's arrays; `Endpoint.run` drives it, one message per round
in each direction. `parallel` merges several, so that steps that do not depend on one another share their rounds, and
`beside` merges a program with tasks whose results it needs only later.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar, overload

import numpy as np

from mpc.errors import ProtocolDesync
from mpc.host.streaming import Pieces, RowsInFile
from mpc.shares import Share
from mpc.words import U8, pack_words, packed_sizes, unpack_words

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")


@dataclass
class Round:
    """What one protocol sends in one round, and what it expects: sizes of arrays, or rows to receive into a file.

    `name` is that of the protocol; `named` sets it.
    """

    sent: Sequence[np.ndarray | Pieces]
    expected: Sequence[int | RowsInFile]
    name: str = ""

    @property
    def answers(self) -> int:
        return len(self.expected)


Steps: TypeAlias = Generator[Round | list[Round], list[Any], T]


def named(name: str, steps: Steps[T]) -> Steps[T]:
    """Yield the same steps, with `name` on every round that has no name yet."""
    try:
        request = next(steps)
        while True:
            if isinstance(request, Round):
                request.name = request.name or name
            else:
                for r in request:
                    r.name = r.name or name
            request = steps.send((yield request))
    except StopIteration as done:
        result: T = done.value
        return result


class Begun(Generic[T]):
    """Steps whose first messages, `opening`, travel in another way: those that need nothing of the peer's."""

    def __init__(self, steps: Steps[T]) -> None:
        self._steps, self._waits = steps, _rounds(next(steps))
        sent = [each.sent for each in self._waits]
        while not any(each.expected for each in self._waits):
            self._waits = _rounds(steps.send([]))
            sent += [each.sent for each in self._waits]
        self.opening = b"".join(array.tobytes() for arrays in sent for array in arrays)

    def rest(self, theirs: bytes | None = None) -> Steps[T]:
        """Yield the steps that follow. The peer's first message is `theirs`, or else has yet to come.

        Raises ProtocolDesync.
        """
        if theirs is None:
            answer = yield [Round([], each.expected, each.name) for each in self._waits]
        else:
            answer, left = _cut(theirs, self._waits)
            if left:
                raise ProtocolDesync(f"the other party's opening has {len(left)} bytes too many")
        return (yield from _after(self._steps, answer))


def replying(steps: Steps[T], theirs: bytes) -> Steps[T]:
    """Yield the steps of a party whose peer has begun the same with the opening `theirs`. Raises ProtocolDesync."""
    request = _rounds(next(steps))
    while True:
        answer, theirs = _cut(theirs, request)
        if own := [Round(each.sent, [], each.name) for each in request if each.sent]:
            yield own
        if not theirs:
            return (yield from _after(steps, answer))
        request = _rounds(steps.send(answer))


def _after(steps: Steps[T], answer: list[np.ndarray]) -> Steps[T]:
    """Yield the steps that follow an answer."""
    try:
        request = steps.send(answer)
        while True:
            request = steps.send((yield request))
    except StopIteration as done:
        result: T = done.value
        return result


def _rounds(request: Round | list[Round]) -> list[Round]:
    return [request] if isinstance(request, Round) else request


def _cut(message: bytes, rounds: Sequence[Round]) -> tuple[list[np.ndarray], bytes]:
    """Return what rounds expect from the head of a message, and the rest of it. Raises ProtocolDesync."""
    arrays, start = [], 0
    for size in (x if isinstance(x, int) else x.size for each in rounds for x in each.expected):
        arrays.append(np.frombuffer(bytearray(message[start : start + size]), U8))
        start += size
    if start > len(message):
        raise ProtocolDesync(f"the other party's opening has {start - len(message)} bytes too few")
    return arrays, message[start:]


AnySteps: TypeAlias = Generator[Any, list[Any], T]


@overload
def parallel(first: AnySteps[T1], second: AnySteps[T2], /) -> AnySteps[tuple[T1, T2]]: ...


@overload
def parallel(first: AnySteps[T1], second: AnySteps[T2], third: AnySteps[T3], /) -> AnySteps[tuple[T1, T2, T3]]: ...


@overload
def parallel(*protocols: AnySteps[T]) -> AnySteps[tuple[T, ...]]: ...


def parallel(*protocols: AnySteps[Any]) -> AnySteps[Any]:
    """Run several protocols in the same rounds, or several programs in the same transfers; return results in order.

    Whatever they yield has a number of `answers`.
    """
    tasks = Tasks()
    started = [tasks.start(each) for each in protocols]
    yield from tasks.run()
    return tuple(each.result for each in started)


def beside(program: Callable[[Tasks], AnySteps[T]]) -> AnySteps[T]:
    """Run a program and the tasks that it starts in the same rounds; return its result when all have ended."""
    tasks = Tasks()
    main = Task(program(tasks))
    yield from tasks.run(main)
    return main.result


class Task(Generic[T]):
    """A protocol that runs beside others, and its result when it has ended."""

    def __init__(self, steps: AnySteps[T]) -> None:
        self._steps, self._results = steps, list[T]()

    @property
    def ended(self) -> bool:
        return bool(self._results)

    @property
    def result(self) -> T:
        return self._results[0]

    def advance(self, answers: list[Any] | None) -> list[Any]:
        """Return what it yields next, or nothing at its end; `answers` are those to what it yielded last, if it did."""
        try:
            request = next(self._steps) if answers is None else self._steps.send(answers)
        except StopIteration as done:
            self._results.append(done.value)
            return []
        return [request] if isinstance(request, Round) else list(request)

    def wait(self) -> AnySteps[T]:
        """Return the result; sends nothing in the rounds until it is there."""
        while not self.ended:
            yield []
        return self.result


class Tasks:
    """Tasks in the same rounds, which may start others."""

    def __init__(self) -> None:
        self._started: list[Task[Any]] = []

    def start(self, steps: AnySteps[T]) -> Task[T]:
        """Start a task. It runs from the next round on, and sees results of those that were started before it."""
        self._started.append(task := Task(steps))
        return task

    def run(self, last: Task[Any] | None = None) -> AnySteps[None]:
        """Run all tasks until they have ended, and `last` after the others in every round, so that it sees results."""
        answers: dict[Task[Any], list[Any]] = {}
        while True:
            asked: dict[Task[Any], list[Any]] = {}
            for task in self._in_order(last):
                requests = task.advance(answers.get(task))
                if not task.ended:
                    asked[task] = requests
            if not asked:
                return
            self._started = [task for task in asked if task is not last]
            received = yield [each for requests in asked.values() for each in requests]
            start = 0
            for task, requests in asked.items():
                count = sum(each.answers for each in requests)
                answers[task] = received[start : start + count]
                start += count

    def _in_order(self, last: Task[Any] | None) -> Iterator[Task[Any]]:
        """Yield all tasks that have not ended, those that are started meanwhile as well."""
        yield from self._started
        if last and not last.ended:
            count = len(self._started)
            yield last
            yield from islice(self._started, count, None)


def exchange_words(words: Sequence[np.ndarray], widths: Sequence[int]) -> Steps[list[np.ndarray]]:
    """Exchange masked words below 2^width in one round; return the peer's, of the same shapes and types."""
    packed = [pack_words(w, bits) for w, bits in zip(words, widths, strict=True)]
    sizes = [size for w, bits in zip(words, widths, strict=True) for size in packed_sizes(w.size, bits)]
    answer = iter((yield Round([array for arrays in packed for array in arrays], sizes)))
    theirs = [[next(answer) for _ in arrays] for arrays in packed]
    return [unpack_words(data, w.shape, w.dtype, bits) for data, w, bits in zip(theirs, words, widths, strict=True)]


def open_shares(*shares: Share, bits: Sequence[int] | None = None) -> Steps[list[np.ndarray]]:
    """Open masked shares in one round; return the public values, as words or 0/1 bytes.

    `bits` narrows an additive share to Z_2^bits on the wire. Only masked shares may be opened.
    """
    widths = bits or [s.ring.bits for s in shares]
    theirs = yield from exchange_words([s._words for s in shares], widths)
    return [s.ring.add(s._words, w) for s, w in zip(shares, theirs, strict=True)]


def open_words(*words: np.ndarray, bits: int | None = None) -> Steps[list[np.ndarray]]:
    """Open masked words shared by xor in one round; `bits` is their width, None for all bits of a word."""
    widths = [bits or 8 * w.dtype.itemsize for w in words]
    return [w ^ other for w, other in zip(words, (yield from exchange_words(words, widths)), strict=True)]
