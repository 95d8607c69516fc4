"""Truncation: floor is exact; truncate is off by at most one unit and unbiased; neither is ever off by a wrap."""

import numpy as np
import pytest

from mpc.rounding.truncation import floor, truncate
from mpc.shares import AShare
from mpc.words import U64, encode_signed
from protocols.testing.two_parties import SEEDS, opened, ring_half, run_both

EDGES = np.array([0, 1, -1, 2**62 - 1, -(2**62), 2**61 + 3, -(2**61) - 5])


def both_ways(protocol, x, shift, seeds=SEEDS, half=ring_half):
    results, parties = run_both(lambda party: protocol(party, half(x, party.rank, scale=70), shift), seeds)
    cost = protocol.cost(ring_half(x, 0), shift)
    for party in parties:
        assert (party.meter.total.rounds, party.meter.total.sent) == (cost.rounds, cost.bits[party.rank])
    assert results[0].scale == 70 - shift
    return opened(results)


def shared_by(mask):
    """Like `ring_half`, with `mask` for party 1's share."""

    def half(x, rank, scale=0):
        words = np.broadcast_to(np.asarray(mask).astype(U64), np.shape(x))
        return AShare(encode_signed(x) - words if rank == 0 else words, rank, scale)

    return half


def up(x, shift, half=ring_half):
    """Return where `truncate` rounds up, and check that its error is never larger."""
    error = both_ways(truncate, x, shift, half=half) - (x >> shift)
    assert set(np.unique(error)) <= {0, 1}
    assert not error[(x & ((1 << shift) - 1)) == 0].any()
    return error == 1


def values(count, seed):
    rng = np.random.default_rng(seed)
    magnitudes = rng.integers(0, 62, count)
    return np.concatenate([EDGES, rng.integers(-(2**62), 2**62, count) >> magnitudes])


@pytest.mark.parametrize("shift", [1, 4, 13, 26, 35, 48])
def test_floor_is_exact(shift):
    x = values(1000, shift)
    assert np.array_equal(both_ways(floor, x, shift), x >> shift)


@pytest.mark.parametrize("shift", [1, 8, 12, 30, 61, 62])
def test_truncate_is_off_by_at_most_one_unit(shift):
    x = values(1_000_000 if shift == 12 else 1000, shift)
    tops = [(ring_half(x, rank) + (2**62 - 1)).words >> np.uint64(63) for rank in (0, 1)]
    assert len(np.unique(tops, axis=1).T) == 4, "shares wrap in every way"
    up(x, shift)


@pytest.mark.parametrize("mask", [0, 1, -1, 2**62, 2**63 - 1, -(2**63), 2**12 - 1, 2**63 + 2**11], ids=hex)
def test_no_sharing_gives_a_large_error(mask):
    x = values(1000, 5)
    for shift in (1, 12, 62):
        # First party 1 holds the same word everywhere, as with a public constant; then party 0's share is `mask`.
        up(x, shift, shared_by(np.uint64(mask % 2**64)))
        up(x, shift, shared_by(encode_signed(x) - np.uint64(mask % 2**64)))


@pytest.mark.parametrize("part", [0, 1, 5, 8, 15])
@pytest.mark.parametrize("whole", [0, -3, 2**57])
def test_truncate_is_unbiased_over_fresh_shares(part, whole):
    chance, count = part / 16, 100_000
    mean = up(np.full(count, 16 * whole + part), 4).mean()
    assert abs(mean - chance) <= 5 * np.sqrt(chance * (1 - chance) / count)


def test_the_coin_is_the_low_bits_of_the_share():
    x, coin = (a.reshape(-1) for a in np.meshgrid(np.arange(-40, 40), np.arange(16)))
    mask = np.random.default_rng(1).integers(0, 2**60, x.shape) * 16 + coin
    assert np.array_equal(up(x, 4, shared_by(mask)), coin < x % 16)


@pytest.mark.long
def test_a_hundred_million_truncations_have_no_large_error():
    for run in range(50):
        shift = 1 + run
        x = values(2_000_000, run)
        error = both_ways(truncate, x, shift, seeds=(run.to_bytes(16, "little"), b"b" * 16)) - (x >> shift)
        assert error.min() >= 0 and error.max() <= 1
        assert abs((error - (x & ((1 << shift) - 1)) / 2.0**shift).mean()) < 0.002
