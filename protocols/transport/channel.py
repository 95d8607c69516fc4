"""Channel: ordered, checked and metered messages with one peer, over any Link that transfers bytes.

Failures   PeerFailure and its subclasses; the text names the round or message, and the step.  After a failure
           the only valid call is `end`, which tells the peer why the session is over
Meter      payload_*  bytes that the caller sent or received
           wire_*     bytes on the wire: frame headers, and what the link adds (TLS records)
           rounds     number of exchanges; both parties start each one at the same step
"""

import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from mpc.errors import PeerFailure, PeerVanished, ProtocolDesync
from mpc.host.streaming import Pieces, RowsInFile
from protocols.transport.codec import Buffer, Tree, byte_view, decode, encode
from protocols.transport.frames import (
    FACTS_LIMIT,
    MAX_TAG,
    Kind,
    Reader,
    head,
    read_head,
    read_nothing,
    read_to_the_end,
)
from protocols.transport.link import Intake, Link

T = TypeVar("T")
Like = Sequence[tuple[int | tuple[int, ...], DTypeLike] | RowsInFile]
# Seconds to send the last frame of a session: the peer may not read it.
_FAREWELL = 1.0


class Channel:
    """Messages with one peer, from one thread at a time.

    `limit` bounds the payload of a received tree, in bytes, and also the memory that its values take.
    """

    def __init__(self, link: Link, limit: int = FACTS_LIMIT) -> None:
        self.peer = link.peer
        self.rounds = self.payload_sent = self.payload_received = 0
        self._link = link
        self._limit = limit
        self._frames_sent = self._frames_received = 0

    @property
    def session(self) -> bytes:
        """The id of the session that the connecting side named; zeros if it named none."""
        return self._link.session

    @property
    def certificate(self) -> bytes:
        """The certificate (DER) by which the peer is known, empty if it needs none."""
        return self._link.certificate

    @property
    def timeout(self) -> float | None:
        """Seconds of silence after which a wait for the peer fails."""
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
        """Run one round: both parties send and receive at the same time.

        Returns one new array for each (shape, dtype) pair in `like`, and the files listed there, filled. By default,
        `like` is the shapes and dtypes of `arrays`, Pieces left out. In a one-directional round, one side passes no
        arrays and the other `like=[]`: there is no frame in the other direction, and the sender does not wait.
        """
        self.rounds += 1
        return self._transfer(*self._round(tag, arrays, like), tag, "round", self.rounds)

    def post(
        self, tag: str, arrays: Sequence[np.ndarray | Pieces], like: Like | None = None
    ) -> Callable[[], list[Any]]:
        """Start a round like that of `exchange`, which goes on while the caller computes.

        Call the result to wait for it, and to get what `exchange` returns: for several rounds, in the order in which
        they were started. Until then, `arrays` must stay as they are, and the channel is good for `post` only.
        """
        self.rounds += 1
        finish, number = self._link.post(*self._round(tag, arrays, like), tag), self.rounds

        def result() -> list[Any]:
            with self._placed("round", number):
                return finish()

        return result

    def send(self, tag: str, tree: Tree) -> None:
        """Send a tree of plain values and arrays (see codec); the peer must `receive` it."""
        number = self._frames_sent
        frame = self._framed(Kind.TREE, tag, encode(tree))
        self._transfer(frame, read_nothing(), tag, "sent message", number)

    def receive(self, tag: str, limit: int | None = None) -> Tree:
        """Receive a tree from the peer; `limit` replaces the channel's."""
        return self._transfer([], self._read_tree(tag, limit), tag, "received message", self._frames_received)

    def exchange_public(self, tag: str, tree: Tree, limit: int | None = None) -> Tree:
        """Send a tree and return the peer's; both are sent at the same time."""
        number = self._frames_sent
        frame = self._framed(Kind.TREE, tag, encode(tree))
        return self._transfer(frame, self._read_tree(tag, limit), tag, "exchanged message", number)

    @property
    def hung_up(self) -> bool:
        """Whether the peer has closed its end; earlier messages may still be unread."""
        return self._link.hung_up

    def pace(self, rate: float | None) -> None:
        """Send at most `rate` bytes per second from now on, None: as fast as possible, where the system can do so."""
        self._link.pace(rate)

    def idle(self, beside: int, seconds: float) -> None:
        """Wait until the peer sends or hangs up, the descriptor `beside` is readable, or `seconds` have passed."""
        number = self._link.descriptor
        if number is not None:
            poll = select.poll()
            for each in (number, beside):
                poll.register(each, select.POLLIN)
            poll.poll(1000 * seconds)

    @contextmanager
    def watching(self, other: "Channel", gone: Callable[[PeerFailure], None]) -> Iterator[None]:
        """In the block: call `gone` once, with the reason, if the peer of `other` hangs up while this channel waits."""
        self._link.watch(other._link, lambda: gone(other.why_gone(self.peer)))
        try:
            yield
        finally:
            self._link.unwatch(other._link)

    def deafen(self) -> None:
        """End every wait for the peer, in any thread; only `end` can be called after this."""
        self._link.deafen()

    def last_words(self, step: str) -> PeerFailure:
        """Return why the peer has hung up; unread messages are lost."""
        try:
            self._link.transfer([], Intake(read_to_the_end(self.peer)), step)
        except PeerFailure as failure:
            return failure
        raise AssertionError("reading to the end always raises")

    def why_gone(self, awaited: str) -> PeerFailure:
        """Return why the peer has hung up while this party waited for `awaited`, which may be the cause."""
        failure = self.last_words(f"waiting for {awaited}")
        if isinstance(failure, PeerVanished) and failure.explained and awaited not in str(failure):
            failure.args = (f"{failure}; until then, this party waited for {awaited}",)
        return failure

    def end(self, reason: str) -> None:
        """Tell the peer, if it is still there, why this party ends the session."""
        if not self._link.cut_short:
            words = reason.encode(errors="backslashreplace")[:MAX_TAG].decode(errors="ignore")
            self._link.timeout = _FAREWELL
            with suppress(PeerFailure):
                self._link.transfer([head(Kind.END, words, self._frames_sent, 0)], Intake(read_nothing()), "the end")

    @contextmanager
    def explained(self) -> Iterator[Self]:
        """Close the channel after the block. If the block fails, tell the peer; give the reason if a peer caused it."""
        with self:
            try:
                yield self
            except PeerFailure as failure:
                if failure.source == self.peer and self.peer not in str(failure):
                    failure.args = (f"{self.peer}: {failure}",)
                self.end(failure.fact or str(failure))
                raise
            except BaseException:
                self.end("it failed; its log has the reason")
                raise

    def close(self) -> None:
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _round(
        self, tag: str, arrays: Sequence[np.ndarray | Pieces], like: Like | None
    ) -> tuple[list[Buffer | Pieces], Reader[list[Any]]]:
        views = [array if isinstance(array, Pieces) else byte_view(array) for array in arrays]
        if like is None:
            like = [(array.shape, array.dtype) for array in arrays if not isinstance(array, Pieces)]
        return self._framed(Kind.ARRAYS, tag, views) if any(views) else [], self._read_arrays(tag, like)

    def _framed(self, kind: Kind, tag: str, payload: Sequence[Buffer | Pieces]) -> list[Buffer | Pieces]:
        length = sum(map(len, payload))
        frame: list[Buffer | Pieces] = [head(kind, tag, self._frames_sent, length), *payload]
        self._frames_sent += 1
        self.payload_sent += length
        return frame

    def _read_arrays(self, tag: str, like: Like) -> Reader[list[Any]]:
        arrays = [each if isinstance(each, RowsInFile) else np.empty(*each) for each in like]
        targets = [[byte_view(array)] if isinstance(array, np.ndarray) else array for array in arrays]
        expected = sum(array.size if isinstance(array, RowsInFile) else array.nbytes for array in arrays)
        if not expected:
            return arrays
        length = yield from self._read_head(Kind.ARRAYS, tag, sys.maxsize)
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
        with self._placed(what, number):
            intake = Intake(reader)
            self._link.transfer(outgoing, intake, tag)
            return intake.result

    @contextmanager
    def _placed(self, what: str, number: int) -> Iterator[None]:
        """Name the message in the text of a failure, and the peer, unless the peer has explained it."""
        try:
            yield
        except PeerFailure as failure:
            if not (isinstance(failure, PeerVanished) and failure.explained):
                failure.args = (f"{what} {number}: {failure}",)
                failure.source = self.peer
            raise


def first_to_speak(channels: Sequence[Channel], seconds: float | None = None) -> Channel | None:
    """Return the first channel that has something to read or has hung up; None if none has within `seconds`.

    By default there is no time limit, since no message is due. Channels in memory are read in order.
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
