"""A tree and each of its stages, between two processes: 20 features, 32 bins, depth 4.

Stages are timed where they belong, inside whole trees: party 0's meter counts their seconds, rounds and bytes on the
wire in both directions, and the clock of these benchmarks shows that meter.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import pytest

from benchmarks.pair import Pair
from benchmarks.tree_stages import STAGES, dealt_by_stage, tree
from mpc.party import Stage

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 3
_shown = 0.0


def clock() -> float:
    """Seconds that the trees shown so far have taken, or their stage."""
    return _shown


def show(seconds: float) -> None:
    global _shown
    _shown += seconds


@pytest.fixture(scope="module")
def pair():
    made = Pair({"tree": tree()})
    yield made
    made.close()


@pytest.fixture(
    scope="module", params=[(n, by) for n in SIZES for by in ("bits", "keys")], ids=lambda p: f"{p[1]}-{p[0]}"
)
def trees(request, pair):
    """Rows, variant, and of each of ROUNDS trees what it cost as a whole and by stage, after one that warms up."""
    n, by = request.param
    grown = []
    for _ in range(1 + ROUNDS):
        run, facts = pair.prepare("tree", n, by)
        pair.party.parts.clear()
        started = time.perf_counter()
        run()
        seconds = time.perf_counter() - started
        grown.append((seconds, facts, {name: replace(stage) for name, stage in pair.party.parts.items()}))
    return n, by, grown[1:]


def replay(benchmark, n: int, by: str, name: str, seconds: list[float], **facts) -> None:
    """Enter the seconds that were measured as the rounds of a benchmark."""
    rest = iter(seconds)
    benchmark.group = f"{name}, n = {n}"
    benchmark.pedantic(show, setup=lambda: ((next(rest),), {}), rounds=len(seconds))
    benchmark.extra_info.update(facts, suite="tree", system=f"sharewood, {by}", name=name, size=n)


@pytest.mark.benchmark(timer=clock)
def test_tree(benchmark, trees):
    n, by, grown = trees
    offline = statistics.median(facts["offline_seconds"] for _, facts, _ in grown)
    facts = dict(grown[-1][1], offline_seconds=offline)
    replay(benchmark, n, by, "whole tree", [seconds for seconds, _, _ in grown], **facts)


@pytest.mark.benchmark(timer=clock)
@pytest.mark.parametrize("stage", STAGES)
def test_stage(benchmark, trees, stage):
    n, by, grown = trees
    spent: list[Stage] = [stages[stage] for _, _, stages in grown]
    last = spent[-1]
    replay(
        benchmark,
        n,
        by,
        stage,
        [s.seconds for s in spent],
        rounds=last.rounds,
        online_bytes=last.bytes_sent + last.bytes_received,
        offline_bytes=dealt_by_stage(n, by)[stage],
    )
