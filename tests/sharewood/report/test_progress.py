"""The progress log of a training, and the points of a learning curve."""

from types import SimpleNamespace

import pytest

from mpc.errors import WorkersLost
from mpc.meter import Stage, Traffic
from secure_tree.public.config import TrainConfig
from sharewood.report import progress
from sharewood.report.learning_curve import POINTS, points
from sharewood.report.progress import Progress


def said(caplog, monkeypatch, classes=1, waiting=0.0, workers=None, **parameters):
    """Return the log of a training of ten rounds, of which each takes two seconds online, besides waiting."""
    clock = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    party = SimpleNamespace(
        meter=SimpleNamespace(total=Traffic(rounds=7)),
        link=SimpleNamespace(wire_sent=1_000_000, wire_received=2_000_000),
        randomness=SimpleNamespace(dealt=5_000_000, has_dealer=True),
        parts={"gains": Stage()},
        workers=workers,
    )
    caplog.set_level("INFO", "sharewood")
    watch = Progress(party, TrainConfig.of(n_estimators=10, **parameters))
    for number in range(10 * classes):
        party.parts["gains"].seconds += 2 / classes
        clock[0] += (2 + waiting) / classes
        watch(number)
    return [record.getMessage() for record in caplog.records]


def test_a_line_for_each_tenth(caplog, monkeypatch):
    lines = said(caplog, monkeypatch)
    assert len(lines) == 10
    assert lines[2] == (
        "3 of 10 rounds of trees: 7 rounds of messages, 3.0 MB with the other party, 5.0 MB dealt to both, "
        "about 14 s left"
    )


class Workers:
    """Two workers, of which the second has worked longer; they are lost at the second request."""

    def __init__(self):
        self.asked = 0

    def costs(self):
        self.asked += 1
        if self.asked == 2:
            raise WorkersLost("shard 0: its worker has ended")
        stage = {"rounds": 3, "seconds": 1.0, "bytes_sent": 400_000, "bytes_received": 600_000, "bytes_dealt": 0}
        told = {"stages": {"online": stage}, "rounds": 3, "cpu_seconds": 1.0, "memory_peak_bytes": 5}
        spans = [[["online", 50.0, 53.0]], [["setup", 51.0, 53.0], ["online", 53.0, 55.0]]]
        return [told | {"busy": busy} for busy in spans]


def test_shards_are_named(caplog, monkeypatch):
    lines = said(caplog, monkeypatch, workers=Workers())
    assert (
        "5.0 MB with the other party in 2 shards, of which shard 1 has worked longest (4 s), 5.0 MB dealt" in lines[0]
    )
    assert "3.0 MB with the other party, 5.0 MB dealt" in lines[1], "the training itself finds out"
    assert lines[2].replace("3 of 10", "1 of 10")[:60] == lines[0][:60]


def test_several_trees_a_round(caplog, monkeypatch):
    lines = said(caplog, monkeypatch, classes=3, objective="multi:ova", num_class=3)
    assert len(lines) == 10 and lines[0].endswith("about 18 s left")


def test_waiting_for_the_dealer_is_part_of_what_is_left(caplog, monkeypatch):
    lines = said(caplog, monkeypatch, waiting=1.0)
    assert lines[0].endswith("about 18 s left"), "of the first round the work is known"
    assert lines[1].endswith("about 24 s left") and lines[-1].endswith("about 0 s left")


@pytest.mark.parametrize("rounds", [1, 2, 49, 50, 51, 120, 10_000])
def test_points_of_a_curve(rounds):
    chosen = points(rounds)
    assert len(chosen) == min(rounds, POINTS) and chosen[0] >= 1 and chosen[-1] == rounds
    assert chosen == sorted(set(chosen))
