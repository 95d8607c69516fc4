"""Costs of workers and their leads: rounds of the busiest pair, bytes of all, peak memory of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mpc.meter import Stage
from sharewood.report.figures import Figures

# Peak memory of a process in bytes; for a party with workers, that of its lead and of every shard.
Peak = int | dict[str, int]


@dataclass(frozen=True)
class ShardCosts(Figures):
    """One worker: rounds, bytes with its peer and from the dealer, CPU seconds, peak memory, seconds of work by phase.

    Also when it worked: [phase, begin, end] in seconds since the first of the party's workers began.
    """

    shard: int
    rounds: int
    bytes: int
    bytes_dealt: int
    cpu_seconds: float
    memory_peak_bytes: int
    busy_seconds: dict[str, float]
    busy: list[tuple[str, float, float]]


def by_shard(workers: Sequence[Mapping[str, Any]]) -> list[ShardCosts]:
    """Return the reported costs of each of a party's workers."""
    zero = min((begin for each in workers for _, begin, _ in each["busy"]), default=0.0)
    return [_shard(number, each, zero) for number, each in enumerate(workers)]


def _shard(number: int, told: Mapping[str, Any], zero: float) -> ShardCosts:
    stages = [Stage(**stage) for stage in told["stages"].values()]
    busy = [(phase, begin - zero, end - zero) for phase, begin, end in told["busy"]]
    seconds: dict[str, float] = {}
    for phase, begin, end in busy:
        seconds[phase] = seconds.get(phase, 0.0) + end - begin
    return ShardCosts(
        shard=number,
        rounds=told["rounds"],
        bytes=sum(stage.bytes_sent + stage.bytes_received for stage in stages),
        bytes_dealt=sum(stage.bytes_dealt for stage in stages),
        cpu_seconds=told["cpu_seconds"],
        memory_peak_bytes=told["memory_peak_bytes"],
        busy_seconds=seconds,
        busy=busy,
    )


def with_workers(stages: Mapping[str, Stage], workers: Sequence[Mapping[str, Any]]) -> dict[str, Stage]:
    """Return a lead's stages with the rounds of the busiest worker, and the bytes of all.

    Seconds are those of the lead, which waits for its workers.
    """
    together = {name: replace(stage) for name, stage in stages.items()}
    for name in {name for each in workers for name in each["stages"]}:
        spent = [Stage(**each["stages"][name]) for each in workers if name in each["stages"]]
        stage = together.setdefault(name, Stage())
        stage.rounds += max(s.rounds for s in spent)
        stage.bytes_sent += sum(s.bytes_sent for s in spent)
        stage.bytes_received += sum(s.bytes_received for s in spent)
        stage.bytes_dealt += sum(s.bytes_dealt for s in spent)
    return together


def peaks(lead: int, workers: Sequence[Mapping[str, Any]]) -> Peak:
    """Return the peak memory of a party."""
    if not workers:
        return lead
    return {"lead": lead, **{str(i): each["memory_peak_bytes"] for i, each in enumerate(workers)}}


def by_process(memory: Mapping[str, Peak]) -> dict[str, int]:
    """Return peak memory by the names of processes."""
    named: dict[str, int] = {}
    for name, peak in memory.items():
        if isinstance(peak, int):
            named[name] = peak
            continue
        for part, size in peak.items():
            named[f"{name}, {part if part == 'lead' else f'shard {part}'}"] = size
    return named
