"""Reciprocal: relative error 2^-16 over six decades, zero below the range, deterministic."""

import numpy as np
import pytest

from mpc.functions.reciprocal import reciprocal
from protocols.testing.two_parties import opened, ring_half, run_both


def invert(x, lo, hi, seeds=(b"a" * 16, b"b" * 16), exact=True):
    results, parties = run_both(lambda party: reciprocal(party, ring_half(x, party.rank), lo, hi, exact=exact), seeds)
    cost = reciprocal.cost(ring_half(x, 0), lo, hi, exact=exact)
    for party in parties:
        assert (party.meter.total.rounds, party.meter.total.sent) == (cost.rounds, cost.bits[party.rank])
    return [opened([r[k] for r in results]) for k in (0, 1)]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("lo", "hi"), [(0, 7), (0, 20), (12, 27), (12, 33), (10, 44)])
def test_relative_error(lo, hi, exact):
    edges = np.array([1 << j for j in range(lo, hi + 1)] + [(1 << j + 1) - 1 for j in range(lo, hi + 1)])
    inside = np.exp2(np.random.default_rng(hi).uniform(lo, hi + 1, 2000)).astype(np.int64)
    x = np.clip(np.concatenate([edges, inside]), 1 << lo, (1 << hi + 1) - 1)
    y, s = invert(x, lo, hi, exact=exact)
    assert y.min() >= 2**17 - 4 and y.max() <= 2**18 + 4
    error = y.astype(float) * s * 2.0 ** -(18 + hi) * x - 1
    assert np.abs(error).max() <= (2.0**-16 if exact else 2.0**-15)


def test_below_the_range_is_zero():
    _, s = invert(np.array([0, 1, 4095, 4096]), 12, 20)
    assert list(s[:3]) == [0, 0, 0] and s[3] == 256


def test_the_result_does_not_depend_on_the_masks():
    x = np.random.default_rng(5).integers(1, 2**28, 500)
    assert np.array_equal(invert(x, 0, 27), invert(x, 0, 27, (b"c" * 16, b"d" * 16)))
