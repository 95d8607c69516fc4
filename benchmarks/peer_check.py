"""Measure what it would cost to check a peer by running its program again on other dealt values.

python -m benchmarks.peer_check [--sizes 569 10000] [--trees 2 12] [--repeats 3] [--out DIR]

So that a lie passes with probability 2^-8, each party would run its own program 8 more times and the peer's 9 times,
and expand 256 streams for its own dealt values and 255 for the peer's. The program measures, as CPU time per tree: a
training by processes, all of them together; one run of both parties' programs on recorded messages and dealt values;
and 511 streams as long as a party's dealt values, with their sums. Writes the table of docs/deviating_parties.md.
"""

from __future__ import annotations

import argparse
import copy
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

from benchmarks.program import DOCS, parse, table, write_between
from benchmarks.tree_stages import made_up_rows
from mpc.endpoint import ROUND_PRICE
from mpc.offline.correlation import Correlation
from mpc.party import Party
from mpc.protocol.rehearsal import TraceView
from mpc.rings import AnyRing
from mpc.words import Shape
from protocols.ot.kernels import aes_blocks
from protocols.ot.kernels.fold import fold_streams
from protocols.runtime.local import run_session
from protocols.testing.two_parties import Dealt, run_both
from secure_tree import SecureXGBClassifier
from sharewood.warming_up import warm_up

PAGE, NAME = DOCS / "deviating_parties.md", "costs"
# Rows, features, depth.
SIZES = {"smallest": (40, 3, 2), "569": (568, 30, 3), "10000": (10_000, 20, 4)}
BITS = 8
RUNS = 2 * BITS + 1


