"""The costs of workers, in reports and on pages."""

import pytest

from mpc.meter import Stage
from sharewood.page import sections
from sharewood.report.shards import by_process, by_shard, peaks, with_workers


def told(sent, busy, peak=1 << 30):
    stage = {"rounds": 3, "seconds": 1.0, "bytes_sent": sent, "bytes_received": 2 * sent, "bytes_dealt": 7}
    return {"stages": {"online": stage}, "rounds": 3, "cpu_seconds": 1.5, "memory_peak_bytes": peak, "busy": busy}


WORKERS = [
    told(100, [["setup", 1000.0, 1001.0], ["online", 1002.0, 1002.5], ["online", 1003.0, 1003.5]]),
    told(200, [["setup", 999.0, 1001.0]]),
]


def test_each_worker_has_its_costs_since_the_first_one_began():
    first, second = by_shard(WORKERS)
    assert (first.shard, first.bytes, first.bytes_dealt, second.shard, second.bytes) == (0, 300, 7, 1, 600)
    assert first.busy[0] == ("setup", 1.0, 2.0) and second.busy == [("setup", 0.0, 2.0)]
    assert first.busy_seconds == pytest.approx({"setup": 1.0, "online": 1.0})
    assert first.document()["busy"][0] == ["setup", 1.0, 2.0]
    assert by_shard([]) == []


def test_a_lead_and_its_workers_together():
    together = with_workers({"online": Stage(rounds=5, bytes_sent=10)}, WORKERS)["online"]
    assert (together.rounds, together.bytes_sent, together.bytes_received) == (8, 310, 600)
    assert by_process({"party_a": peaks(5, WORKERS)})["party_a, shard 1"] == 1 << 30


def test_the_page_shows_when_each_shard_worked():
    section = sections.shards({"party_a": by_shard(WORKERS)})
    assert [row[0] for row in section.table.rows] == ["party_a, shard 0", "party_a, shard 1"]
    (chart,) = section.charts
    for text in ("party_a, shard 1", "set-up", "online", "seconds"):
        assert text in chart.svg
