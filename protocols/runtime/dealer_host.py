"""The dealer's host: it pairs the parties that connect, and starts a process for every session.

Two parties agree on a random session id, and name it in the hello when they connect to the dealer: two channels with
the same id are a pair. The listening process reads nothing from a party except that hello, whose size is fixed.
Plans are read and dealt in one process per session, whose memory is bounded: a hostile plan, a failure, or a job too
large for this machine ends only its own session. Parties are met while this host still compiles; a pair is then served
as soon as that has ended.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess

from mpc.errors import PeerFailure, PeerTimeout
from mpc.host.process import bound_memory, end_with, keep_freed_memory
from protocols.offline.dealer.server import serve
from protocols.offline.supply import AHEAD
from protocols.transport.channel import Channel
from protocols.transport.tcp import Listener, address_text
from protocols.transport.tls import HUNG_UP, NO_SESSION, TlsLink

log = logging.getLogger("sharewood")

SESSIONS, WAITING = 64, 64
_GRACE, _LOOK, _SOON = 10.0, 60.0, 0.1
_READABLE = 1
_FORK = multiprocessing.get_context("fork")


def run_dealer(
    listener: Listener,
    parties: tuple[str, str],
    *,
    sessions: int | None = None,
    patience: float = 60.0,
    timeout: float = 600.0,
    idle: float | None = None,
    memory: int | None = None,
    prepare: Callable[[], object] | None = None,
) -> None:
    """Serve sessions of the two parties, several at once: `sessions` of them, or until interrupted.

    `prepare` runs beside the first meetings; no session begins before it has ended. The second party has `patience`
    seconds to connect after the first; `timeout` is that of `connect`. A session may use `memory` bytes, by default
    half of this machine's memory. Strangers and parties that vanish are logged and do not affect other sessions.
    Raises PeerTimeout after `idle` seconds without a session.
    """
    log.info("dealer for %s and %s listens at %s", *parties, address_text(listener.address))
    preparing = threading.Thread(target=prepare, daemon=True)
    preparing.start()
    desk = _Desk(listener, parties, patience, timeout, memory, sessions, preparing)
    try:
        while desk.ended != sessions:
            desk.turn(_LOOK if idle is None else min(idle, _LOOK))
            if idle is not None and desk.unused >= idle:
                raise PeerTimeout(f"{' and '.join(parties)} did not both connect to the dealer within {idle:g} s")
    finally:
        desk.close()


@dataclass
class _Guest:
    """A connected party, and the time since which it waits for the other."""

    link: TlsLink
    channel: Channel
    since: float = field(default_factory=time.monotonic)


@dataclass
class _Session:
    """Two parties, the process that deals to them, and when one of them hung up; then the process is soon killed."""

    process: BaseProcess
    guests: tuple[_Guest, _Guest]
    left: float | None = None
    killed: bool = False

    @property
    def until(self) -> float:
        """When to kill the process."""
        return float("inf") if self.left is None or self.killed else self.left + _GRACE


class _Desk:
    """The waiting parties, by session and name, the pairs that wait for this host, and the running sessions."""

    def __init__(
        self,
        listener: Listener,
        parties: tuple[str, str],
        patience: float,
        timeout: float,
        memory: int | None,
        sessions: int | None,
        preparing: threading.Thread,
    ) -> None:
        self._listener, self._parties, self._patience, self._timeout = listener, parties, patience, timeout
        self._memory, self._preparing, self._to_begin = memory, preparing, sessions
        self._waiting: dict[bytes, dict[str, _Guest]] = {}
        self._pairs: list[tuple[_Guest, _Guest]] = []
        self._sessions: list[_Session] = []
        self._used = time.monotonic()
        self.ended = 0

    @property
    def unused(self) -> float:
        """Seconds since the last session ended; 0 while one is running or about to."""
        return 0.0 if self._sessions or self._pairs else time.monotonic() - self._used

    def turn(self, seconds: float) -> None:
        """Wait for events for at most `seconds`, and handle them."""
        beside = {guest.link.fileno(): HUNG_UP for guest in self._guests()}
        for session in self._sessions:
            beside[session.process.sentinel] = _READABLE
            if session.left is None:
                beside |= {guest.link.fileno(): HUNG_UP for guest in session.guests}
        links, ready = self._listener.look(self._parties, min(seconds, self._soonest()), beside)
        for session in list(self._sessions):
            self._look_after(session, ready)
        for guest in list(self._guests()):
            self._look_at(guest, ready)
        for link in links:
            self._admit(link)
        if not self._preparing.is_alive():  # a process that was forked beside it could inherit a lock that it holds
            pairs, self._pairs = self._pairs, []
            for pair in pairs:
                self._begin(pair)

    def close(self) -> None:
        """End the running sessions, and close the connections of waiting parties."""
        for session in self._sessions:
            session.process.terminate()
            session.process.join()
        for guest in self._everyone():
            guest.channel.close()

    def _guests(self) -> Iterator[_Guest]:
        for pair in self._waiting.values():
            yield from pair.values()

    def _everyone(self) -> Iterator[_Guest]:
        yield from self._guests()
        for pair in [*self._pairs, *(session.guests for session in self._sessions)]:
            yield from pair

    def _soonest(self) -> float:
        """Return the seconds until the next deadline."""
        ends = [guest.since + self._patience for guest in self._guests()]
        ends += [session.until for session in self._sessions]
        left = max(0.0, min(ends, default=float("inf")) - time.monotonic())
        return min(left, _SOON) if self._pairs else left

    def _admit(self, link: TlsLink) -> None:
        link.open(self._timeout)
        guest = _Guest(link, Channel(link))
        if link.session == NO_SESSION:
            # Only `sharewood check` names no session: the certificate is that of a party.
            log.info("%s checked this host", link.peer)
            guest.channel.end("its hello names no session")
            guest.channel.close()
            return
        same = [other for other in self._guests() if other.link.peer == link.peer]
        if len(same) >= WAITING:
            self._leave(same[0])
            self._send_away(same[0], f"{link.peer} has connected {WAITING} times since")
        pair = self._waiting.setdefault(link.session, {})
        if link.peer in pair:
            pair[link.peer].channel.close()
        pair[link.peer] = guest
        if len(pair) == len(self._parties) and not any(each.channel.hung_up for each in pair.values()):
            del self._waiting[link.session]
            self._pairs.append((pair[self._parties[0]], pair[self._parties[1]]))

    def _begin(self, guests: tuple[_Guest, _Guest]) -> None:
        if len(self._sessions) >= SESSIONS or self._to_begin == 0:
            for guest in guests:
                self._send_away(guest, "the dealer already serves as many sessions as it may")
            return
        if self._to_begin is not None:
            self._to_begin -= 1
        process = _FORK.Process(target=self._serve, args=(os.getpid(), *guests), daemon=True)
        process.start()
        self._sessions.append(_Session(process, guests))

    def _serve(self, parent: int, *guests: _Guest) -> None:
        """Deal, in the process of a session, and log the outcome."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent, which ends its children
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        end_with(parent)
        os.nice(AHEAD)  # it deals ahead, so that parties on the same machine come first
        self._listener.close()
        for other in self._everyone():
            other.channel.close()
        keep_freed_memory()
        bound_memory(self._memory)
        try:
            log.info("dealt %d requests to %s and %s", serve(*(guest.channel for guest in guests)), *self._parties)
        except PeerFailure as failure:
            log.warning("session ended early: %.500s", failure)
        except Exception:
            log.exception("session ended early: internal error")

    def _look_after(self, session: _Session, ready: set[int]) -> None:
        """Clean up a session that has ended; kill its process if a party has left and the process does not end."""
        now = time.monotonic()
        if (status := session.process.exitcode) is not None:
            session.process.close()
            self._sessions.remove(session)
            self._used, self.ended = now, self.ended + 1
            if status:
                log.warning("the process of a session ended with status %d", status)
            for guest in session.guests:
                guest.channel.close()
        elif session.left is None and any(guest.link.fileno() in ready for guest in session.guests):
            session.left = now
        elif now >= session.until:
            log.warning("a party left a running session: killed the session's process")
            session.process.kill()
            session.killed = True

    def _look_at(self, guest: _Guest, ready: set[int]) -> None:
        """Drop a waiting party that has left or has waited too long."""
        if guest.link.fileno() in ready:
            self._leave(guest)
            log.warning("%s", guest.channel.last_words("waiting for its peer"))
            guest.channel.close()
        elif time.monotonic() >= guest.since + self._patience:
            self._leave(guest)
            other = next(name for name in self._parties if name != guest.link.peer)
            self._send_away(guest, f"{other} did not join the session within {self._patience:g} s")

    def _leave(self, guest: _Guest) -> None:
        pair = self._waiting[guest.link.session]
        del pair[guest.link.peer]
        if not pair:
            del self._waiting[guest.link.session]

    def _send_away(self, guest: _Guest, why: str) -> None:
        log.warning("sent %s away: %s", guest.link.peer, why)
        guest.channel.end(why)
        guest.channel.close()
