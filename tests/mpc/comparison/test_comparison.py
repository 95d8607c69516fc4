"""Comparison with public thresholds: exact over the whole stated range, at the declared cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc.comparison.comparison import below
from mpc.kernels import borrow
from protocols.testing.two_parties import opened, ring_half, run_both


def compare(x, thresholds, bits):
    results, parties = run_both(lambda party: below(party, ring_half(x, party.rank), thresholds, bits))
    cost = below.cost(ring_half(x, 0), thresholds, bits)
    for party in parties:
        assert (party.meter.total.rounds, party.meter.total.sent) == (cost.rounds, cost.bits[party.rank])
    return opened(results)


@pytest.mark.parametrize("bits", [3, 8, 17, 28, 40, 45, 58, 63, 64])
@pytest.mark.parametrize("count", [1, 16])
def test_below_is_exact_at_the_edges_of_its_range(bits, count):
    half = 1 << (bits - 2)
    edges = np.array([-half, -half + 1, -1, 0, 1, half - 1])
    inside = np.random.default_rng(bits).integers(-half, half, 200)
    x = np.concatenate([edges, inside])
    thresholds = sorted({int(t) for t in np.linspace(-half, half - 1, count)})
    assert np.array_equal(compare(x, thresholds, bits), x[:, None] < np.array(thresholds))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-(2**40), 2**40 - 1), min_size=1, max_size=12), st.integers(-(2**40), 2**40 - 1))
def test_below_any_threshold(x, t):
    assert np.array_equal(compare(np.array(x), [t], 42)[:, 0], np.array(x) < t)


def test_the_shape_is_kept():
    assert compare(np.arange(6).reshape(2, 3), [1, 4], 8).shape == (2, 3, 2)


@pytest.mark.parametrize("m", range(1, borrow.MOST_CHUNKS + 1))
def test_kernels_agree_with_their_uncompiled_bodies(m):
    rng = np.random.default_rng(m)
    r, e = rng.integers(0, 1 << 3 * m, (2, 20)).astype(np.uint64)
    table = borrow.thermometers(r, 3, m)
    seen = borrow.chunk_bits(e, np.zeros(1, np.uint64), table, 3 * m, 3, m, True).reshape(-1)
    masks = rng.integers(0, 1 << 2 * m - 1, 20).astype(np.uint32)
    products = borrow.mask_products(masks, m, borrow.product_words(m))
    assert np.array_equal(borrow.borrows(seen ^ masks, products, m, *borrow.choices(m)), e < r)
