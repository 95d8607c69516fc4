"""One-round comparison from dealt keys, and its kernels: exact at the corners, and both halves are needed."""

import numpy as np
import pytest

from mpc.comparison.comparison import below
from mpc.comparison.comparison_keys import LEVEL_BYTES, below_by_keys, floor_by_keys
from mpc.kernels import aes
from mpc.kernels.comparison_keys import evaluate, generate
from protocols.testing.two_parties import dealt, made_by_both, opened, ring_half, run_both


def uniform(rng, shape):
    return rng.integers(0, 2**64, shape, dtype=np.uint64, endpoint=False)


def test_aes_is_aes():
    # FIPS 197, appendix C.1: the hash is the permutation xor its input.
    key = bytes(range(16))
    block = np.frombuffer(bytes(17 * i for i in range(16)), np.uint64).reshape(1, 2)
    cipher = np.frombuffer(bytes.fromhex("69c4e0d86a7b0430d8cdb78070b4c55a"), np.uint64)
    assert np.array_equal(aes.expand(block, (0,), key)[0, 0], cipher ^ block[0])


def test_both_ways_to_aes_agree():
    rng = np.random.default_rng(1)
    seeds, key = uniform(rng, (100, 2)), rng.bytes(16)
    tweaks = (0, 1, 2, 3)
    assert np.array_equal(aes.expand(seeds, tweaks, key), aes.expand_portably(seeds, np.array(tweaks, np.uint64), key))


@pytest.mark.parametrize("bits", [1, 2, 7, 63])
@pytest.mark.parametrize("width", [0, 1, 2])
def test_keys_share_the_comparison_function(bits, width):
    rng = np.random.default_rng(bits)
    n = 200
    roots, alpha, beta = uniform(rng, (2, n, 2)), uniform(rng, n) >> np.uint64(64 - bits), uniform(rng, (n, width))
    x = uniform(rng, (n, 5)) >> np.uint64(64 - bits)
    x[:, 0], x[:, 1], x[:, 2] = alpha, 0, (1 << bits) - 1
    keys = generate(roots, alpha, beta, bits, bytes(16))
    first, second = (evaluate(p, roots[p], keys, x, bytes(16)) for p in (0, 1))
    less = (x < alpha[:, None])[:, :, None]
    assert np.array_equal(first ^ second if width == 0 else first + second, less * (beta[:, None] if width else 1))
    assert abs(np.mean(first & np.uint64(1)) - 0.5) < 0.1, "one half alone looks uniform"


@pytest.mark.parametrize("bits", [3, 8, 34, 64])
def test_below(bits):
    half = 2 ** (bits - 2)
    x = np.array([-half, half - 1, 0, 1, -1, *np.random.default_rng(bits).integers(-half, half, 300)])
    t = [0, 1, -1, half - 1, -half]
    results, parties = run_both(lambda party: below_by_keys(party, ring_half(x, party.rank), t, bits))
    assert np.array_equal(opened(results), x[:, None] < np.array(t))
    cost = below_by_keys.cost(ring_half(x, 0), t, bits)
    assert all((p.meter.total.rounds, p.meter.total.sent) == (1, cost.bits[p.rank]) for p in parties)


@pytest.mark.parametrize("shift", [1, 13, 40, 62])
def test_floor(shift):
    x = np.array([0, 1, -1, 2**62 - 1, 1 - 2**62, *np.random.default_rng(shift).integers(-(2**62), 2**62, 300)])
    results, parties = run_both(lambda party: floor_by_keys(party, ring_half(x, party.rank), shift))
    assert np.array_equal(opened(results), x >> shift)
    assert all(p.meter.total.rounds == 1 for p in parties)


@pytest.mark.parametrize("source", [dealt, made_by_both])
def test_keys_save_a_round_where_it_costs_more(source):
    x = np.arange(-10, 10)
    price = LEVEL_BYTES * len(x) * 31

    def job(party):
        rounds = []
        for party.round_price in (0, price, price + 1):
            before = party.meter.total.rounds
            assert (below(party, ring_half(x, party.rank), [0], 32)).shape == (20, 1)
            rounds.append(party.meter.total.rounds - before)
        return rounds

    assert run_both(job, source=source)[0] == [[2, 2, 1 if source is dealt else 2]] * 2
