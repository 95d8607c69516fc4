"""The divergence of histograms: beside its definition, with empty cells, and what it costs."""

import numpy as np
import pytest

from mpc.errors import RangeError
from protocols.testing.two_parties import made_by_both, opened, ring_half, run_both
from secure_tree.functions.divergence import divergence

UNIT = 1 << 20


def plain(p, q):
    a, b = (x / x.sum(axis=1, keepdims=True) for x in (p, q))
    woe = np.log(np.maximum(p, 1) / p.sum(axis=1, keepdims=True)) - np.log(
        np.maximum(q, 1) / q.sum(axis=1, keepdims=True)
    )
    return ((a - b) * woe).sum(axis=1), woe


def counts(rows, shape, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.multinomial(n, rng.dirichlet(np.full(shape[1], 3), shape[0])) for n in (rows // 20, rows - rows // 20)]


def on_shares(p, q, bits, **how):
    halves, parties = run_both(
        lambda party: party.run(divergence(party, ring_half(p, party.rank), ring_half(q, party.rank), bits)),
        **how,
    )
    return *(opened(part) / UNIT for part in zip(*halves, strict=True)), parties


@pytest.mark.parametrize(("rows", "error"), [(1000, 1e-5), (100_000, 1e-5), (1 << 20, 1e-5), (1 << 29, 1e-5)])
def test_as_defined(rows, error):
    p, q = counts(rows, (40, 11))
    found, woe, _ = on_shares(p, q, rows.bit_length())
    expected, expected_woe = plain(p, q)
    assert np.abs(found - expected).max() < error and np.abs(woe - expected_woe).max() < 2e-5


def test_without_a_dealer():
    p, q = counts(3000, (3, 4))
    found, woe, _ = on_shares(p, q, 12, source=made_by_both)
    expected, expected_woe = plain(p, q)
    assert np.abs(found - expected).max() < 1e-5 and np.abs(woe - expected_woe).max() < 1.2e-5


def test_empty_cells_count_as_one_row_in_the_logarithm():
    p, q = np.array([[0, 500, 0]]), np.array([[300, 0, 0]])
    found, woe, _ = on_shares(p, q, 10)
    assert np.abs(found - (np.log(500) + np.log(300))).max() < 1e-4
    assert np.abs(woe - [[-np.log(500), np.log(300), np.log(3 / 5)]]).max() < 1.2e-5


def test_equal_distributions_do_not_diverge():
    p = np.array([[500, 250, 250]])
    found, _, _ = on_shares(p, 3 * p, 12)
    assert np.abs(found).max() < 1e-5


def test_cost():
    p, q = counts(100_000, (50, 11))
    *_, parties = on_shares(p, q, 17)
    total = parties[0].meter.total
    assert (total.rounds, total.sent // 8, total.received // 8) == (22, 170665, 170665)


def test_counts_beyond_the_range_are_refused():
    with pytest.raises(RangeError, match="below 2\\^36"):
        on_shares(np.ones((1, 2), int), np.ones((1, 2), int), 37)
