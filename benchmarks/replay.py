"""Seconds that were measured elsewhere as the rounds of a benchmark: pytest-benchmark's clock shows them."""

from __future__ import annotations

_shown = 0.0


def clock() -> float:
    """The sum of the seconds shown so far; for `pytest.mark.benchmark(timer=clock)`."""
    return _shown


def _show(seconds: float) -> None:
    global _shown
    _shown += seconds


def replay(benchmark, name: str, size: int, seconds: list[float], **facts) -> None:
    """Enter what was measured of the operation `name` at that size, and the facts of it."""
    rest = iter(seconds)
    benchmark.group = f"{name}, n = {size}"
    benchmark.pedantic(_show, setup=lambda: ((next(rest),), {}), rounds=len(seconds))
    benchmark.extra_info.update(facts, name=name, size=size)
