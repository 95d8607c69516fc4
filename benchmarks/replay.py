"""Show seconds that were measured elsewhere as the rounds of a benchmark, by pytest-benchmark's clock."""

from __future__ import annotations

from typing import Any

from pytest_benchmark.fixture import BenchmarkFixture

_shown = 0.0


def clock() -> float:
    """Return the sum of the seconds shown so far, for `pytest.mark.benchmark(timer=clock)`."""
    return _shown


def _show(seconds: float) -> None:
    global _shown
    _shown += seconds


def replay(benchmark: BenchmarkFixture, name: str, size: int, seconds: list[float], **facts: Any) -> None:
    """Record the measurements and facts of the operation `name` at that size."""
    rest = iter(seconds)
    benchmark.group = f"{name}, n = {size}"
    benchmark.pedantic(_show, setup=lambda: ((next(rest),), {}), rounds=len(seconds))
    benchmark.extra_info.update(facts, name=name, size=size)
