"""Spans of work: those close together are merged, and their number is bounded."""

import pytest

from protocols.runtime.workers import busy
from protocols.runtime.workers.busy import MOST, Busy


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(busy.time, "time", lambda: now[0])
    return now


def work(spans, clock, phase, begin, end):
    clock[0] = begin
    with spans.at(phase):
        clock[0] = end


def test_close_spans_of_a_phase_are_merged(clock):
    spans = Busy()
    for phase, begin, end in (("setup", 0, 1), ("setup", 1.005, 2), ("online", 2, 3), ("online", 3.5, 4)):
        work(spans, clock, phase, begin, end)
    assert spans.spans == [("setup", 0, 2), ("online", 2, 3), ("online", 3.5, 4)]


def test_a_failure_ends_a_span_and_clocks_may_go_back(clock):
    spans = Busy()
    with pytest.raises(ValueError), spans.at("setup"):
        clock[0] -= 5
        raise ValueError
    assert spans.spans == [("setup", 1000, 1000)]


def test_many_spans_become_few_that_cover_the_same_time(clock):
    spans = Busy()
    for number in range(10_000):
        work(spans, clock, "online" if number % 1000 < 990 else "setup", number, number + 0.5)
    assert len(spans.spans) <= MOST
    assert spans.spans[0][1] == 0 and spans.spans[-1][2] == 9999.5
    assert {phase for phase, _, _ in spans.spans} == {"online", "setup"}
    assert all(a[2] <= b[1] for a, b in zip(spans.spans, spans.spans[1:], strict=False))
