"""The first ranks of shared numbers: equal ones, zeros, negative ones, every number of ranks, and portions of rows."""

from functools import partial

import numpy as np
import pytest

from mpc.comparison import ranks as module
from mpc.comparison.ranks import ranks
from mpc.errors import RangeError
from mpc.shares import AShare
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
@pytest.mark.parametrize("least", [0, -200])
def test_in_blocks_and_in_one_pass(d, count, least):
    scores = np.random.default_rng(d).integers(least, 40, (3, d))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    expected = (order[..., None] == np.arange(d)) & (scores > 0)[:, None]
    for rows in (1, 3):
        job = partial(lambda rows, party: ranks(party, ring_half(scores[:rows], party.rank), count, 9), rows)
        halves, _ = run_both(job)
        assert np.array_equal(opened(halves), expected[:rows])


def test_few_pairs_take_three_rounds():
    scores = np.random.default_rng(1).integers(0, 99, (10, 100))

    def rounds(rows):
        def job(party):
            ranks(party, ring_half(scores[:rows], party.rank), 4, 9)
            return party.meter.total.rounds

        return run_both(job)[0][0]

    assert [rounds(1), rounds(10)] == [3, 8]


@pytest.mark.parametrize("kept", [10, 32, 33])
def test_numbers_are_known_modulo_a_power_of_two(kept):
    """The halves are uniform words; only their low bits are those of the numbers."""
    rng, bits, word = np.random.default_rng(kept), kept - 1, np.uint32 if kept <= 32 else np.uint64
    scores = np.append(rng.integers(-(1 << bits - 1), 1 << bits - 1, (4, 6)), [[0, -1, 1, 0, -5, 7]], axis=0)
    halves = [rng.integers(0, 1 << 63, scores.shape).astype(word)]
    noise = rng.integers(0, 1 << 31, scores.shape).astype(np.uint64) << np.uint64(kept)
    halves.append((scores.astype(np.uint64) + noise).astype(word) - halves[0])
    found, _ = run_both(lambda party: ranks(party, AShare(halves[party.rank], party.rank), 6, bits))
    order = np.argsort(-scores, axis=1, kind="stable")
    assert np.array_equal(opened(found), (order[..., None] == np.arange(6)) & (scores > 0)[:, None])


@pytest.mark.parametrize("count", [0, 65])
def test_other_numbers_of_ranks_are_refused(count):
    with pytest.raises(RangeError, match=f"ranks must be 1 .. 64, got {count}"):
        run_both(lambda party: ranks(party, ring_half([[1, 2]], party.rank), count, 9))
