"""The clients of a service: who sends a request, and how many rows each may ask for per minute and per day.

A quota counts the rows of requests that were let in, in periods that begin with the first of them, since the service
was started.
"""

from __future__ import annotations

import hmac
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpc.errors import SharewoodError
from sharewood.job.sections import SHARED, Client


class OverQuota(SharewoodError):
    """A client has asked for all the rows that it may in this period; `again` seconds later it may ask again."""

    def __init__(self, sentence: str, again: int) -> None:
        super().__init__(sentence)
        self.again = again


@dataclass
class _Period:
    """The rows since `began`."""

    began: float
    rows: int = 0


class Clients:
    """Those who may ask; without any, whoever reaches the service may."""

    def __init__(self, known: Sequence[Client] | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._known, self._clock = known or (), clock
        self._periods: dict[tuple[str, str], _Period] = {}

    @property
    def have_tokens(self) -> bool:
        return any(client.token for client in self._known)

    def who(self, header: str) -> Client | None:
        """Return who sends a header Authorization; None for a stranger."""
        if not self.have_tokens:
            return next(iter(self._known), Client(SHARED, ""))
        scheme, _, given = header.partition(" ")
        found = None
        for client in self._known:  # all of them, so that the time says nothing
            if hmac.compare_digest(given.strip().encode(), client.token.encode()) and scheme.lower() == "bearer":
                found = client
        return found

    def charge(self, client: Client, rows: int) -> None:
        """Count the rows of a request. Raises OverQuota, and counts nothing."""
        now = self._clock()
        current = []
        for name, seconds, most in (("minute", 60, client.rows_per_minute), ("day", 86_400, client.rows_per_day)):
            if most is None:
                continue
            period = self._periods.get((client.name, name))
            if period is None or now - period.began >= seconds:
                period = self._periods[client.name, name] = _Period(now)
            if period.rows + rows > most:
                again = math.ceil(period.began + seconds - now)
                left = most - period.rows
                raise OverQuota(
                    f"{client.name} may ask for {most} rows per {name}, of which {left} are left: this request has "
                    f"{rows}; the next {name} begins in {again} s",
                    again,
                )
            current.append(period)
        for period in current:
            period.rows += rows
