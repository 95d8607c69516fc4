"""Channels over TCP with mutual TLS 1.3.

The TLS engine works on memory (ssl.MemoryBIO) and the socket is plain and non-blocking, so one loop in
one thread sends and receives at the same time, and the meter sees every byte of every TLS record.  It
costs no more than ssl.SSLSocket: that one makes a system call or two per record of 16 KiB, this one
moves up to 256 KiB in each (see benchmarks/bench_transport.py).

Wire   frame bytes, and 22 bytes for each TLS record of 16 KiB of plaintext.  Buffers of a frame that follow
       one another in 64 KiB are cut into records together, a longer one by itself.  The handshake is not counted
"""

import select
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Self, TypeVar, cast

from mpc.errors import ConfigError, PeerFailure, PeerTimeout, PeerVanished
from protocols.transport.certificates import Credentials, subject_names
from protocols.transport.channel import Channel, Intake, Link
from protocols.transport.codec import Buffer
from protocols.transport.frames import DEFAULT_LIMIT, Reader

T = TypeVar("T")
Address = tuple[str, int]

_SMALL = 64 << 10
_CHUNK = 256 << 10
LOOKS = 30  # before going to sleep: a round is often shorter than the time it takes to wake up
_RETRY_SECONDS = 0.05
_HELLO = b"sharewood"


def listen(address: Address, credentials: Credentials) -> "Listener":
    """Waits for connections at (host, port).  Raises ConfigError when the address cannot be had."""
    context = credentials.context(server=True)
    try:
        listening = socket.create_server(address)
    except OSError as error:
        raise ConfigError(f"cannot listen at {_text(address)}: {error.strerror}") from error
    return Listener(listening, context)


class Listener:
    """A listening socket, and the TLS context (see Credentials) for those who connect."""

    def __init__(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        self._listening = listening
        self._context = context

    @property
    def address(self) -> Address:
        host, port = self._listening.getsockname()[:2]
        return host, port

    def accept(
        self,
        *peers: str,
        patience: float = 60.0,
        timeout: float | None = 600.0,
        limit: int = DEFAULT_LIMIT,
    ) -> Channel:
        """The next connection, which must come from one of `peers`; `channel.peer` says which.

        Raises PeerTimeout when nobody comes within `patience` seconds, PeerFailure for a stranger.
        """
        self._listening.settimeout(patience)
        try:
            connection, _ = self._listening.accept()
        except TimeoutError:
            who = " or ".join(peers)
            raise PeerTimeout(f"{who} did not connect to {_text(self.address)} within {patience:g} s") from None
        return _secure(connection, self._context, peers, patience, timeout, limit)

    def close(self) -> None:
        self._listening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    address: Address,
    credentials: Credentials,
    peer: str,
    *,
    patience: float = 60.0,
    timeout: float | None = 600.0,
    limit: int = DEFAULT_LIMIT,
) -> Channel:
    """A channel to `peer`, who may start to listen at (host, port) up to `patience` seconds from now.

    Later, `timeout` seconds in which nothing moves raise PeerTimeout.  Raises PeerFailure for a stranger.
    """
    context = credentials.context(server=False)
    deadline = time.monotonic() + patience
    while True:
        try:
            connection = socket.create_connection(address, max(deadline - time.monotonic(), _RETRY_SECONDS))
            break
        except OSError as error:
            if time.monotonic() + _RETRY_SECONDS > deadline:
                raise PeerTimeout(f"no connection to {peer} at {_text(address)} in {patience:g} s: {error}") from error
            time.sleep(_RETRY_SECONDS)
    return _secure(connection, context, (peer,), patience, timeout, limit)


def _text(address: Address) -> str:
    host, port = address
    return f"{host}:{port}"


def _secure(
    connection: socket.socket,
    context: ssl.SSLContext,
    peers: Sequence[str],
    patience: float,
    timeout: float | None,
    limit: int,
) -> Channel:
    link = _TlsLink(connection, context, " or ".join(peers), patience)
    try:
        link.handshake(peers)
    except BaseException:
        link.close()
        raise
    link.timeout = timeout
    return Channel(link, limit)


