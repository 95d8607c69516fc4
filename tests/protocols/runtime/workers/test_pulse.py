"""A worker whose count stands still is frozen; one that counts, or is starting, or cannot be read, is not."""

import pytest

from protocols.runtime.workers.pulse import Pulses, limit_of


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def watched(counts, timeout):
    clock = Clock()
    return Pulses(list(counts), timeout, counts.__getitem__, clock), clock


def test_a_worker_that_stops_counting_is_frozen_before_the_other_lead_gives_up():
    counts = {"a": b"1", "b": b"1"}
    pulses, clock = watched(counts, 40.0)
    assert pulses.frozen() == []
    for second in range(1, 40):
        clock.now = float(second)
        counts["a"] = str(second).encode()
        found = pulses.frozen()
        assert found == ([1] if second > 20 else []), second


def test_a_worker_has_time_to_start():
    pulses, clock = watched({"a": None}, 12.0)
    clock.now = 59.0
    assert pulses.frozen() == []
    clock.now = 61.0
    assert pulses.frozen() == [0]


def test_no_worker_is_frozen_while_ray_does_not_answer():
    counts = {"a": b"1", "b": b"1"}
    pulses, clock = watched(counts, 40.0)
    pulses.frozen()
    b = counts.pop("b")
    for clock.now in (30.0, 60.0):
        assert pulses.frozen() == []
    counts["b"] = b
    clock.now = 75.0
    assert pulses.frozen() == []
    clock.now = 81.0
    assert pulses.frozen() == [0, 1]


@pytest.mark.parametrize("timeout", [1.0, 5.0, 10.0, 40.0, 600.0])
def test_the_limit_is_within_the_timeout(timeout):
    assert limit_of(timeout) <= timeout
    assert limit_of(timeout) <= max(timeout / 2, 10.0)
