"""Widening, fixed operands, one-hot vectors, argmax, share and reveal, compared with numpy, at the declared cost."""

import numpy as np
import pytest

from mpc.comparison.all_pairs import compare_pairs, pick_winner
from mpc.comparison.argmax import MOST_PAIRS, argmax, radices
from mpc.lookup.equality import equals_zero
from mpc.lookup.one_hot import all_of, one_hot
from mpc.lookup.prefix_and import prefix_and
from mpc.matrix.fixed_operand import fix, multiply_fixed
from mpc.rings import Z16, Z2k
from mpc.rounding.widening import widen
from mpc.rounding.widening_dot import widening_dot
from mpc.shares import AShare
from mpc.sharing import reveal, share
from mpc.words import U8, U16, U32, U64, decode_signed, encode_signed
from protocols.testing.two_parties import bit_half, opened, ring_half, run_both


def check_cost(parties, cost):
    for party in parties:
        assert (party.meter.total.rounds, party.meter.total.sent) == (cost.rounds, cost.bits[party.rank])


def test_widen():
    x = np.array([0, 1, -1, 2**30 - 1, 1 - 2**30, *np.random.default_rng(1).integers(-(2**30), 2**30, 1000)])
    results, parties = run_both(lambda party: widen(party, ring_half(x, party.rank, U32)))
    assert np.array_equal(opened(results), x)
    check_cost(parties, widen.cost(ring_half(x, 0, U32)))


@pytest.mark.parametrize("holder", [0, 1])
@pytest.mark.parametrize(("dtype", "bits"), [(U32, 32), (U64, 8), (U64, 33), (U64, 40), (U64, 48), (U64, 63)], ids=str)
def test_widening_is_exact_for_every_sharing(dtype, bits, holder):
    half, rng = 1 << bits - 2, np.random.default_rng(bits)
    edges = np.array([0, 1, half - 1])
    x = np.concatenate([edges, -edges, rng.integers(-half + 1, half, 1000)])
    for mask in (0, 1, half - 1, half, 2 * half - 1, 2 * half, 4 * half - 1):

        def share(rank, mask=mask):
            """Return a share whose words have random bits above those of the ring."""
            words = np.full(x.shape, mask, dtype)
            above = rng.integers(0, 1 << 8 * dtype.itemsize - bits, x.size).astype(dtype) << dtype.type(bits % 64)
            return AShare((words if rank == holder else encode_signed(x, dtype) - words) + above, rank)

        results, parties = run_both(lambda party, share=share: widen(party, share(party.rank), bits))
        assert np.array_equal(opened(results), x)
        check_cost(parties, widen.cost(AShare(x, 0), bits))


@pytest.mark.parametrize("holder", [0, 1])
@pytest.mark.parametrize("bits", [33, 62, 64])
def test_products_of_narrow_words_are_exact_for_every_sharing(bits, holder):
    half, rng = 1 << 30, np.random.default_rng(bits)
    edges = np.array([0, 1, half - 1, -1, 1 - half])
    x = rng.permuted(np.concatenate([edges, rng.integers(1 - half, half, 995)])).reshape(4, 125, 2)
    y, ring = rng.integers(-(2**62), 2**62, (4, 1, 2)), Z2k(U64, bits)
    for mask in (0, 1, half - 1, half, 2 * half - 1, 2 * half, 4 * half - 1):

        def narrow(rank, mask=mask):
            words = np.full(x.shape, mask, U32)
            return AShare(words if rank == holder else encode_signed(x, U32) - words, rank)

        results, parties = run_both(
            lambda party, narrow=narrow: widening_dot(party, narrow(party.rank), ring_half(y, party.rank, U64), ring)
        )
        unused = np.uint64(64 - bits)
        expected = encode_signed((x * y).sum(axis=-1)) << unused
        assert np.array_equal(opened(results).astype(np.uint64) << unused, expected)
        check_cost(parties, widening_dot.cost(narrow(0), ring_half(y, 0, U64), ring))


@pytest.mark.parametrize("make", [ring_half, bit_half])
def test_fixed_operand(make):
    m = np.random.default_rng(2).integers(0, 2, (3, 5, 4))
    xs = np.random.default_rng(3).integers(0, 2, (2, 3, 6, 5))

    def job(party):
        operand = fix(party, make(m, party.rank))
        return [multiply_fixed(party, make(x, party.rank), operand) for x in xs]

    results, parties = run_both(job)
    for x, halves in zip(xs, zip(*results, strict=True), strict=True):
        expected = x @ m
        assert np.array_equal(opened(halves), expected % 2 if make is bit_half else expected)
    half = make(xs[0], 0)
    bits = fix.cost(make(m, 0)).bits[0] + 2 * multiply_fixed.cost(half, None).bits[0]
    assert parties[0].meter.total.sent == bits


def test_one_hot():
    index = np.array([0, 1, 5, 31, 16])
    bits = (index[:, None] >> np.arange(5)) & 1
    results, parties = run_both(lambda party: one_hot(party, bit_half(bits, party.rank)))
    assert np.array_equal(opened(results), np.eye(32, dtype=int)[index])
    check_cost(parties, one_hot.cost(bit_half(bits, 0)))


@pytest.mark.parametrize("count", [1, 2, 7])
def test_all_of(count):
    bits = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
    results, parties = run_both(lambda party: all_of(party, bit_half(bits, party.rank)))
    assert np.array_equal(opened(results), bits.all(axis=1))
    check_cost(parties, all_of.cost(bit_half(bits, 0)))


@pytest.mark.parametrize("count", [1, 2, 7])
def test_prefix_and(count):
    bits = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
    results, parties = run_both(lambda party: prefix_and(party, bit_half(bits, party.rank)))
    assert np.array_equal(opened(results), [[row[j:].all() for j in range(count)] for row in bits])
    check_cost(parties, prefix_and.cost(bit_half(bits, 0)))
    check_cost(parties, one_hot.cost(bit_half(bits, 0)))


