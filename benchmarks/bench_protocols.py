"""Benchmark every registered protocol, and the basic operations beside CrypTen's in the same run.

Two processes run on this machine, with one core and one thread each, and a dealer. CrypTen uses plain sockets; ours use
TLS and, for a like-for-like comparison, plain sockets. CrypTen deals by its party 0, which is its default and not
secure, and by a third party, like our dealer. The systems take turns, round by round, so that other load on the machine
affects all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

from benchmarks.crypten_pair import PROVIDERS, CryptenPair
from benchmarks.every_protocol import EVERY_PROTOCOL
from benchmarks.operations import OPERATIONS
from benchmarks.pair import Pair
from benchmarks.replay import clock, replay

SIZES = {"argmax of rows of 32": (3_200, 32_000, 96_000), "matrix product": (64, 128, 256)}
WORK = [(name, size) for name in OPERATIONS for size in SIZES.get(name, (1_000, 10_000, 100_000))]
ROUNDS, WARM_UP = 31, 5
EVERY_SIZES = (256, 4_096)
EVERY_WORK = [
    (name, size)
    for name in EVERY_PROTOCOL
    for size in ((4, 64) if name == "argmax.argmax: row of 1,241, 15 bits" else EVERY_SIZES)
]
EVERY_ROUNDS = 5


@pytest.fixture(scope="module")
def pair():
    made = Pair(OPERATIONS | EVERY_PROTOCOL)
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain_pair(pair):
    made = Pair(OPERATIONS, plain=True)
    yield made
    made.close()


@pytest.fixture(scope="module")
def crypten_pair(pair, plain_pair):
    # After those that fork, because torch's threads must not exist yet.
    made = CryptenPair()
    yield made
    made.close()


@pytest.fixture(scope="module", params=WORK, ids=lambda work: "{}-{}".format(*work))
def turns(request, pair, plain_pair, crypten_pair):
    """Yield name, size, and for each system the seconds of ROUNDS runs and the facts of one."""
    work = request.param
    prepare: dict[str, Callable] = {"sharewood, no TLS": lambda: plain_pair.prepare(*work)}
    prepare |= {s: lambda system=s: (crypten_pair.prepare(system, *work), {}) for s in PROVIDERS}
    prepare |= {f"sharewood, {by}": lambda by=by: pair.prepare(*work, by) for by in ("bits", "keys")}
    runs: dict[str, list[tuple[float, dict]]] = {system: [] for system in prepare}
    for _ in range(WARM_UP + ROUNDS):
        for system, ready in prepare.items():
            run, facts = ready()  # with its own randomness; dealing is timed separately
            started = time.perf_counter()
            run()
            runs[system].append((time.perf_counter() - started, facts))
    measured = {}
    for system, done in runs.items():
        counted = crypten_pair.count(system, *work) if system in PROVIDERS else summary([facts for _, facts in done])
        measured[system] = [seconds for seconds, _ in done[WARM_UP:]], counted
    return *work, measured


def summary(facts: list[dict]) -> dict:
    """Return the facts of the last run, with the median of the offline seconds after warm-up runs."""
    return facts[-1] | {"offline_seconds": statistics.median(f["offline_seconds"] for f in facts[WARM_UP:])}


@pytest.mark.benchmark(timer=clock)
@pytest.mark.parametrize("system", ["sharewood, no TLS", *PROVIDERS, "sharewood, bits", "sharewood, keys"])
def test_operation(benchmark, turns, system):
    name, size, measured = turns
    seconds, facts = measured[system]
    replay(benchmark, name, size, seconds, suite="operation", system=system, **facts)


@pytest.mark.parametrize(("name", "size"), EVERY_WORK)
def test_protocol(benchmark, pair, name, size):
    gathered: list[dict] = []

    def setup():
        run, facts = pair.prepare(name, size)
        gathered.append(facts)
        return (run,), {}

    benchmark.group = f"{name}, n = {size}"
    benchmark.pedantic(lambda run: run(), setup=setup, rounds=EVERY_ROUNDS, warmup_rounds=WARM_UP)
    benchmark.extra_info.update(summary(gathered), suite="protocol", system="sharewood", name=name, size=size)
