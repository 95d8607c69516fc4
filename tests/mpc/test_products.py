"""Products on shares: equal to the plain product, at the declared cost."""

import numpy as np
import pytest

from mpc.beaver import multiply
from mpc.bit_product import and_bits, or_bits, select, to_ring
from mpc.errors import ShapeMismatch
from mpc.ring import U8, U16, U32, U64, decode_signed, encode_signed
from mpc.rings import Z8, Z32, Z64
from mpc.rounds import parallel
from mpc.shares import PShare
from tests.mpc.twoparty import bit_half, opened, ring_half, run_both

RNG = np.random.default_rng(11)
X = RNG.integers(-(2**20), 2**20, (3, 5))
Y = RNG.integers(-(2**20), 2**20, (3, 5))
A, B = RNG.integers(0, 2, (2, 3, 5))


def check(protocol, expected, *makers):
    """Result and cost of a protocol on the shares that `makers` give for a rank."""
    results, parties = run_both(lambda party: protocol(party, *[make(party.rank) for make in makers]))
    assert np.array_equal(opened(results), expected)
    cost = protocol.cost(*[make(0) for make in makers])
    for party in parties:
        total = party.meter.total
        assert (total.rounds, total.sent, total.received) == (
            cost.rounds,
            cost.bits[party.rank],
            cost.bits[1 - party.rank],
        )
    assert protocol.reveals == ()


@pytest.mark.parametrize("dtype", [U32, U64])
def test_multiply(dtype):
    expected = decode_signed(encode_signed(X * Y, dtype))
    check(multiply, expected, lambda r: ring_half(X, r, dtype), lambda r: ring_half(Y, r, dtype))


def test_and():
    check(and_bits, A & B, lambda r: bit_half(A, r), lambda r: bit_half(B, r))


@pytest.mark.parametrize("dtype", [U8, U16, U64])
def test_packed_bits(dtype):
    words = np.random.default_rng(4).integers(0, 256, (2, 3, 5 * dtype.itemsize), np.uint8).view(dtype)

    def half(values, rank):
        return PShare(values ^ dtype.type(77) if rank == 0 else np.full_like(values, 77), rank)

    def job(party):
        a, b = (half(w, party.rank) for w in words)
        return and_bits(party, a, b), or_bits(party, a, b), (a ^ b) << 3, ~a

    results, _ = run_both(job)
    a, b = words
    for mine, theirs, expected in zip(*results, (a & b, a | b, (a ^ b) << dtype.type(3), ~a), strict=True):
        assert mine.dtype == dtype and np.array_equal(mine.words ^ theirs.words, expected)


def test_bits_are_packed_and_unpacked():
    bits = np.random.default_rng(4).integers(0, 2, (3, 7)).astype(np.uint8)
    share = bit_half(bits, 0)
    assert share.packed().shape == (3,)
    assert np.array_equal(share.packed().unpacked(share.shape).bits, share.bits)


@pytest.mark.parametrize("ring", [Z8, Z32, Z64])
def test_to_ring(ring):
    results, _ = run_both(lambda party: to_ring(party, bit_half(A, party.rank), ring))
    assert np.array_equal(opened(results), A)
    check(to_ring, A, lambda r: bit_half(A, r))


@pytest.mark.parametrize(("bits", "words"), [(A, X), (A[:, :1], X), (A, X[:1])])
def test_select_broadcasts(bits, words):
    check(select, bits * words, lambda r: bit_half(bits, r), lambda r: ring_half(words, r))


def test_protocols_that_run_together_share_their_round():
    def job(party):
        r = party.rank
        return party.run(
            parallel(
                multiply.steps(party, ring_half(X, r), ring_half(Y, r)),
                and_bits.steps(party, bit_half(A, r), bit_half(B, r)),
            )
        )

    results, parties = run_both(job)
    assert np.array_equal(opened([r[0] for r in results]), X * Y)
    assert np.array_equal(opened([r[1] for r in results]), A & B)
    assert all(p.meter.total.rounds == 1 for p in parties)
    assert set(parties[0].meter.by_protocol) == {"beaver.multiply", "bit_product.and_bits"}


def test_shapes_must_agree():
    with pytest.raises(ShapeMismatch, match=r"\(3, 5\), \(5,\)"):
        run_both(lambda party: multiply(party, ring_half(X, party.rank), ring_half(X[0], party.rank)))
