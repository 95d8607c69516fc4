"""Every registered protocol, and the basic operations with CrypTen's own beside them in the same run.

Two processes on this machine, a core and one thread each, and whoever deals. CrypTen's talk over plain sockets, ours
over TLS, and once more over plain sockets, like for like. CrypTen's party 0 deals to both, which is its default and not
secure, and once more a third party does, like our dealer.
"""

from __future__ import annotations

import statistics

import pytest

from benchmarks.crypten_pair import PROVIDERS, CryptenPair
from benchmarks.every_protocol import EVERY_PROTOCOL
from benchmarks.operations import OPERATIONS
from benchmarks.pair import Pair

SIZES = {"argmax of rows of 32": (3_200, 32_000, 96_000), "matrix product": (64, 128, 256)}
WORK = [(name, size) for name in OPERATIONS for size in SIZES.get(name, (1_000, 10_000, 100_000))]
ROUNDS, WARM_UP = 31, 5
EVERY_SIZES = (256, 4_096)
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
    # After those that fork: torch's threads must not be there yet.
    made = CryptenPair()
    yield made
    made.close()


def measure(benchmark, pair, name, size, by, rounds, **labels):
    """Rounds of the operation, each after randomness of its own has arrived; what is dealt is timed apart."""
    gathered: list[dict] = []

    def setup():
        run, facts = pair.prepare(name, size, by)
        gathered.append(facts)
        return (run,), {}

    benchmark.group = f"{name}, n = {size}"
    benchmark.pedantic(lambda run: run(), setup=setup, rounds=rounds, warmup_rounds=WARM_UP)
    last = gathered[-1]
    last["offline_seconds"] = statistics.median(f["offline_seconds"] for f in gathered[WARM_UP:])
    benchmark.extra_info.update(last, name=name, size=size, **labels)


def measure_crypten(benchmark, crypten_pair, name, size, system, **labels):
    benchmark.group = f"{name}, n = {size}"
    work = system, name, size
    benchmark.pedantic(
        lambda run: run(), setup=lambda: ((crypten_pair.prepare(*work),), {}), rounds=ROUNDS, warmup_rounds=WARM_UP
    )
    benchmark.extra_info.update(crypten_pair.count(*work), name=name, size=size, system=system, **labels)


# The systems one after the other at each size: what slows the machine for a while slows all of them.
@pytest.mark.parametrize("system", ["sharewood, no TLS", *PROVIDERS, "sharewood, bits", "sharewood, keys"])
@pytest.mark.parametrize(("name", "size"), WORK)
def test_operation(benchmark, pair, plain_pair, crypten_pair, name, size, system):
    labels = {"suite": "operation", "system": system}
    if system in PROVIDERS:
        measure_crypten(benchmark, crypten_pair, name, size, **labels)
        return
    ours, by = (plain_pair, "bits") if system.endswith("no TLS") else (pair, system.split()[-1])
    measure(benchmark, ours, name, size, by, ROUNDS, **labels)


@pytest.mark.parametrize("size", EVERY_SIZES)
@pytest.mark.parametrize("name", EVERY_PROTOCOL)
def test_protocol(benchmark, pair, name, size):
    measure(benchmark, pair, name, size, "bits", EVERY_ROUNDS, suite="protocol", system="sharewood")
