"""Channel: ordered, checked and metered messages with one peer, over any Link that moves bytes.

Failures   PeerFailure and its kinds, with the round or message and the step in the text; a channel
           that has raised one is of no further use, except that `end` tells the peer why no more will come
Meter      payload_*  bytes that the caller handed over or received
           wire_*     bytes on the wire: frame headers, and what the link adds (TLS records)
           rounds     number of exchanges, each of which both parties start at the same step
"""

import select
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from mpc.errors import PeerFailure, ProtocolDesync
from mpc.pieces import Pieces, RowsInFile
from protocols.transport.codec import Buffer, Tree, byte_view, decode, encode
from protocols.transport.frames import FACTS_LIMIT, MAX_TAG, Kind, Reader, head, read_head, read_to_the_end

T = TypeVar("T")
Like = Sequence[tuple[int | tuple[int, ...], DTypeLike] | RowsInFile]
# Seconds for the last frame of a session: nobody waits longer for a peer that may not read it.
_FAREWELL = 1.0


class Intake(Generic[T]):
    """What a link does with received bytes: fill `target`, until it is None and there is a `result`."""

    target: memoryview | None
    result: T

    def __init__(self, reader: Reader[T]) -> None:
        self._reader = reader
        self._advance()

    def filled(self, count: int) -> None:
        """The first `count` bytes of `target` have arrived."""
        assert self.target is not None, "a link fills a target that is there"
        self.target = self.target[count:]
        if not self.target:
            self._advance()

    def _advance(self) -> None:
        try:
            self.target = next(self._reader)
        except StopIteration as done:
            self.target, self.result = None, done.value


class Link(ABC):
    """A duplex stream of bytes to the peer."""

    peer: str
    sent = 0
    received = 0
    timeout: float | None = None
    session = bytes(16)
    # Whether a part of a message has left and the rest has not.
    cut_short = False

    @property
    def descriptor(self) -> int | None:
        """What the system can wait for; None where the next bytes may be here already, or are of this process."""
        return None

    @property
    def hung_up(self) -> bool:
        """Whether the peer has closed its end; what it sent before may be unread."""
        return False

    @abstractmethod
    def watch(self, other: "Link", gone: Callable[[], None]) -> None:
        """While this link waits for its peer, call `gone` once, when the peer of `other` has hung up."""

    @abstractmethod
    def unwatch(self, other: "Link") -> None:
        """End of `watch`."""

    @abstractmethod
    def deafen(self) -> None:
        """From now on nothing comes in: a thread that waits for the peer finds that it has gone."""

    @abstractmethod
    def transfer(self, outgoing: Sequence[Buffer | Pieces], intake: Intake[T], step: str) -> None:
        """Sends all of `outgoing` and fills all of `intake`, both at the same time.

        Raises PeerTimeout when nothing moves either way for too long, PeerVanished when the peer is gone.
        """

    @abstractmethod
    def close(self) -> None:
        """Lets the peer see the end of the stream.  May be called again."""


