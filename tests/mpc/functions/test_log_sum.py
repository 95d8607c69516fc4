"""Logarithms of sums over the whole range: within a unit of the exact value, and equal to the twin."""

import numpy as np
import pytest

from mpc.functions.log_sum import END, UNIT, log_sum, rounded_sum
from mpc.words import U16
from protocols.testing.two_parties import opened, ring_half, run_both

APART = np.arange(1 - 2**14, 2**14)


def exact(first, second):
    return UNIT * np.logaddexp2(first / UNIT, second / UNIT)


def test_the_twin_is_within_a_unit_of_the_exact_value():
    smaller = np.maximum(0, -APART)
    assert np.abs(rounded_sum(smaller + APART, smaller) - exact(smaller + APART, smaller)).max() <= 1


@pytest.mark.parametrize("least", [0, 2**15 - 2**14 - 600, 2**16 - 2**14])
def test_every_distance_gives_the_result_of_the_twin(least):
    second = least + np.maximum(0, -APART)
    first = second + APART
    results, parties = run_both(
        lambda party: log_sum(party, ring_half(first, party.rank, U16), ring_half(second, party.rank, U16))
    )
    found = opened(results)
    assert results[0].dtype == U16
    assert np.array_equal(found % 2**16, rounded_sum(first, second) % 2**16)
    assert np.abs((found - np.rint(exact(first, second)).astype(int) + 2**15) % 2**16 - 2**15).max() <= 1
    assert parties[0].meter.total.rounds == 4


def test_the_order_and_the_shape_do_not_matter():
    rng = np.random.default_rng(2)
    first, second = rng.integers(0, 2**14, (2, 3, 5))
    first[0] = second[0] + [-END - 1, -END, 0, END - 1, END]

    def job(party):
        shares = [ring_half(w, party.rank, U16) for w in (first, second)]
        return log_sum(party, *shares), log_sum(party, *shares[::-1])

    there, back = (opened(pair) for pair in zip(*run_both(job)[0], strict=True))
    assert there.shape == (3, 5) and np.abs(there - back).max() <= 1
    assert np.abs(there - exact(first, second)).max() <= 1
