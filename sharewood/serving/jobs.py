"""Requests that wait for predictions, and the batches into which they are divided."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from mpc.errors import SharewoodError


class Unavailable(SharewoodError):
    """There is no prediction now, for the reason in the message; a later request may succeed."""


class UnknownIds(SharewoodError):
    """The other party has no row for some ids; only the requester is notified."""


@dataclass(eq=False)
class Job:
    """One request: features float32[n, d] and, by columns, an id per row; `margins` is a future."""

    features: np.ndarray
    ids: Sequence[str] | None = None
    margins: Future[np.ndarray] = field(default_factory=Future)
    begun: int = 0
    _parts: list[np.ndarray] = field(default_factory=list)
    _unknown: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.features)

    def add(self, margins: np.ndarray, unknown: Sequence[str], peer: str) -> None:
        """Add the margins of the next rows; the last ones complete the request."""
        self._parts.append(margins)
        self._unknown += unknown
        if sum(map(len, self._parts)) < len(self):
            return
        if self._unknown:
            others = f" and {len(self._unknown) - 1} more" if len(self._unknown) > 1 else ""
            self.fail(UnknownIds(f"{peer} has no row with id {self._unknown[0]!r}{others}"))
        else:
            with suppress(InvalidStateError):  # the client has given up
                self.margins.set_result(np.concatenate(self._parts))

    def fail(self, why: SharewoodError) -> None:
        """End the request without an answer."""
        with suppress(InvalidStateError):
            self.margins.set_exception(why)


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

    def batch(self, most: int) -> list[JobPart]:
        """Take the next rows, at most `most`. Jobs that were given up are dropped."""
        parts: list[JobPart] = []
        with self._lock:
            while self._jobs and most:
                job = self._jobs.popleft()
                if job.margins.done():
                    self.rows -= len(job) - job.begun
                    continue
                count = min(most, len(job) - job.begun)
                parts.append(JobPart(job, slice(job.begun, job.begun + count)))
                job.begun += count
                most -= count
                self.rows -= count
                if job.begun < len(job):
                    self._jobs.append(job)
                    break
            self._under_way = [part.job for part in parts]
        return parts

    def fail(self, why: SharewoodError) -> None:
        """End every job that is waiting or in progress."""
        with self._lock:
            jobs = [*self._under_way, *self._jobs]
            self._jobs.clear()
            self._under_way, self.rows = [], 0
        for job in jobs:
            job.fail(why)