class Channel:
    """Messages with one peer, from one thread at a time.

    `limit` bounds the payload of a received tree, in bytes, and the memory that its values take beside.
    """

    def __init__(self, link: Link, limit: int = FACTS_LIMIT) -> None:
        self.peer = link.peer
        self.rounds = self.payload_sent = self.payload_received = 0
        self._link = link
        self._limit = limit
        self._frames_sent = self._frames_received = 0

    @property
    def session(self) -> bytes:
        """The id of the session that the one who connected comes for; zeros where there is none."""
        return self._link.session

    @property
    def timeout(self) -> float | None:
        """Seconds of silence that are a failure where something is due."""
        return self._link.timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self._link.timeout = seconds

    @property
    def wire_sent(self) -> int:
        return self._link.sent

    @property
    def wire_received(self) -> int:
        return self._link.received

    def exchange(self, tag: str, arrays: Sequence[np.ndarray | Pieces], like: Like | None = None) -> list[Any]:
        """One round: both parties send, and receive, at the same time.

        Returns new arrays of the (shape, dtype) pairs in `like`, and the files there, filled; None means the same as
        `arrays`, without Pieces. For a one-directional round, one side has no arrays and the other `like=[]`.
        """
        self.rounds += 1
        views = [array if isinstance(array, Pieces) else byte_view(array) for array in arrays]
        if like is None:
            like = [(array.shape, array.dtype) for array in arrays if not isinstance(array, Pieces)]
        frame = self._framed(Kind.ARRAYS, tag, views)
        return self._transfer(frame, self._read_arrays(tag, like), tag, "round", self.rounds)

    def send(self, tag: str, tree: Tree) -> None:
        """Sends a tree of plain values and arrays (see codec); the peer must `receive` it."""
        number = self._frames_sent
        frame = self._framed(Kind.TREE, tag, encode(tree))
        self._transfer(frame, _read_nothing(), tag, "sent message", number)

    def receive(self, tag: str, limit: int | None = None) -> Tree:
        """The tree that the peer sends; `limit` in place of the channel's."""
        return self._transfer([], self._read_tree(tag, limit), tag, "received message", self._frames_received)

    def exchange_public(self, tag: str, tree: Tree, limit: int | None = None) -> Tree:
        """The peer's tree for this one: both are sent at the same time."""
        number = self._frames_sent
        frame = self._framed(Kind.TREE, tag, encode(tree))
        return self._transfer(frame, self._read_tree(tag, limit), tag, "exchanged message", number)

    @property
    def hung_up(self) -> bool:
        """Whether the peer has closed its end; what it sent before may be unread."""
        return self._link.hung_up

    def idle(self, beside: int, seconds: float) -> None:
        """Wait until the peer speaks or hangs up, the descriptor `beside` can be read, or the time is over."""
        number = self._link.descriptor
        if number is not None:
            poll = select.poll()
            for each in (number, beside):
                poll.register(each, select.POLLIN)
            poll.poll(1000 * seconds)

    @contextmanager
    def watching(self, other: "Channel", gone: Callable[[PeerFailure], None]) -> Iterator[None]:
        """While this channel waits in the block, tell `gone` once, when the peer of `other` has hung up, why it did."""
        self._link.watch(other._link, lambda: gone(other.last_words(f"waiting for {self.peer}")))
        try:
            yield
        finally:
            self._link.unwatch(other._link)

    def deafen(self) -> None:
        """End every wait for the peer, in whatever thread; what can still be sent is `end`."""
        self._link.deafen()

    def last_words(self, step: str) -> PeerFailure:
        """Why the peer has hung up; unread messages are lost."""
        try:
            self._link.transfer([], Intake(read_to_the_end(self.peer)), step)
        except PeerFailure as failure:
            return failure
        raise AssertionError("a stream that has ended has an end")

    def end(self, reason: str) -> None:
        """Tell the peer, if it still listens, why this party ends the session."""
        if not self._link.cut_short:
            words = reason.encode(errors="backslashreplace")[:MAX_TAG].decode(errors="ignore")
            self._link.timeout = _FAREWELL
            with suppress(PeerFailure):
                self._link.transfer([head(Kind.END, words, self._frames_sent, 0)], Intake(_read_nothing()), "the end")

    @contextmanager
    def explained(self) -> Iterator[Self]:
        """Close the channel after the block, where that fails, tell the peer so; why, if a peer is at fault."""
        with self:
            try:
                yield self
            except PeerFailure as failure:
                self.end(str(failure))
                raise
            except BaseException:
                self.end("it has failed by itself; its own log says why")
                raise

    def close(self) -> None:
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _framed(self, kind: Kind, tag: str, payload: Sequence[Buffer | Pieces]) -> list[Buffer | Pieces]:
        length = sum(map(len, payload))
        frame: list[Buffer | Pieces] = [head(kind, tag, self._frames_sent, length), *payload]
        self._frames_sent += 1
        self.payload_sent += length
        return frame

    def _read_arrays(self, tag: str, like: Like) -> Reader[list[Any]]:
        length = yield from self._read_head(Kind.ARRAYS, tag, sys.maxsize)
        arrays = [each if isinstance(each, RowsInFile) else np.empty(*each) for each in like]
        targets = [[byte_view(array)] if isinstance(array, np.ndarray) else array for array in arrays]
        expected = sum(array.size if isinstance(array, RowsInFile) else array.nbytes for array in arrays)
        if length != expected:
            raise ProtocolDesync(f"{tag}: expected a payload of {expected} bytes, got {length}")
        for view in chain.from_iterable(targets):
            if view:
                yield view
        return arrays

    def _read_tree(self, tag: str, limit: int | None) -> Reader[Tree]:
        limit = self._limit if limit is None else limit
        length = yield from self._read_head(Kind.TREE, tag, limit)
        encoded = np.empty(length, np.uint8).data
        if encoded:
            yield encoded
        return decode(encoded, limit)

    def _read_head(self, kind: Kind, tag: str, limit: int) -> Reader[int]:
        length = yield from read_head(kind, tag, self._frames_received, limit, self.peer)
        self._frames_received += 1
        self.payload_received += length
        return length

    def _transfer(self, outgoing: list[Buffer | Pieces], reader: Reader[T], tag: str, what: str, number: int) -> T:
        try:
            intake = Intake(reader)
            self._link.transfer(outgoing, intake, tag)
            return intake.result
        except PeerFailure as failure:
            failure.args = (f"{what} {number}: {failure}",)
            raise


def _read_nothing() -> Reader[None]:
    yield from ()


def first_to_speak(channels: Sequence[Channel], seconds: float | None = None) -> Channel | None:
    """The one that has something to read or has hung up; None if there is none within `seconds`.

    By default it takes however long it takes, since nothing is due. Channels in memory are taken in order.
    """
    poll = select.poll()
    descriptors = {}
    for channel in channels:
        number = channel._link.descriptor
        if number is None:
            return channel
        poll.register(number, select.POLLIN)
        descriptors[number] = channel
    ready = poll.poll(None if seconds is None else 1000 * seconds)
    return descriptors[ready[0][0]] if ready else None
