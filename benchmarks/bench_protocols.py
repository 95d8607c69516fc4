"""Every basic operation, online, between two processes; CrypTen's own beside it in the same run.

Both sides: two processes on this machine, one thread each; ours over TLS, CrypTen's over plain gloo sockets.
"""

from __future__ import annotations

import statistics

import pytest

from benchmarks.crypten_pair import CryptenPair
from benchmarks.operations import OPERATIONS
from benchmarks.pair import Pair

SIZES = {"argmax of rows of 32": (32_000,), "matrix product": (256,)}
WORK = [(name, size) for name in OPERATIONS for size in SIZES.get(name, (1_000, 100_000))]
ROUNDS = 5


@pytest.fixture(scope="module")
def pair():
    made = Pair(OPERATIONS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def crypten_pair(pair):
    # After `pair`, which forks: torch's threads must not be there yet.
    made = CryptenPair()
    yield made
    made.close()


@pytest.mark.parametrize(("name", "size"), WORK)
@pytest.mark.parametrize("by", ["bits", "keys"])
def test_ours(benchmark, pair, name, size, by):
    gathered: list[dict] = []

    def setup():
        run, facts = pair.prepare(name, size, by)
        gathered.append(facts)
        return (run,), {}

    benchmark.group = f"{name}, n = {size}"
    benchmark.pedantic(lambda run: run(), setup=setup, rounds=ROUNDS, warmup_rounds=1)
    last = gathered[-1]
    last["offline_seconds"] = statistics.median(f["offline_seconds"] for f in gathered[1:])
    benchmark.extra_info.update(last, system=f"sharewood, {by}", name=name, size=size)


@pytest.mark.parametrize(("name", "size"), WORK)
def test_crypten(benchmark, crypten_pair, name, size):
    benchmark.group = f"{name}, n = {size}"
    benchmark.pedantic(
        lambda run: run(), setup=lambda: ((crypten_pair.prepare(name, size),), {}), rounds=ROUNDS, warmup_rounds=1
    )
    benchmark.extra_info.update(system="crypten", name=name, size=size)
