"""How a lead notices that one of its workers is frozen: each worker counts in Ray's store, from a thread of its own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread

_NAMESPACE = b"sharewood"
# A worker counts this many times in the seconds after which it is lost.
_OFTEN = 8
# Seconds that a process may take to start, and those in which a live one counts even on a busy machine.
_STARTING, _BUSY = 60.0, 10.0


def limit_of(timeout: float) -> float:
    """Return the seconds without a count after which a worker is lost.

    Half of those after which the other party's lead gives up, so that it learns of the loss before it does.
    """
    return max(timeout / 2, min(timeout, _BUSY))


def start_counting(key: str, timeout: float) -> None:
    """Count in Ray's store under `key` for as long as this process runs."""
    Thread(target=_count, args=(key, limit_of(timeout) / _OFTEN), name="pulse", daemon=True).start()


class Pulses:
    """The counts of workers, watched from now on. `read` returns the count of a key, and raises if it cannot tell."""

    def __init__(
        self,
        keys: Sequence[str],
        timeout: float,
        read: Callable[[str], bytes | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys, self._limit = keys, limit_of(timeout)
        self._read, self._clock = read or _read, clock
        self._seen: list[tuple[bytes | None, float]] = [(None, clock())] * len(keys)

    def frozen(self) -> list[int]:
        """Return the workers whose count has not changed for too long. None has if Ray's store does not answer."""
        found = []
        for worker, key in enumerate(self._keys):
            before, since = self._seen[worker]
            try:
                count = self._read(key)
            except Exception:  # of Ray, which raises many kinds
                self._seen = [(seen, self._clock()) for seen, _ in self._seen]
                return []
            if count != before:
                self._seen[worker] = count, self._clock()
            elif self._clock() - since > (self._limit if before else max(self._limit, _STARTING)):
                found.append(worker)
        return found


def _read(key: str) -> bytes | None:
    from ray.experimental.internal_kv import _internal_kv_get

    return _internal_kv_get(key, namespace=_NAMESPACE)


def _count(key: str, pause: float) -> None:
    from ray.experimental.internal_kv import _internal_kv_put

    for number in itertools.count():
        with suppress(Exception):  # the store is away, and the lead cannot read it, either
            _internal_kv_put(key, str(number), namespace=_NAMESPACE)
        time.sleep(pause)
