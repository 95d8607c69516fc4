"""Widening, fixed operands, one-hot vectors, argmax, sharing and revealing: against numpy, cost against the meter."""

import numpy as np
import pytest

from mpc.argmax import argmax
from mpc.equality import equals_zero
from mpc.fixed_operand import fix, multiply_fixed
from mpc.one_hot import all_of, one_hot
from mpc.ring import U8, U32, decode_signed, encode_signed
from mpc.shares import AShare
from mpc.sharing import reveal, share
from mpc.widening import widen
from tests.mpc.twoparty import bit_half, opened, ring_half, run_both


def check_cost(parties, cost):
    for party in parties:
        assert (party.meter.total.rounds, party.meter.total.sent) == (cost.rounds, cost.bits[party.rank])


def test_widen():
    x = np.array([0, 1, -1, 2**30 - 1, 1 - 2**30, *np.random.default_rng(1).integers(-(2**30), 2**30, 1000)])
    results, parties = run_both(lambda party: widen(party, ring_half(x, party.rank, U32)))
    assert np.array_equal(opened(results), x)
    check_cost(parties, widen.cost(ring_half(x, 0, U32)))


@pytest.mark.parametrize("mask", [0, 1, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 2**32 - 1], ids=hex)
@pytest.mark.parametrize("holder", [0, 1])
def test_widening_is_exact_for_every_sharing(mask, holder):
    edges = np.array([0, 1, 2**30 - 1])
    x = np.concatenate([edges, -edges, np.random.default_rng(mask).integers(-(2**30) + 1, 2**30, 1000)])

    def half(rank):
        words = np.full(x.shape, mask, U32)
        return AShare(words if rank == holder else encode_signed(x, U32) - words, rank)

    results, _ = run_both(lambda party: widen(party, half(party.rank)))
    assert np.array_equal(opened(results), x)


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


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 33])
@pytest.mark.parametrize(("radix", "by"), [(2, "bits"), (4, "bits"), (8, "bits"), (2, "keys")])
def test_argmax_takes_the_first_of_the_largest(count, radix, by):
    keys = np.random.default_rng(count).integers(0, 4, (50, count)) * 2**60
    keys[0] = 0
    results, parties = run_both(lambda party: argmax(party, ring_half(keys, party.rank), 62, radix, by))
    bits, largest = (opened(pair) for pair in zip(*results, strict=True))
    assert np.array_equal(bits @ (1 << np.arange(bits.shape[1])), keys.argmax(axis=1))
    assert np.array_equal(largest, keys.max(axis=1))
    check_cost(parties, argmax.cost(ring_half(keys, 0), 62, radix, by))


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
