"""The dealer sends no faster than the parties use what it sends."""

import pytest

from protocols.offline.dealer import pace
from protocols.offline.dealer.pace import Pace

MEGABYTE = 1 << 20


class Speeds:
    """A channel that records the speeds that it is given."""

    def __init__(self):
        self.given = []

    def pace(self, rate):
        self.given.append(rate)


@pytest.fixture
def dealing(monkeypatch):
    """Return a function that begins portions of megabytes at given times and returns the speed after each."""
    waiting = []

    def dealing(*portions, more=()):
        channels = Speeds(), Speeds()
        speeds = []
        monkeypatch.setattr(pace, "first_to_speak", lambda *_: waiting[-1])
        clock = Pace(channels)
        for at, size in portions:
            waiting.append(at in more)
            monkeypatch.setattr(pace, "monotonic", lambda at=at: at)
            clock.begin(size * MEGABYTE)
            assert channels[0].given == channels[1].given
            speeds.append(channels[0].given[-1] / MEGABYTE if channels[0].given and channels[0].given[-1] else None)
        return speeds

    return dealing


def test_a_portion_is_spread_over_most_of_the_time_between_plans(dealing):
    speeds = dealing((0, 10), (1, 10), (2, 10), (3.5, 10), (5, 10), more=[0])
    assert speeds == pytest.approx([None, None, 12.5, 12.5, 10 / 1.2])


def test_the_parties_may_be_short_of_material(dealing):
    assert dealing((0, 10), (1, 10), (2, 10), (2.5, 10), more=[2, 2.5]) == [None] * 4
    # Two plans at once: there is room for both.
    assert dealing((0, 10), (1, 10), (1.001, 10), more=[0])[-1] > 1000


def test_a_pause_or_a_small_portion_does_not_slow_down_the_next(dealing):
    assert dealing((0, 10), (2, 10), (4000, 10), more=[0]) == pytest.approx([None, None, 10 / 1.6])
    # What was sent before may not have left yet.
    assert dealing((0, 10), (1, 10), (2, 0), (3, 0), more=[0])[-2:] == pytest.approx([12.5, 12.5])
    assert dealing((0, 2), (2, 2), (4, 2), more=[0])[-1] == pytest.approx(2 / 1.6)


def test_parties_that_wait_for_each_portion_get_it_at_full_speed(dealing):
    assert dealing(*((at, 10) for at in range(6))) == [None] * 6


def test_small_portions_are_sent_at_full_speed(dealing):
    """Also after a stream: a program that waits for each of its portions would otherwise wait longer and longer."""
    assert dealing(*((at, 10) for at in range(3)), *((at, 1) for at in range(3, 7)), more=[0])[-2:] == [None, None]
