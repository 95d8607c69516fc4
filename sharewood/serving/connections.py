"""The connections of a service: bounded in number, and none that is idle or slow keeps its place.

A new connection takes the place of the oldest that waits: one that has not finished its TLS handshake, not sent a whole
request, or does not read its answer. Only if all others are being answered is it refused. Every connection counts
from the moment that it is accepted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("sharewood")
MOST = 256
# Seconds until whoever connects has finished the handshake and sent the head of a request.
HEAD_SECONDS = 10.0
RETRY_AFTER = 2
_FULL = json.dumps({"detail": f"all {MOST} connections of this service are in use"}).encode()
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Retry-After: %d\r\nConnection: close\r\n\r\n%s" % (len(_FULL), RETRY_AFTER, _FULL)
)


class Http(H11Protocol):
    """HTTP on one connection, which is closed where no head of a request comes within HEAD_SECONDS."""

    moved: Callable[[], None]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.moved()
        self._await_head()

    @property
    def waits(self) -> bool:
        """Whether the client, and not the service, must do something next."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body or self.flow.write_paused

    def _await_head(self) -> None:
        self.loop.call_later(HEAD_SECONDS, self._look, self.cycle)

    def _look(self, before: object) -> None:
        if self.cycle is before:
            self.transport.close()


class Places:
    """The open connections of a service, those that have waited longest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[Arrival, None] = {}

    def take(self, arrival: Arrival) -> bool:
        """Give a connection a place, if need be that of another; return False if there is none."""
        if len(self._open) >= self._most:
            oldest = next((each for each in self._open if each.waits), None)
            if oldest is None:
                return False
            self.leave(oldest)
            oldest.abort()
        self._open[arrival] = None
        return True

    def leave(self, arrival: Arrival) -> None:
        self._open.pop(arrival, None)

    def moved(self, arrival: Arrival) -> None:
        """Note that a connection has had an answer, and is now the last of those that wait."""
        if arrival in self._open:
            del self._open[arrival]
            self._open[arrival] = None


class Arrival(asyncio.Protocol):
    """An accepted connection: a place, then TLS if there is a certificate, then HTTP."""

    def __init__(self, places: Places, tls: ssl.SSLContext | None, **how: Any) -> None:
        self._places, self._tls = places, tls
        self._http = Http(**how)
        self._http.moved = partial(places.moved, self)
        self._raw: asyncio.Transport | None = None
        self._begun = False
        self._early: list[bytes] = []

    @property
    def waits(self) -> bool:
        return not self._begun or self._http.waits

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()

    def connection_made(self, transport: Any) -> None:
        self._raw = transport
        if not self._places.take(self):
            if self._tls is None:
                transport.write(_REFUSAL)
            transport.close()
        elif self._tls is None:
            self._begin(transport)
        else:
            transport.pause_reading()
            self._greeting = asyncio.get_running_loop().create_task(self._greet(transport, self._tls))

    def data_received(self, data: bytes) -> None:
        if self._begun:
            self._http.data_received(data)
        elif self._tls is not None:
            self._early.append(data)  # the client spoke before this side knew that the handshake was done

    def eof_received(self) -> None:
        if self._begun:
            self._http.eof_received()

    def pause_writing(self) -> None:
        if self._begun:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        if self._begun:
            self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._places.leave(self)
        if self._begun:
            self._http.connection_lost(exc)

    async def _greet(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport, self, tls, server_side=True, ssl_handshake_timeout=HEAD_SECONDS, ssl_shutdown_timeout=1.0
            )
        except OSError:  # among them those of TLS, and that the client has left or was too slow
            secured = None
        if secured is None:
            self._places.leave(self)
            transport.abort()
            return
        self._begin(secured)
        for data in self._early:
            self._http.data_received(data)
        self._early.clear()

    def _begin(self, transport: asyncio.Transport) -> None:
        self._begun = True
        self._http.connection_made(transport)


def protocol(tls: ssl.SSLContext | None = None) -> Callable[..., asyncio.Protocol]:
    """Return what uvicorn calls for each connection of one service."""
    return partial(Arrival, Places(MOST), tls)