def job(size: str, trees: int) -> Callable[[Party], None]:
    rows, features, depth = SIZES[size]

    def train(party: Party) -> None:
        X, y = made_up_rows(rows // 2, features, party.rank)
        SecureXGBClassifier(n_estimators=trees, max_depth=depth, max_bin=32).fit(party, X, y)

    return train


class _Recorded:
    """Passes calls on, and keeps what they return."""

    def __init__(self, real: Any) -> None:
        self._real, self.log = real, list[Any]()

    def _keep(self, value: Any) -> Any:
        self.log.append(value)
        return value

    def exchange(self, *message: Any) -> Any:
        return self._keep(self._real.exchange(*message))

    def exchange_public(self, *message: Any) -> Any:
        # Its reader may take it apart.
        return copy.deepcopy(self._keep(self._real.exchange_public(*message)))

    def __call__(self, size: int) -> bytes:
        drawn: bytes = self._keep(self._real(size))
        return drawn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Again:
    """Returns what was kept, to the same calls."""

    has_dealer, dealt, used, waited, billed = True, 0, 0, 0.0, None
    wire_sent = wire_received = 0

    def __init__(self, log: Sequence[Any]) -> None:
        self._log = iter(log)

    def exchange(self, tag: str, arrays: Sequence[Any], like: Any = None) -> Any:
        for array in arrays:
            if not isinstance(array, np.ndarray):
                array.tobytes()
        return next(self._log)

    def exchange_public(self, *_: Any) -> Any:
        return copy.deepcopy(next(self._log))

    def take(self, request: Correlation[Any]) -> Any:
        return next(self._log)[1]

    def __call__(self, size: int) -> Any:
        return next(self._log)

    def _nothing(self, *_: Any) -> None:
        return None

    provide = discard = keep = forget = _nothing


class _Drawn(TraceView):
    """Counts the bytes of what this rank is dealt, packed."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.bytes = 0

    def mask(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        return self._counted(ring, shape)

    def private(self, owner: int, ring: AnyRing, shape: Shape) -> np.ndarray | None:
        return self._counted(ring, shape) if owner == self._rank else None

    def half(self, ring: AnyRing, shape: Shape, to: int | None) -> np.ndarray:
        return self._counted(ring, shape)

    def _counted(self, ring: AnyRing, shape: Shape) -> np.ndarray:
        self.bytes += sum(ring.sizes(shape))
        return np.broadcast_to(ring.dtype.type(0), shape)


def run_again(size: str, trees: int, repeats: int) -> tuple[float, float]:
    """Return CPU seconds of one more run of both programs, the least of `repeats`, and the bytes dealt to both."""
    train, logs = job(size, trees), dict[int, list[Any]]()

    def recorded(party: Party) -> None:
        link, randomness, draw = _Recorded(party.link), Dealt(party.randomness), _Recorded(party.draw)
        party.link, party.randomness, party.draw, party.round_price = link, randomness, draw, ROUND_PRICE
        train(party)
        logs[party.rank] = [link.log, randomness.given, draw.log]

    run_both(recorded)
    seconds, drawn = 0.0, 0
    for rank, log in logs.items():
        seconds += min(_timed(train, _again(rank, log)) for _ in range(repeats))
        for request, _ in log[1]:
            view = _Drawn(rank)
            request.deal(view)
            drawn += view.bytes
    return seconds, drawn


def _again(rank: int, log: Sequence[Sequence[Any]]) -> Party:
    link, randomness, draw = (_Again(part) for part in log)
    return Party(rank, link, randomness, round_price=ROUND_PRICE, draw=draw)  # type: ignore[arg-type]  # as needed here


def _timed(work: Callable[[Party], None], party: Party) -> float:
    start = thread_time()
    work(party)
    return thread_time() - start


def seconds_by_byte(repeats: int, words: int = 128, calls: int = 200) -> float:
    """Return CPU seconds for a byte of 2^8 streams and their sums, by the kernel of SoftSpoken."""
    leaves = 1 << BITS
    schedules = aes_blocks.schedules(np.frombuffer(os.urandom(16 * leaves), np.uint64).reshape(leaves, 2))
    room, sums = np.empty((leaves, words // 2, 2), np.uint64), np.empty((1, words), np.uint64)
    planes = np.zeros((BITS, words), np.uint64)

    def expand(_: Any) -> None:
        for call in range(calls):
            fold_streams(schedules, call * words // 2, room, sums, planes)

    return min(_timed(expand, None) for _ in range(repeats + 1)) / (8 * words * calls)  # type: ignore[arg-type]


def in_processes(size: str, trees: int) -> float:
    """Return CPU seconds of all processes of a training."""
    return sum(float(process["cpu_seconds"]) for process in run_session(job(size, trees)).values())


def per_tree(measure: Callable[[int], Any], trees: Sequence[int]) -> Iterator[float]:
    """Yield the figures of a measurement per tree: the difference between more and fewer trees."""
    fewer, more = (np.atleast_1d(measure(count)) for count in trees)
    yield from (more - fewer) / (trees[1] - trees[0])


def measured(size: str, trees: Sequence[int], repeats: int) -> dict[str, float]:
    run_again(size, 1, 1)  # compiles kernels
    (whole,) = per_tree(lambda count: min(in_processes(size, count) for _ in range(repeats)), trees)
    again, drawn = per_tree(lambda count: run_again(size, count, repeats), trees)
    # Each byte at the party that is dealt it, and at the one that checks.
    streams = 2 * drawn * seconds_by_byte(repeats)
    return {
        "a training, ms": 1e3 * whole,
        "one run of both again, ms": 1e3 * again,
        "17 runs, ms": 1e3 * RUNS * again,
        "MB dealt to both, values": drawn / 1e6,
        "streams, ms": 1e3 * streams,
        "CPU beside plain": (whole + RUNS * again + streams) / whole,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["569", "10000"], choices=list(SIZES))
    parser.add_argument("--trees", type=int, nargs=2, default=[2, 12])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, sizes=["smallest"], trees=[1, 2], repeats=1)
    warm_up()
    figures = {}
    for size in options.sizes:
        rows, features, depth = SIZES[size]
        figures[f"{rows:,} x {features}, depth {depth}"] = measured(size, options.trees, options.repeats)
    text = table("per tree", figures)
    print(text)
    write_between(PAGE, NAME, text, options.out / PAGE.name)


if __name__ == "__main__":
    main()
