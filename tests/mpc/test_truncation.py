"""Truncation: floor is exact, truncate is off by at most one unit and unbiased, neither is ever wild."""

import numpy as np
import pytest

from mpc.truncation import floor, truncate
from tests.mpc.twoparty import opened, ring_half, run_both

EDGES = np.array([0, 1, -1, 2**62 - 1, -(2**62), 2**61 + 3, -(2**61) - 5])


def both_ways(protocol, x, shift, seeds=(b"a" * 16, b"b" * 16)):
    results, parties = run_both(lambda party: protocol(party, ring_half(x, party.rank, scale=70), shift), seeds)
    cost = protocol.cost(ring_half(x, 0), shift)
    for party in parties:
        assert (party.meter.total.rounds, party.meter.total.sent) == (cost.rounds, cost.bits[party.rank])
    assert results[0].scale == 70 - shift
    return opened(results)


def values(count, seed):
    rng = np.random.default_rng(seed)
    magnitudes = rng.integers(0, 62, count)
    return np.concatenate([EDGES, rng.integers(-(2**62), 2**62, count) >> magnitudes])


@pytest.mark.parametrize("shift", [1, 4, 13, 26, 35, 48])
def test_floor_is_exact(shift):
    x = values(1000, shift)
    assert np.array_equal(both_ways(floor, x, shift), x >> shift)


@pytest.mark.parametrize("shift", [1, 12, 30, 61])
def test_truncate_is_off_by_at_most_one_unit(shift):
    x = values(1_000_000 if shift == 12 else 1000, shift)
    error = both_ways(truncate, x, shift) - (x >> shift)
    assert error.min() >= 0 and error.max() <= 1
    assert not error[(x & ((1 << shift) - 1)) == 0].any()


def test_truncate_is_unbiased():
    x = np.full(200_000, 5)
    mean = both_ways(truncate, x, 4).mean()
    assert abs(mean - 5 / 16) < 5 * np.sqrt(5 / 16 * 11 / 16 / x.size)


@pytest.mark.long
def test_a_hundred_million_truncations_are_never_wild():
    for run in range(50):
        shift = 1 + run
        x = values(2_000_000, run)
        error = both_ways(truncate, x, shift, seeds=(run.to_bytes(16, "little"), b"b" * 16)) - (x >> shift)
        assert error.min() >= 0 and error.max() <= 1
        assert abs((error - (x & ((1 << shift) - 1)) / 2.0**shift).mean()) < 0.002
