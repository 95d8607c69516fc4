"""Requests that wait for predictions, and the batches into which they are divided; halves that wait for the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from mpc.errors import SharewoodError
from sharewood.job.sections import SHARED

# Ids of requests that are remembered, so that none is answered twice.
_MOST_KNOWN = 1 << 17


class Unavailable(SharewoodError):
    """There is no prediction now, for the reason in the message; a later request may succeed."""


class UnknownIds(SharewoodError):
    """The other party has no row for some ids; only the requester is notified."""


class Refused(SharewoodError):
    """A half of a request does not fit: its id is not new, or the other half has another number of rows."""


class Unpaired(SharewoodError):
    """The other half of a request has not arrived at the other service."""


@dataclass(eq=False)
class Asked:
    """A request of a client; `margins` is a future of its answer."""

    margins: Future[np.ndarray] = field(default_factory=Future, kw_only=True)
    client: str = field(default=SHARED, kw_only=True)

    def end(self, outcome: np.ndarray | SharewoodError) -> None:
        """Answer the request, or end it without an answer."""
        with suppress(InvalidStateError):  # the client has given up
            if isinstance(outcome, SharewoodError):
                self.margins.set_exception(outcome)
            else:
                self.margins.set_result(outcome)


@dataclass(eq=False)
class Job(Asked):
    """A request of rows: features float32[n, d] and, by columns, an id per row.

    top: how many reasons of each row are asked for; `reasons` are there when the margins are.
    """

    features: np.ndarray
    ids: Sequence[str] | None = None
    top: int = 0
    reasons: list[Any] = field(default_factory=list)
    begun: int = 0
    _parts: list[np.ndarray] = field(default_factory=list)
    _unknown: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.features)

    def add(self, margins: np.ndarray, reasons: Sequence[Any], unknown: Sequence[str], peer: str) -> None:
        """Add the margins and reasons of the next rows; the last ones complete the request."""
        self._parts.append(margins)
        self.reasons += [of_row[: self.top] for of_row in reasons]
        self._unknown += unknown
        if sum(map(len, self._parts)) < len(self):
            return
        others = f" and {len(self._unknown) - 1} more" if len(self._unknown) > 1 else ""
        lacks = self._unknown and UnknownIds(f"{peer} has no row with id {self._unknown[0]!r}{others}")
        self.end(lacks or np.concatenate(self._parts))


@dataclass(frozen=True)
class JobPart:
    """A part of a job's rows."""

    job: Job
    rows: slice

    def __len__(self) -> int:
        return self.rows.stop - self.rows.start


class Queue:
    """Jobs in order, with at most `room` rows. A job that is larger than a batch yields to others after each batch."""

    def __init__(self, room: int) -> None:
        self._room, self._lock = room, Lock()
        self._jobs: deque[Job] = deque()
        self._under_way: list[Job] = []
        self.rows = 0

    def add(self, job: Job) -> None:
        """Add a job. Raises Unavailable if the queue is full."""
        with self._lock:
            if self.rows + len(job) > self._room:
                raise Unavailable(f"the queue is full: {self.rows} rows are waiting, of at most {self._room}")
            self._jobs.append(job)
            self.rows += len(job)

    def batch(self, most: int, explained: int = 0) -> list[JobPart]:
        """Take the next rows: either with reasons, at most `explained`, or without, at most `most`, as the first job
        asks. Jobs that were given up are dropped.
        """
        parts: list[JobPart] = []
        others: deque[Job] = deque()
        with self._lock:
            while self._jobs and most:
                job = self._jobs.popleft()
                if job.margins.done():
                    self.rows -= len(job) - job.begun
                    continue
                if not parts:
                    most = explained if job.top else most
                elif bool(job.top) != bool(parts[0].job.top):
                    others.append(job)
                    continue
                count = min(most, len(job) - job.begun)
                parts.append(JobPart(job, slice(job.begun, job.begun + count)))
                job.begun += count
                most -= count
                self.rows -= count
                if job.begun < len(job):
                    self._jobs.append(job)
                    break
            self._jobs.extendleft(reversed(others))
            self._under_way = [part.job for part in parts]
        return parts

    def fail(self, why: SharewoodError) -> None:
        """End every job that is waiting or in progress."""
        with self._lock:
            jobs = [*self._under_way, *self._jobs]
            self._jobs.clear()
            self._under_way, self.rows = [], 0
        for job in jobs:
            job.end(why)


@dataclass(eq=False)
class HalfJob(Asked):
    """A half of a client's request: keys uint64[n, d + o]; its answer is this party's half of the margins.

    offered: whether the other service has heard of it. late: whether the other half must have arrived by the next turn.
    """

    id: str
    keys: np.ndarray
    offered: bool = False
    late: bool = False

    def __len__(self) -> int:
        return len(self.keys)


class Halves:
    """Requests that wait for their other half, at most `most` with `room` rows. Their ids are never used again."""

    def __init__(self, most: int, room: int) -> None:
        self._most, self._room, self._lock = most, room, Lock()
        self._waiting: dict[str, HalfJob] = {}
        self._under_way: list[HalfJob] = []
        self._known: dict[str, None] = {}
        # Whether there is something that a turn might bring together.
        self.fresh = False

    def add(self, job: HalfJob) -> None:
        """Add a half. Raises Refused, and Unavailable if too many wait."""
        with self._lock:
            if job.id in self._known:
                raise Refused("the id of a request must be new, and this one was used before")
            if len(self._waiting) >= self._most or sum(map(len, self._waiting.values())) + len(job) > self._room:
                raise Unavailable("too many requests wait for their other half")
            self._waiting[job.id] = job
            self._known[job.id] = None
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self.fresh = True

    def waiting(self) -> tuple[dict[str, HalfJob], list[str]]:
        """Return what the other service now hears of, and the ids of those of which it hears for the last time."""
        with self._lock:
            self.fresh = False
            return dict(self._waiting), [id for id, job in self._waiting.items() if job.late]

    def take(self, jobs: Sequence[HalfJob]) -> None:
        """Remove the requests of a batch. Others that are paired, too, are left for the next turn."""
        with self._lock:
            for job in jobs:
                self._waiting.pop(job.id, None)
            self._under_way = list(jobs)
            self.fresh = self.fresh or bool(jobs and self._waiting)

    def refuse(self, jobs: Sequence[HalfJob], why: SharewoodError) -> None:
        """Remove requests that will have no answer."""
        with self._lock:
            for job in jobs:
                self._waiting.pop(job.id, None)
        for job in jobs:
            job.end(why)

    def fail(self, why: SharewoodError) -> None:
        """End every request that waits or is in progress."""
        with self._lock:
            jobs = [*self._under_way, *self._waiting.values()]
            self._waiting.clear()
            self._under_way = []
        for job in jobs:
            job.end(why)
