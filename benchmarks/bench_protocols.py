"""Benchmark every registered protocol, and the basic operations beside CrypTen's in the same run.

Two processes run on this machine, with one core and one thread each, and a dealer. CrypTen uses plain sockets; ours use
TLS and, for a like-for-like comparison, plain sockets. CrypTen deals by its party 0, which is its default and not
secure, and by a third party, like our dealer. The systems take turns, round by round, so that other load on the machine
affects all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.crypten_pair import PROVIDERS, CryptenPair
from benchmarks.every_protocol import EVERY_PROTOCOL
from benchmarks.operations import OPERATIONS
from benchmarks.pair import Operations, Pair
from benchmarks.replay import clock, replay

LONG_ROWS = "argmax.argmax: row of 1,241, 15 bits"
Facts = dict[str, Any]
Work = tuple[str, int]


@dataclass(frozen=True)
class Sizes:
    """Of operations and of every protocol, by default and by name; repetitions."""

    operation: tuple[int, ...]
    operations: Mapping[str, tuple[int, ...]]
    protocol: tuple[int, ...]
    protocols: Mapping[str, tuple[int, ...]]
    rounds: int
    protocol_rounds: int
    warm_up: int

    @property
    def work(self) -> list[Work]:
        return [(name, size) for name in OPERATIONS for size in self.operations.get(name, self.operation)]

    @property
    def every(self) -> list[Work]:
        return [(name, size) for name in EVERY_PROTOCOL for size in self.protocols.get(name, self.protocol)]


FULL = Sizes(
    (1_000, 10_000, 100_000),
    {"argmax of rows of 32": (3_200, 32_000, 96_000), "matrix product": (64, 128, 256)},
    (256, 4_096),
    {LONG_ROWS: (4, 64)},
    rounds=31,
    protocol_rounds=5,
    warm_up=5,
)
SMALLEST = Sizes((64,), {"matrix product": (4,)}, (8,), {LONG_ROWS: (1,)}, rounds=1, protocol_rounds=1, warm_up=0)


def _sizes(config: pytest.Config) -> Sizes:
    return SMALLEST if config.getoption("--smallest") else FULL


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    sizes = _sizes(metafunc.config)
    if "turns" in metafunc.fixturenames:
        metafunc.parametrize("turns", sizes.work, indirect=True, scope="module", ids=lambda work: "{}-{}".format(*work))
    if "every" in metafunc.fixturenames:
        metafunc.parametrize("every", sizes.every, ids=lambda work: "{}-{}".format(*work))


def with_every_protocol() -> Operations:
    return OPERATIONS | EVERY_PROTOCOL


def beside_crypten() -> Operations:
    return OPERATIONS


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    made = Pair(with_every_protocol)
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain_pair() -> Iterator[Pair]:
    made = Pair(beside_crypten, plain=True)
    yield made
    made.close()


@pytest.fixture(scope="module")
def crypten_pair() -> Iterator[CryptenPair]:
    made = CryptenPair()
    yield made
    made.close()


@pytest.fixture(scope="module")
def turns(
    request: pytest.FixtureRequest, pair: Pair, plain_pair: Pair, crypten_pair: CryptenPair
) -> tuple[str, int, dict[str, tuple[list[float], Facts]]]:
    """Return name, size, and for each system the seconds of all runs but the first ones, and the facts of one."""
    sizes = _sizes(request.config)
    work: Work = request.param
    prepare: dict[str, Callable[[], tuple[Callable[[], Any], Facts]]] = {
        "sharewood, no TLS": lambda: plain_pair.prepare(*work)
    }
    prepare |= {s: lambda system=s: (crypten_pair.prepare(system, *work), {}) for s in PROVIDERS}  # type: ignore[misc]
    prepare["sharewood"] = lambda: pair.prepare(*work)
    runs: dict[str, list[tuple[float, Facts]]] = {system: [] for system in prepare}
    for _ in range(sizes.warm_up + sizes.rounds):
        for system, ready in prepare.items():
            run, facts = ready()  # with its own randomness; dealing is timed separately
            started = time.perf_counter()
            run()
            runs[system].append((time.perf_counter() - started, facts))
    pair.settle()
    plain_pair.settle()
    measured = {}
    for system, done in runs.items():
        kept = done[sizes.warm_up :]
        counted = crypten_pair.count(system, *work) if system in PROVIDERS else summary([facts for _, facts in kept])
        measured[system] = [seconds for seconds, _ in kept], counted
    return *work, measured


def summary(facts: list[Facts]) -> Facts:
    """Return the facts of the last run, with the median of the offline seconds."""
    return facts[-1] | {"offline_seconds": statistics.median(f["offline_seconds"] for f in facts)}


@pytest.mark.benchmark(timer=clock)
@pytest.mark.parametrize("system", ["sharewood, no TLS", *PROVIDERS, "sharewood"])
def test_operation(
    benchmark: BenchmarkFixture, turns: tuple[str, int, dict[str, tuple[list[float], Facts]]], system: str
) -> None:
    name, size, measured = turns
    seconds, facts = measured[system]
    replay(benchmark, name, size, seconds, suite="operation", system=system, **facts)


def test_protocol(benchmark: BenchmarkFixture, request: pytest.FixtureRequest, pair: Pair, every: Work) -> None:
    (name, size), sizes = every, _sizes(request.config)
    gathered: list[Facts] = []

    def setup() -> tuple[tuple[Callable[[], Any]], dict[str, Any]]:
        run, facts = pair.prepare(name, size)
        gathered.append(facts)
        return (run,), {}

    benchmark.group = f"{name}, n = {size}"
    benchmark.pedantic(lambda run: run(), setup=setup, rounds=sizes.protocol_rounds, warmup_rounds=sizes.warm_up)
    pair.settle()
    facts = summary(gathered[sizes.warm_up :])
    benchmark.extra_info.update(facts, suite="protocol", system="sharewood", name=name, size=size)
