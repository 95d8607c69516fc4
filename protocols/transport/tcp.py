"""Channels over TCP with mutual TLS (tls.py): how to listen and how to connect.

A peer that fails TLS or the hello is a stranger: the listener logs it, turns it away and goes on waiting for the
expected peer. It runs several handshakes at once, each with its own deadline, so that an idle or slow connection
does not block the others; if there are too many, it turns the oldest away.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from mpc.errors import ConfigError, PeerFailure, PeerTimeout, PeerVanished
from protocols.transport.certificates import Credentials
from protocols.transport.channel import Channel
from protocols.transport.frames import FACTS_LIMIT
from protocols.transport.tls import NO_SESSION, TlsLink
from protocols.transport.waiting import Wait

log = logging.getLogger("sharewood")

Address = tuple[str, int]

HANDSHAKES, HANDSHAKE_SECONDS = 64, 30.0
_BACKLOG = 128
_RETRY_SECONDS, _LOOK_SECONDS, _ATTEMPT_SECONDS = 0.05, 0.5, 2.0


def listen(address: Address, credentials: Credentials) -> Listener:
    """Listen at (host, port), IPv4 or IPv6; "::" listens on both. Raises ConfigError."""
    context = credentials.context(server=True)
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family = min(found, key=lambda each: each[0] != socket.AF_INET)[0]
        both = family == socket.AF_INET6 and address[0] == "::" and socket.has_dualstack_ipv6()
        listening = socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot listen at {address_text(address)}: {_reason(error)}") from error
    return Listener(listening, context)


@dataclass
class _Greeting:
    """A handshake in progress: link, origin, remaining steps, the events that the next step waits for, deadline."""

    link: TlsLink
    origin: str
    steps: Iterator[int]
    events: int = 0
    until: float = field(default_factory=lambda: time.monotonic() + HANDSHAKE_SECONDS)


class Listener:
    """A listening socket, and the TLS context (see Credentials) of its connections."""

    def __init__(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._context = context
        self._greetings: dict[int, _Greeting] = {}
        self._arrived: deque[TlsLink] = deque()
        self._refused = ""

    @property
    def address(self) -> Address:
        host, port = self._listening.getsockname()[:2]
        return host, port

    def accept(
        self, *peers: str, patience: float = 60.0, timeout: float | None = 600.0, limit: int = FACTS_LIMIT
    ) -> Channel:
        """Wait for the next connection from one of `peers`; `channel.peer` is its name.

        Raises PeerTimeout if none of them connects within `patience` seconds.
        """
        who = " or ".join(peers)
        wait = Wait(patience, f"{who} to connect to {address_text(self.address)}")
        while not self._arrived:
            if not wait.left:
                refused = f"; the last one that came was turned away: {self._refused}" if self._refused else ""
                raise PeerTimeout(
                    f"{who} did not connect to {address_text(self.address)} within {round(patience, 1):g} s{refused}"
                )
            links, _ = self.look(peers, wait.pause())
            self._arrived.extend(links)
        link = self._arrived.popleft()
        link.open(timeout)
        return Channel(link, limit)

    def look(
        self, peers: tuple[str, ...], seconds: float, beside: Mapping[int, int] | None = None
    ) -> tuple[list[TlsLink], set[int]]:
        """Wait for at most `seconds`: return the links of `peers` that connected, and the ready descriptors.

        The caller opens the links. `beside` maps further descriptors to the events that make them ready.
        """
        poll = select.poll()
        poll.register(self._listening, select.POLLIN)
        for number, events in {**(beside or {}), **{n: g.events for n, g in self._greetings.items()}}.items():
            poll.register(number, events)
        nearest = min((g.until for g in self._greetings.values()), default=float("inf")) - time.monotonic()
        ready = {number for number, _ in poll.poll(1 + 1000 * max(0.0, min(seconds, nearest)))}
        through = [g.link for n, g in list(self._greetings.items()) if n in ready and self._advance(n, g)]
        for number, greeting in list(self._greetings.items()):
            if greeting.until <= time.monotonic():
                self._turn_away(number, "silent or slow in TLS handshake")
        if self._listening.fileno() in ready:
            self._take(peers)
        return through, ready & set(beside or {})

    def _take(self, peers: tuple[str, ...]) -> None:
        if len(self._greetings) >= HANDSHAKES:
            self._turn_away(next(iter(self._greetings)), "too many handshakes at once")
        try:
            connection, origin = self._listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            log.warning("a connection could not be accepted: %s", error.strerror)
            time.sleep(_RETRY_SECONDS)
            return
        link = TlsLink(connection, self._context, peers)
        greeting = self._greetings[link.fileno()] = _Greeting(link, address_text(origin[:2]), link.handshake())
        self._advance(link.fileno(), greeting)

    def _advance(self, number: int, greeting: _Greeting) -> bool:
        """Run the handshake as far as it goes without waiting; return whether it is complete."""
        try:
            greeting.events = next(greeting.steps)
        except StopIteration:
            del self._greetings[number]
            return True
        except PeerFailure as failure:
            self._turn_away(number, str(failure))
        return False

    def _turn_away(self, number: int, why: str) -> None:
        greeting = self._greetings.pop(number)
        greeting.link.close()
        self._refused = f"{why}, from {greeting.origin}"
        log.warning("turned away a connection from %s: %s", greeting.origin, why)

    def close(self) -> None:
        """Stop listening, and turn away connections whose handshake is not complete."""
        for link in [*(g.link for g in self._greetings.values()), *self._arrived]:
            link.close()
        self._greetings.clear()
        self._arrived.clear()
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
    limit: int = FACTS_LIMIT,
    session: bytes = NO_SESSION,
    beside: Channel | None = None,
    once: bool = False,
) -> Channel:
    """Open a channel to `peer`, which may start to listen at (host, port) up to `patience` seconds from now.

    Connection and handshake together take no longer than that, and fail if the peer of the channel `beside` hangs up
    meanwhile; with `once`, it is tried only once. The channel is for `session`; later, `timeout` seconds in which no
    byte moves raise PeerTimeout. Raises PeerFailure for a stranger.
    """
    context = credentials.context(server=False)
    where = f"{peer} at {address_text(address)}"
    wait = Wait(patience, where)
    while True:
        try:
            link = _reach(address, context, peer, session, wait, beside)
            break
        except ValueError as error:  # the host is not a valid name
            raise ConfigError(f"{address_text(address)} is not an address: {error}") from error
        except (OSError, PeerVanished) as error:
            if beside and beside.hung_up:
                raise beside.last_words("the meeting") from None
            if once or wait.left < _RETRY_SECONDS:
                raise PeerTimeout(f"no connection to {where} in {patience:g} s: {_reason(error)}") from error
            time.sleep(min(_RETRY_SECONDS, wait.pause()))
    link.open(timeout)
    return Channel(link, limit)


def _reach(
    address: Address, context: ssl.SSLContext, peer: str, session: bytes, wait: Wait, beside: Channel | None
) -> TlsLink:
    connection = socket.create_connection(address, min(wait.left, _ATTEMPT_SECONDS) + _RETRY_SECONDS)
    link = TlsLink(connection, context, (peer,), session)
    poll = select.poll()
    try:
        for events in link.handshake():
            poll.register(link, events)
            while not poll.poll(1 + 1000 * min(wait.pause(), _LOOK_SECONDS)):
                if beside and beside.hung_up:
                    raise PeerVanished.at(f"{beside.peer} closed the connection", "the meeting")
                if not wait.left:
                    raise PeerTimeout(f"no connection to {peer} at {address_text(address)}: silent in TLS handshake")
    except BaseException:
        link.close()
        raise
    return link


def address_text(address: Address) -> str:
    """Return host:port, with an IPv6 host in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None) or 0
    # Of a socket that cannot be bound, Python's own text repeats the address.
    return os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
