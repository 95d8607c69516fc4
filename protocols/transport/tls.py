"""A link over a socket with mutual TLS 1.3, and its handshake.

The TLS engine works in memory (ssl.MemoryBIO) and the socket is plain and non-blocking, so one loop in
one thread sends and receives at the same time, and the meter counts every byte of every TLS record.  It
costs no more than ssl.SSLSocket: that one makes one or two system calls per record of 16 KiB, while each
call here transfers up to 256 KiB (see benchmarks/bench_transport.py).

Wire   frame bytes, and 22 bytes for each TLS record of 16 KiB of plaintext.  Consecutive buffers of a frame,
       up to 64 KiB together, are cut into records as one; a longer buffer is cut by itself.  Not counted: the TLS
       handshake, and a hello of 28 bytes from either side: "sharewood" | version u16 | 1 if the name in the
       peer's certificate is refused | id of the session that the connection is for, zeros if there is none yet
"""

import datetime as dt
import os
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar, cast

from mpc.errors import PeerFailure, PeerTimeout, PeerVanished
from mpc.host.streaming import Pieces
from protocols.transport.certificates import subject_names
from protocols.transport.codec import Buffer
from protocols.transport.frames import VERSION, Reader
from protocols.transport.link import Intake, Link
from protocols.transport.posted import Posted, TransferQueue
from protocols.transport.waiting import Wait

T = TypeVar("T")

NO_SESSION = Link.session
HUNG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)
LOOKS = 30  # polls before sleeping: a round is often shorter than the time it takes to wake up

_SMALL = 64 << 10
_CHUNK = 256 << 10
_HELLO = struct.Struct("<9sH?16s")
_NAME = b"sharewood"
_SILENCE = 30.0
_PROBES = 9
_STEP = "TLS handshake"
# Linux's option for the most bytes per second that TCP sends, and its value for no limit.
_SO_MAX_PACING_RATE, _UNPACED = 47, (1 << 32) - 1
# OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and _CERT_HAS_EXPIRED, and the alerts that the peer sends for them.
_NOT_NOW = (9, 10)
# Self-signed, or signed by an unknown issuer; and the alert that tells the other host so.
_UNKNOWN_ROOT, _NO_SUCH_ROOT = (18, 19, 20, 21), "ALERT_UNKNOWN_CA"
_REFUSALS = ("ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_EXPIRED")