def keys_of_every_kind(count, bits):
    """Return rows of keys: random, all equal, and with many ties, at either end of the range."""
    rng, most = np.random.default_rng(count), (1 << bits) - 1
    equal = np.repeat([0, 1, most], count).reshape(3, count)
    ties = rng.integers(0, 3, (4, count)), rng.integers(most - 2, most + 1, (4, count))
    return np.concatenate([equal, *ties, rng.integers(0, 2, (4, count)) * most, rng.integers(0, most + 1, (4, count))])


@pytest.mark.parametrize(
    ("count", "rounds"), [(1, 0), (2, 3), (3, 3), (7, 3), (12, 6), (31, 6), (97, 6), (181, 6), (1241, 9), (1861, 9)]
)
@pytest.mark.parametrize(("bits", "dtype"), [(15, U16), (20, U32), (62, U64)])
def test_argmax_takes_the_first_of_the_largest(count, rounds, bits, dtype):
    keys = keys_of_every_kind(count, bits)
    results, parties = run_both(lambda party: argmax(party, ring_half(keys, party.rank, dtype, 3), bits))
    hot, largest = (opened(pair) for pair in zip(*results, strict=True))
    assert np.array_equal(hot, np.arange(count) == keys.argmax(axis=1)[:, None])
    assert np.array_equal(largest, keys.max(axis=1)) and results[0][1].scale == 3
    assert results[0][1].dtype == dtype
    check_cost(parties, argmax.cost(ring_half(keys, 0, dtype), bits))
    assert parties[0].meter.total.rounds == rounds


@pytest.mark.parametrize(
    ("rows", "price", "rounds"), [(1, 0, 9), (1, 10_000, 9), (1, 250_000, 6), (40, 250_000, 9), (40, 10_000_000, 6)]
)
def test_an_argmax_of_few_rows_takes_fewer_rounds_where_they_are_dear(rows, price, rounds):
    keys = np.random.default_rng(rows).integers(0, 1 << 15, (rows, 1241))

    def job(party):
        party.round_price = price
        return argmax(party, ring_half(keys, party.rank, U16), 15)

    results, parties = run_both(job)
    hot, largest = (opened(pair) for pair in zip(*results, strict=True))
    assert np.array_equal(hot.argmax(axis=1), keys.argmax(axis=1)) and np.array_equal(largest, keys.max(axis=1))
    assert parties[0].meter.total.rounds == rounds


@pytest.mark.parametrize("shape", [(5,), (0, 5), (2, 3, 4), (2, 0, 1)])
def test_argmax_keeps_the_axes_before_the_last(shape):
    keys = np.random.default_rng(1).integers(0, 9, shape)
    results, _ = run_both(lambda party: argmax(party, ring_half(keys, party.rank, U16), 8))
    hot, largest = (opened(pair) for pair in zip(*results, strict=True))
    assert np.array_equal(hot, np.arange(shape[-1]) == keys.argmax(axis=-1)[..., None])
    assert np.array_equal(largest, keys.max(axis=-1))


@pytest.mark.parametrize("size", [2, 3, 5, 17, 129, 256])
def test_all_pairs_of_a_group(size):
    keys = keys_of_every_kind(size, 7)
    own = np.random.default_rng(size).integers(0, 2, (*keys.shape, 3))

    def job(party):
        compared = compare_pairs(party, ring_half(keys, party.rank, U8), 7, 3)
        return pick_winner(party, compared, bit_half(own, party.rank))

    results, _ = run_both(job)
    bits, largest = (opened(pair) for pair in zip(*results, strict=True))
    assert np.array_equal(bits, (np.arange(size) == keys.argmax(axis=1)[:, None])[..., None] & own)
    assert np.array_equal(largest, keys.max(axis=1))


@pytest.mark.parametrize("count", [*range(1, 40), 200, 1241, 1861, 10_000])
def test_the_radices_of_an_argmax_hold_all_keys_and_few_pairs(count):
    plan, left, pairs = radices(count, 15, Z16), count, 0
    for radix in plan:
        left = -(-left // radix)
        pairs += left * radix * (radix - 1) // 2
    assert left == 1 and pairs <= MOST_PAIRS * count and len(plan) <= 3


@pytest.mark.parametrize("to", [0, 1, None])
def test_share_then_reveal(to):
    x = np.array([[1, -2, 3]])

    def job(party):
        shared = share(party, x if party.rank == 1 else None, 1, (1, 3), scale=4)
        out = reveal(party, shared, to), reveal(party, bit_half([1, 0, 1], party.rank), to)
        return [None if o is None else decode_signed(o) if o.dtype.itemsize == 8 else o for o in out]

    results, parties = run_both(job)
    for rank in (0, 1):
        if to in (rank, None):
            assert np.array_equal(results[rank][0], x) and list(results[rank][1]) == [1, 0, 1]
        else:
            assert results[rank] == [None, None]
    costs = [share.cost(x, 1, (1, 3)), reveal.cost(ring_half(x, 0), to), reveal.cost(bit_half([1, 0, 1], 0), to)]
    for party in parties:
        assert party.meter.total.sent == sum(c.bits[party.rank] for c in costs)


@pytest.mark.parametrize("bits", [1, 3, 5])
def test_equality_with_zero(bits):
    x = np.arange(-40, 40).reshape(8, 10)
    results, parties = run_both(lambda party: equals_zero(party, ring_half(x, party.rank, U8), bits))
    assert np.array_equal(opened(results), x % 2**bits == 0)
    check_cost(parties, equals_zero.cost(ring_half(x, 0, U8), bits))
