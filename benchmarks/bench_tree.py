"""Benchmark a tree and each of its stages between two processes: 20 features, 32 bins, depth 4.

Stages are timed inside whole trees: party 0's meter counts their seconds, rounds and bytes on the wire in both
directions, and the clock of these benchmarks reads that meter.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import pytest

from benchmarks.pair import Pair
from benchmarks.replay import clock, replay
from benchmarks.tree_stages import STAGES, dealt_by_stage, tree
from mpc.meter import Stage

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 3


@pytest.fixture(scope="module")
def pair():
    made = Pair({"tree": tree()})
    yield made
    made.close()


@pytest.fixture(
    scope="module", params=[(n, by) for n in SIZES for by in ("bits", "keys")], ids=lambda p: f"{p[1]}-{p[0]}"
)
def trees(request, pair):
    """Yield rows, variant, and the cost of each of ROUNDS trees and its stages, after one warm-up tree."""
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


@pytest.mark.benchmark(timer=clock)
def test_tree(benchmark, trees):
    n, by, grown = trees
    offline = statistics.median(facts["offline_seconds"] for _, facts, _ in grown)
    facts = dict(grown[-1][1], offline_seconds=offline, suite="tree", system=f"sharewood, {by}")
    replay(benchmark, "whole tree", n, [seconds for seconds, _, _ in grown], **facts)


@pytest.mark.benchmark(timer=clock)
@pytest.mark.parametrize("stage", STAGES)
def test_stage(benchmark, trees, stage):
    n, by, grown = trees
    spent: list[Stage] = [stages[stage] for _, _, stages in grown]
    last = spent[-1]
    replay(
        benchmark,
        stage,
        n,
        [s.seconds for s in spent],
        suite="tree",
        system=f"sharewood, {by}",
        rounds=last.rounds,
        online_bytes=last.bytes_sent + last.bytes_received,
        offline_bytes=dealt_by_stage(n, by)[stage],
    )
