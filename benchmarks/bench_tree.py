"""Benchmark a tree and each of its stages between two processes: 20 features, 32 bins, depth 4.

Stages are timed inside whole trees: party 0's meter counts their seconds, rounds and bytes on the wire in both
directions, and the clock of these benchmarks reads that meter.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.pair import Operations, Pair
from benchmarks.replay import clock, replay
from benchmarks.tree_stages import STAGES, dealt_by_stage, tree
from mpc.meter import Stage

SIZES = (1_000, 10_000, 100_000)
SMALLEST = (40,)
ROUNDS = 3
# Of a tree: its seconds, its facts and its stages.
Grown = tuple[float, dict[str, Any], dict[str, Stage]]
Trees = tuple[int, list[Grown]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    sizes = SMALLEST if metafunc.config.getoption("--smallest") else SIZES
    metafunc.parametrize("trees", sizes, indirect=True, scope="module")


def a_tree() -> Operations:
    return {"tree": tree()}


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    made = Pair(a_tree)
    yield made
    made.close()


@pytest.fixture(scope="module")
def trees(request: pytest.FixtureRequest, pair: Pair) -> Trees:
    """Return rows, and the cost of each of ROUNDS trees and its stages, after one warm-up tree."""
    n: int = request.param
    rounds = 1 if request.config.getoption("--smallest") else ROUNDS
    grown: list[Grown] = []
    for _ in range(1 + rounds):
        run, facts = pair.prepare("tree", n)
        pair.party.parts.clear()
        started = time.perf_counter()
        run()
        seconds = time.perf_counter() - started
        grown.append((seconds, facts, {name: replace(stage) for name, stage in pair.party.parts.items()}))
    pair.settle()
    return n, grown[1:]


@pytest.mark.benchmark(timer=clock)
def test_tree(benchmark: BenchmarkFixture, trees: Trees) -> None:
    n, grown = trees
    offline = statistics.median(facts["offline_seconds"] for _, facts, _ in grown)
    facts = dict(grown[-1][1], offline_seconds=offline, suite="tree", system="sharewood")
    replay(benchmark, "whole tree", n, [seconds for seconds, _, _ in grown], **facts)


@pytest.mark.benchmark(timer=clock)
@pytest.mark.parametrize("stage", STAGES)
def test_stage(benchmark: BenchmarkFixture, trees: Trees, stage: str) -> None:
    n, grown = trees
    spent = [stages[stage] for _, _, stages in grown]
    last = spent[-1]
    replay(
        benchmark,
        stage,
        n,
        [s.seconds for s in spent],
        suite="tree",
        system="sharewood",
        rounds=last.rounds,
        online_bytes=last.bytes_sent + last.bytes_received,
        offline_bytes=dealt_by_stage(n)[stage],
    )
