"""Products on shares equal the plain product, at the declared cost."""

import numpy as np
import pytest

from mpc.arithmetic.beaver import dot, multiply
from mpc.arithmetic.bits import and_bits, or_bits, select, to_ring
from mpc.arithmetic.fixed_factor import fix_values, select_fixed
from mpc.arithmetic.quadratic import quadratic
from mpc.errors import ShapeMismatch
from mpc.rings import Z8, Z32, Z64, Z2k
from mpc.rounds import parallel
from mpc.shares import PShare
from mpc.words import U8, U16, U32, U64, decode_signed, encode_signed
from protocols.testing.two_parties import bit_half, opened, ring_half, run_both

RNG = np.random.default_rng(11)
X = RNG.integers(-(2**20), 2**20, (3, 5))
Y = RNG.integers(-(2**20), 2**20, (3, 5))
A, B = RNG.integers(0, 2, (2, 3, 5))


def check(protocol, expected, *makers):
    """Check the result and cost of a protocol on the shares that `makers` return for a rank."""
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


@pytest.mark.parametrize("bits", [33, 62, 64])
def test_quadratic_functions_of_many_values(bits):
    a, row = RNG.integers(-(2**62), 2**62, (3, 50)), RNG.integers(-(2**62), 2**62, (3, 2))
    ring = Z2k(U64, bits)

    def job(party):
        return quadratic(party, ring_half(a, party.rank, U64), ring_half(row, party.rank, U64), ring)

    results, parties = run_both(job)
    y, z = row.T[..., None]
    expected = encode_signed(a * y - z * a * a) << np.uint64(64 - bits)
    assert np.array_equal(opened(results).astype(np.uint64) << np.uint64(64 - bits), expected)
    cost = quadratic.cost(ring_half(a, 0, U64), ring_half(row, 0, U64), ring)
    assert {(party.meter.total.rounds, party.meter.total.sent) for party in parties} == {(1, cost.bits[0])}


@pytest.mark.parametrize("dtype", [U8, U16, U32, U64])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 5), (3, 5)),
        ((5,), (3, 5)),
        ((2, 1, 3, 5), (4, 1, 5)),
        ((3, 1), (3, 1)),
        ((2, 5), (3, 1, 1)),
        ((0, 4), (4,)),
    ],
)
def test_inner_products_broadcast(dtype, left, right):
    x, y = (RNG.integers(-(2**31), 2**31, shape) for shape in (left, right))
    expected = decode_signed(encode_signed((x * y).sum(axis=-1), dtype))
    check(dot, expected, lambda r: ring_half(x, r, dtype), lambda r: ring_half(y, r, dtype))


def test_scales_of_inner_products_add():
    results, _ = run_both(lambda p: dot(p, ring_half(X, p.rank, U32, 3), ring_half(Y, p.rank, U32, 8)))
    assert [share.scale for share in results] == [11, 11] and results[0].dtype == U32
    assert np.array_equal(opened(results), decode_signed(encode_signed((X * Y).sum(axis=1), U32)))


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


@pytest.mark.parametrize("width", [33, 40])
def test_select_in_a_ring_of_fewer_bits_than_the_words_have(width):
    bits, words = np.array([[0], [1]]), np.array([0, 1, -1, 2**31, 2**width - 1])
    ring = Z2k(U64, width)
    results, parties = run_both(lambda p: select(p, bit_half(bits, p.rank), ring_half(words, p.rank), ring))
    assert np.array_equal(opened(results) % 2**width, bits * words % 2**width)
    assert parties[0].meter.total.sent == select.cost(bit_half(bits, 0), ring_half(words, 0), ring).bits[0]
    assert parties[0].meter.total.sent < select.cost(bit_half(bits, 0), ring_half(words, 0)).bits[0]


def test_select_summed_along_the_first_axis():
    bits, words = RNG.integers(0, 2, (3, 50)), RNG.integers(-99, 99, (3, 1))
    results, _ = run_both(lambda p: select(p, bit_half(bits, p.rank), ring_half(words, p.rank), summed=True))
    assert np.array_equal(opened(results), (bits * words).sum(axis=0))


def test_one_opening_of_values_serves_fresh_bits():
    words, bits = RNG.integers(-(2**20), 2**20, (2, 9)), RNG.integers(0, 2, (6, 9))
    parts = [bits[:1], bits[1:3], bits[3:]]

    def job(party):
        fixed = fix_values(party, ring_half(words, party.rank, U32, scale=5), len(bits))
        return [select_fixed(party, bit_half(part, party.rank), fixed) for part in parts]

    results, parties = run_both(job)
    for part, halves in zip(parts, zip(*results, strict=True), strict=True):
        assert np.array_equal(opened(halves), part[:, None] * words) and halves[0].scale == 5
    opening = fix_values.cost(ring_half(words, 0, U32), 6).bits[0]
    choices = [select_fixed.cost(bit_half(part, 0), None).bits[0] for part in parts]
    assert parties[0].meter.total.sent == opening + sum(choices) == 32 * 18 + 8 * (2 + 3 + 4)
    assert parties[0].meter.total.rounds == 4


def test_an_exhausted_supply_of_bit_masks_raises():
    def job(party):
        fixed = fix_values(party, ring_half(X, party.rank), 1)
        select_fixed(party, bit_half(A[:1], party.rank), fixed)
        with pytest.raises(AssertionError, match="the supply has 1 rows"):
            select_fixed(party, bit_half(A[:1], party.rank), fixed)

    run_both(job)


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
    assert set(parties[0].meter.by_protocol) == {"beaver.multiply", "bits.and_bits"}


def test_shapes_must_agree():
    with pytest.raises(ShapeMismatch, match=r"\(3, 5\), \(5,\)"):
        run_both(lambda party: multiply(party, ring_half(X, party.rank), ring_half(X[0], party.rank)))
