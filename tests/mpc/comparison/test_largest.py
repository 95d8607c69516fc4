"""The names of the largest: equal scores, every k, and portions of pairs."""

import numpy as np
import pytest

from mpc.comparison import largest as module
from mpc.comparison.largest import largest
from protocols.testing.two_parties import dealt, made_by_both, opened, ring_half, run_both


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("count", [0, 1, 3, 10, 12])
def test_as_a_stable_sort(monkeypatch, source, count):
    monkeypatch.setattr(module, "PORTION", 40)
    scores = np.array([[3, -9, 3, 511, 0, -512, 3, 511, 7, 8, -9], [*range(11)]])
    halves, _ = run_both(lambda party: largest(party, ring_half(scores, party.rank), count, 11), source=source)
    expected = np.zeros(scores.shape)
    np.put_along_axis(expected, np.argsort(-scores, axis=1, kind="stable")[:, :count], 1, axis=1)
    assert np.array_equal(opened(halves), expected)


@pytest.mark.parametrize("count", [0, 1])
def test_a_single_score(count):
    halves, _ = run_both(lambda party: largest(party, ring_half([[-5]], party.rank), count, 8))
    assert opened(halves).tolist() == [[count]]
