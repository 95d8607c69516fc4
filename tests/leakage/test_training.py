"""Leakage assessment of whole trainings. notebooks/tree_level.ipynb runs a few dozen of them, and a planted leak."""

import pytest

from tests.leakage.training import assess, weaken
from tests.leakage.welch import ALPHA, Tally, false_alarm, leaking_positions

# Runs per group.
RUNS = 500


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("parameters", "runs"),
    [
        ({}, RUNS),
        ({"partition": "vertical"}, RUNS // 5),
        ({"edges": "joint"}, RUNS // 5),
        ({"reg_alpha": 0.5}, RUNS // 5),
    ],
)
def test_trainings_do_not_distinguish_fixed_rows_from_random_ones(parameters, runs):
    for fixed, other in assess(runs, max_depth=2, **parameters):
        assert leaking_positions(fixed, other).size == 0


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_leak_of_one_bit_is_found_in_trainings(monkeypatch):
    weaken(monkeypatch.setattr)
    assert all(leaking_positions(fixed, other).size for fixed, other in assess(RUNS // 5, max_depth=2))


def test_false_alarms_are_as_rare_as_stated():
    # With few runs, p-values of bits are coarse, and false alarms a little more frequent than ALPHA; with many they are
    # not.
    assert false_alarm(40, 150_000) < 1e-3
    assert false_alarm(RUNS, 190_000) < 2 * ALPHA


def test_tallies_count_every_bit():
    tally = Tally.by_run([bytes([1, 128]), bytes([3, 0])])
    assert tally.ones.tolist() == [2, 1, *[0] * 13, 1]
    lanes = Tally.by_lane([bytes([0b0111_0001]), bytes([1, 0, 0, 3])], 4)
    assert lanes.ones.tolist() == [3, 1, 2, 1, *[0] * 6]
