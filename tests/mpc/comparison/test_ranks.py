"""The first ranks of shared numbers: equal ones, zeros, every number of ranks, and portions of rows."""

import numpy as np
import pytest

from mpc.comparison import ranks as module
from mpc.comparison.ranks import ranks
from mpc.errors import RangeError
from protocols.testing.two_parties import dealt, made_by_both, opened, ring_half, run_both


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_as_a_stable_sort_of_the_positive(monkeypatch, source, count):
    monkeypatch.setattr(module, "PORTION", 60)
    scores = np.array([[3, 9, 3, 511, 0, 0, 511], [0] * 7, [5, 0, 0, 0, 0, 0, 1], [*range(7)]])
    halves, _ = run_both(lambda party: ranks(party, ring_half(scores, party.rank), count, 9), source=source)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    expected = (order[..., None] == np.arange(7)) & (scores > 0)[:, None]
    assert np.array_equal(opened(halves), expected)


@pytest.mark.parametrize(("d", "count"), [(24, 4), (25, 4), (130, 4), (60, 1), (400, 3), (300, 64)])
def test_in_blocks(d, count):
    scores = np.random.default_rng(d).integers(0, 40, (3, d))
    halves, _ = run_both(lambda party: ranks(party, ring_half(scores, party.rank), count, 9))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    assert np.array_equal(opened(halves), (order[..., None] == np.arange(d)) & (scores > 0)[:, None])


@pytest.mark.parametrize("count", [0, 65])
def test_other_numbers_of_ranks_are_refused(count):
    with pytest.raises(RangeError, match=f"ranks must be 1 .. 64, got {count}"):
        run_both(lambda party: ranks(party, ring_half([[1, 2]], party.rank), count, 9))