class TlsLink(Link):
    """One connection with one of `peers`; this side is the server if the context is a server's.

    It cannot be used before `handshake` is complete.
    """

    def __init__(
        self, connection: socket.socket, context: ssl.SSLContext, peers: Sequence[str], session: bytes = NO_SESSION
    ) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer = " or ".join(peers)
        self.session = session
        self._peers = peers
        self._socket = connection
        self._poll = select.poll()
        self._poll.register(connection)
        self._watched: dict[int, Callable[[], None]] = {}
        # The transfers of `post`, and the descriptor that tells their thread of a new one.
        self._queue: TransferQueue | None = None
        self._wake = -1
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = context.protocol == ssl.PROTOCOL_TLS_SERVER
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._arrived = memoryview(bytearray(_CHUNK))

    def handshake(self) -> Iterator[int]:
        """Run TLS and the hello; yield the events to poll the socket for, and resume once they have occurred.

        Afterwards, `peer` is the peer's name and `session` the session it connects for. Raises PeerFailure unless its
        certificate is valid and has one of the names.
        """
        try:
            while not self._tls_done():
                yield from self._flushed()
                yield select.POLLIN
                self._receive(_STEP)
            self.certificate = self._tls.getpeercert(binary_form=True) or b""
            names = subject_names(self.certificate)
            known = [name for name in names if name in self._peers]
            # A TLS 1.3 client finishes before the server has verified its certificate: only the hello confirms that.
            self._tls.write(_HELLO.pack(_NAME, VERSION, not known, self.session))
            yield from self._flushed()
            if not known:
                raise PeerFailure(f"certificate name: expected {self.peer}, got {' or '.join(names) or 'none'}")
            self.peer = known[0]
            yield from self._hello()
        except OSError as error:
            raise self._failure(error, _STEP) from error
        except ValueError as error:
            raise PeerFailure(f"{self.peer} has a malformed certificate: {error}") from error
        self.sent = self.received = 0

    def open(self, timeout: float | None) -> None:
        """From now on, fail after `timeout` seconds of silence while data is due.

        A host that is dead or unreachable is detected within that time even if no data is due.
        """
        self.timeout = timeout
        if timeout is not None:
            often = max(1, int(timeout / (1 + _PROBES)))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in (("TCP_KEEPIDLE", often), ("TCP_KEEPINTVL", often), ("TCP_KEEPCNT", _PROBES)):
                if hasattr(socket, name):
                    self._socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    @property
    def descriptor(self) -> int | None:
        return None if self._incoming.pending or self._tls.pending() else self._socket.fileno()

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    @property
    def hung_up(self) -> bool:
        poll = select.poll()
        poll.register(self._socket, HUNG_UP)
        return bool(poll.poll(0))

    def watch(self, other: Link, gone: Callable[[], None]) -> None:
        if isinstance(other, TlsLink):
            self._watched[other.fileno()] = gone
            self._poll.register(other.fileno(), HUNG_UP)

    def unwatch(self, other: Link) -> None:
        if isinstance(other, TlsLink) and other.fileno() in self._watched:
            del self._watched[other.fileno()]
            self._poll.unregister(other.fileno())

    def deafen(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def pace(self, rate: float | None) -> None:
        most = _UNPACED if rate is None else min(round(rate), _UNPACED - 1)
        with suppress(OSError):  # not on every system
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("I", most))

    def transfer(self, outgoing: Sequence[Buffer | Pieces], intake: Intake[T], step: str) -> None:
        if self._socket.fileno() < 0:
            raise PeerVanished(f"the channel to {self.peer} is closed in {step}")
        self.cut_short = bool(outgoing)
        self._run(_chunks(outgoing), intake, step)

    def post(self, outgoing: Sequence[Buffer | Pieces], reader: Reader[T], step: str) -> Callable[[], T]:
        if self._queue is None:
            self._queue, self._wake = TransferQueue(), os.eventfd(0, os.EFD_NONBLOCK)
            self._poll.register(self._wake, select.POLLIN)
            Thread(target=self._run_posted, args=(self._queue,), name="posted", daemon=True).start()
        posted = Posted(_chunks(outgoing), reader, step)
        self._queue.add(posted)
        os.eventfd_write(self._wake, 1)
        return posted.result

    def _run_posted(self, queue: TransferQueue) -> None:
        """Run the transfers that `post` adds, until the link is closed."""
        try:
            while (step := queue.wait()) is not None:
                self._run(queue, queue, step)
        except BaseException as failure:
            queue.fail(failure)

    def _run(self, chunks: Iterator[memoryview], intake: Intake[Any] | TransferQueue, step: str) -> None:
        """Send all chunks, and fill all of the intake, at the same time. Both may grow meanwhile, for `post`."""
        try:
            unsent, writable = memoryview(b""), True
            while True:
                if not unsent:
                    unsent, writable = self._encrypt(chunks), True
                if unsent and writable:
                    unsent = unsent[self._send(unsent) :] or self._encrypt(chunks)
                self.cut_short = bool(unsent)
                self._decrypt(intake, step)
                if not unsent and intake.target is None:
                    return
                outward = select.POLLOUT if unsent else 0
                inward = select.POLLIN if intake.target is not None else 0
                ready = self._wait(outward | inward, step)
                writable = bool(ready & ~select.POLLIN)  # errors also show when sending
                if inward and ready & ~select.POLLOUT:
                    self._receive(step)
        except OSError as error:
            raise self._failure(error, step) from error

    def close(self) -> None:
        if self._queue:
            self._queue.end()
        self._socket.close()  # frames carry their length, so a truncated one is detected without TLS close_notify

    def _tls_done(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _flushed(self) -> Iterator[int]:
        unsent = memoryview(self._outgoing.read())
        while unsent:
            unsent = unsent[self._send(unsent) :]
            if unsent:
                yield select.POLLOUT

    def _hello(self) -> Iterator[int]:
        """Read the peer's hello. Raises PeerFailure if it refuses this party, or is not a hello of this version."""
        hello = bytearray(_HELLO.size)
        target = memoryview(hello)
        while target:
            try:
                count = cast(int, self._tls.read(len(target), target))
                if not count:
                    raise PeerVanished.at(f"{self.peer} closed the connection", _STEP)
                target = target[count:]
            except ssl.SSLWantReadError:
                yield select.POLLIN
                self._receive(_STEP)
        name, version, refused, session = _HELLO.unpack(hello)
        if name != _NAME:
            raise PeerFailure(f"{self.peer} does not speak Sharewood's protocol")
        if version != VERSION:
            raise PeerFailure(f"{self.peer} speaks version {version} of the protocol, this host version {VERSION}")
        if refused:
            raise PeerFailure(f"{self.peer} does not expect the name in this host's certificate")
        if session != NO_SESSION:
            self.session = session

    def _encrypt(self, chunks: Iterator[memoryview]) -> memoryview:
        """Return the TLS records of the next chunk, of several if they are small; empty after the last."""
        while self._outgoing.pending < _SMALL and (chunk := next(chunks, None)) is not None:
            while chunk:
                chunk = chunk[self._tls.write(chunk) :]
        return memoryview(self._outgoing.read())

    def _decrypt(self, intake: Intake[Any] | TransferQueue, step: str) -> None:
        waiting = self._incoming.pending
        if waiting or self._tls.pending():
            with suppress(ssl.SSLWantReadError):
                while intake.target is not None:
                    # typeshed declares bytes; with a buffer, it is a count
                    count = cast(int, self._tls.read(min(len(intake.target), _CHUNK), intake.target))
                    if not count:
                        raise PeerVanished.at(f"{self.peer} closed the connection", step)
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
        try:
            count = self._socket.recv_into(self._arrived)
        except BlockingIOError:
            return
        if not count:
            raise PeerVanished.at(f"{self.peer} closed the connection", step)
        self._incoming.write(self._arrived[:count])

    def _wait(self, events: int, step: str) -> int:
        self._poll.modify(self._socket, events)
        own = self._socket.fileno()
        for _ in range(LOOKS):
            for number, seen in self._poll.poll(0):
                if number in (own, self._wake):
                    return self._seen(number, seen)
        silence = Wait(self.timeout, f"{self.peer} in {step}", _SILENCE, _SILENCE)
        while silence.left:
            for number, seen in self._poll.poll(1 + 1000 * silence.pause()):
                if number in (own, self._wake):
                    return self._seen(number, seen)
                self._poll.unregister(number)
                self._watched.pop(number)()
        raise PeerTimeout.at(f"{self.peer} silent for {self.timeout:g} s", step)

    def _seen(self, number: int, seen: int) -> int:
        """Return the events of the socket; none if another thread has only added a transfer."""
        if number != self._wake:
            return seen
        os.eventfd_read(self._wake)
        return 0

    def _failure(self, error: OSError, step: str) -> PeerFailure:
        if not isinstance(error, ssl.SSLError):
            return PeerVanished.at(f"{self.peer} closed the connection", step, error.strerror)
        self._say_why()
        return PeerFailure.at(f"TLS with {self.peer} failed", step, why_refused(error))

    def _say_why(self) -> None:
        """Send the TLS alert, if there is one, to a peer that may be gone."""
        with suppress(OSError):
            self._socket.send(self._outgoing.read())


def why_refused(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason, and this host's clock if either certificate is not valid at this time."""
    reason = getattr(error, "verify_message", None) or error.reason or str(error)
    clock = f"this host's clock is at {dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC"
    if getattr(error, "verify_code", None) in _NOT_NOW:
        return f"{reason}; {clock}"
    if getattr(error, "verify_code", None) in _UNKNOWN_ROOT:
        return f"{reason}: this host's authority.crt has no root that signed it"
    if _NO_SUCH_ROOT in reason:
        return f"{reason}: its authority.crt has no root that signed this host's certificate"
    if any(alert in reason for alert in _REFUSALS):
        return f"{reason}: it refuses this host's certificate; {clock}"
    return reason


def _chunks(outgoing: Sequence[Buffer | Pieces]) -> Iterator[memoryview]:
    """Yield the chunks to cut into records; each is valid only until the next one is requested."""
    joined = bytearray()
    for buffer in outgoing:
        if len(joined) + len(buffer) <= _SMALL:
            joined += buffer.tobytes() if isinstance(buffer, Pieces) else buffer
            continue
        yield from _cut(joined)
        joined = bytearray()
        yield from _gathered(buffer) if isinstance(buffer, Pieces) else _cut(buffer)
    yield from _cut(joined)


def _cut(buffer: Buffer) -> Iterator[memoryview]:
    view = memoryview(buffer)
    for start in range(0, len(view), _CHUNK):
        yield view[start : start + _CHUNK]


def _gathered(pieces: Pieces) -> Iterator[memoryview]:
    chunk, held = memoryview(bytearray(_CHUNK)), 0
    for piece in pieces:
        while piece:
            count = min(_CHUNK - held, len(piece))
            chunk[held : held + count] = piece[:count]
            piece, held = piece[count:], held + count
            if held == _CHUNK:
                yield chunk
                held = 0
    yield chunk[:held]