class _TlsLink(Link):
    def __init__(self, connection: socket.socket, context: ssl.SSLContext, peer: str, timeout: float | None) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = context.protocol == ssl.PROTOCOL_TLS_SERVER
        self.peer = peer
        self.timeout = timeout
        self._socket = connection
        self._poll = select.poll()
        self._poll.register(connection)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._arrived = memoryview(bytearray(_CHUNK))

    def handshake(self, peers: Sequence[str]) -> None:
        """Raises PeerFailure unless the certificate is good and bears one of the names `peers`."""
        step = "TLS handshake"
        try:
            while not self._handshake_done():
                self._flush(step)
                self._wait(select.POLLIN, step)
                self._receive(step)
            self._flush(step)
        except OSError as error:
            raise self._failure(error, step) from error
        names = subject_names(self._tls.getpeercert(binary_form=True) or b"")
        known = [name for name in names if name in peers]
        if not known:
            raise PeerFailure(f"certificate name: expected {self.peer}, got {' or '.join(names) or 'none'}")
        self.peer = known[0]
        # A TLS 1.3 client is done before the server has judged its certificate: wait for the verdict.
        self.transfer([_HELLO], Intake(_read_hello()), step)
        self.sent = self.received = 0

    def transfer(self, outgoing: Sequence[Buffer], intake: Intake[T], step: str) -> None:
        if self._socket.fileno() < 0:
            raise PeerVanished(f"the channel to {self.peer} is closed in {step}")
        chunks = _chunks(outgoing)
        try:
            unsent = self._encrypt(chunks)
            writable = True
            while True:
                if unsent and writable:
                    unsent = unsent[self._send(unsent) :] or self._encrypt(chunks)
                self._decrypt(intake, step)
                if not unsent and intake.target is None:
                    return
                outward = select.POLLOUT if unsent else 0
                inward = select.POLLIN if intake.target is not None else 0
                ready = self._wait(outward | inward, step)
                writable = bool(ready & ~select.POLLIN)  # errors, too, show when sending
                if inward and ready & ~select.POLLOUT:
                    self._receive(step)
        except OSError as error:
            raise self._failure(error, step) from error

    def close(self) -> None:
        self._socket.close()  # frames carry their length, so no TLS farewell is needed to tell a cut

    def _handshake_done(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _flush(self, step: str) -> None:
        unsent = memoryview(self._outgoing.read())
        while unsent:
            self._wait(select.POLLOUT, step)
            unsent = unsent[self._send(unsent) :]

    def _encrypt(self, chunks: Iterator[memoryview]) -> memoryview:
        """The TLS records of the next chunk, and of the one after a small one; empty after the last."""
        while self._outgoing.pending < _SMALL and (chunk := next(chunks, None)):
            while chunk:
                chunk = chunk[self._tls.write(chunk) :]
        return memoryview(self._outgoing.read())

    def _decrypt(self, intake: Intake[T], step: str) -> None:
        waiting = self._incoming.pending
        if waiting or self._tls.pending():
            with suppress(ssl.SSLWantReadError):
                while intake.target is not None:
                    # typeshed has bytes here; given a buffer, it is a count
                    count = cast(int, self._tls.read(min(len(intake.target), _CHUNK), intake.target))
                    if not count:
                        raise PeerVanished(f"{self.peer} closed the connection in {step}")
                    intake.filled(count)
        self.received += waiting - self._incoming.pending

    def _send(self, data: memoryview) -> int:
        try:
            count = self._socket.send(data)
        except BlockingIOError:
            return 0
        self.sent += count
        return count

    def _receive(self, step: str) -> None:
        count = self._socket.recv_into(self._arrived)
        if not count:
            raise PeerVanished(f"{self.peer} closed the connection in {step}")
        self._incoming.write(self._arrived[:count])

    def _wait(self, events: int, step: str) -> int:
        self._poll.modify(self._socket, events)
        for _ in range(LOOKS):
            if ready := self._poll.poll(0):
                return ready[0][1]
        ready = self._poll.poll(None if self.timeout is None else 1000 * self.timeout)
        if not ready:
            raise PeerTimeout(f"{self.peer} silent for {self.timeout:g} s in {step}")
        return ready[0][1]

    def _failure(self, error: OSError, step: str) -> PeerFailure:
        if not isinstance(error, ssl.SSLError):
            return PeerVanished(f"{self.peer} closed the connection in {step}: {error.strerror}")
        self._say_why()
        reason = getattr(error, "verify_message", None) or error.reason
        return PeerFailure(f"TLS with {self.peer} failed in {step}: {reason}")

    def _say_why(self) -> None:
        """Sends the TLS alert, if there is one, to a peer that may be gone."""
        with suppress(OSError):
            self._socket.send(self._outgoing.read())


def _read_hello() -> Reader[None]:
    yield memoryview(bytearray(len(_HELLO)))


def _chunks(outgoing: Sequence[Buffer]) -> Iterator[memoryview]:
    joined = bytearray()
    for buffer in outgoing:
        if len(joined) + len(buffer) <= _SMALL:
            joined += buffer
            continue
        yield from _cut(joined)
        joined = bytearray()
        yield from _cut(buffer)
    yield from _cut(joined)


def _cut(buffer: Buffer) -> Iterator[memoryview]:
    view = memoryview(buffer)
    for start in range(0, len(view), _CHUNK):
        yield view[start : start + _CHUNK]
