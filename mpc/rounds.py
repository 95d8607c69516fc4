"""Rounds, and protocols as generators of rounds.

A protocol yields the `Round`s it needs and receives the peer's arrays; `Endpoint.run` drives it, one message per round
in each direction. `parallel` merges several, so that steps that do not depend on one another share their rounds.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
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
    results: list[Any] = [None] * len(protocols)
    waiting: dict[int, list[Any]] = {}

    def advance(index: int, answer: list[np.ndarray] | None) -> None:
        try:
            request = protocols[index].send(answer) if answer is not None else next(protocols[index])
            waiting[index] = [request] if isinstance(request, Round) else list(request)
        except StopIteration as done:
            results[index] = done.value

    for index in range(len(protocols)):
        advance(index, None)
    while waiting:
        now, waiting = waiting, {}
        answers = yield [each for requests in now.values() for each in requests]
        start = 0
        for index, requests in now.items():
            count = sum(each.answers for each in requests)
            advance(index, answers[start : start + count])
            start += count
    return tuple(results)


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
