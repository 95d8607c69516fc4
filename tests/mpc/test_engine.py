"""The smaller protocols over their whole range, and the operators of a session."""

import numpy as np
import pytest

from mpc.arithmetic.beaver import square
from mpc.arithmetic.bits import or_bits
from mpc.comparison.comparison import in_range, less_than, maximum
from mpc.comparison.conversion import to_bits
from mpc.errors import DataError, ProtocolDesync, RangeError, ShapeMismatch
from mpc.functions.division import divide
from mpc.matrix.matrix_product import matmul
from mpc.operators import session
from mpc.rounding.truncation import truncate
from mpc.words import U8, U32, U64, decode_signed, encode_signed
from protocols.testing.two_parties import bit_half, opened, ring_half, run_both


@pytest.mark.parametrize("dtype", [U8, U32, U64])
def test_square(dtype):
    x = np.arange(-9, 10)
    results, _ = run_both(lambda party: square(party, ring_half(x, party.rank, dtype, scale=3)))
    assert np.array_equal(opened(results), x * x) and results[0].scale == 6


@pytest.mark.parametrize("dtype", [U8, U32, U64])
@pytest.mark.parametrize(
    ("n", "k", "m"), [(1, 1, 1), (5, 7, 3), (2, 8, 9), (13, 31, 17), (1, 40, 1), (4, 1, 6), (0, 3, 2), (3, 0, 2)]
)
def test_matmul(n, k, m, dtype):
    rng = np.random.default_rng(1)
    x, y = rng.integers(-99, 99, (n, k)), rng.integers(-99, 99, (k, m))
    results, _ = run_both(lambda party: matmul(party, ring_half(x, party.rank, dtype), ring_half(y, party.rank, dtype)))
    assert np.array_equal(opened(results), decode_signed(encode_signed(x @ y, dtype)))


def test_a_product_of_matrices_over_the_whole_ring():
    x, y = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, (2, 30, 30), endpoint=True)
    results, _ = run_both(lambda party: matmul(party, ring_half(x, party.rank), ring_half(y, party.rank)))
    assert np.array_equal(opened(results), x @ y)


def test_a_rounded_product_of_matrices():
    x, y = np.random.default_rng(1).integers(-(2**20), 2**20, (2, 30, 30))
    results, _ = run_both(
        lambda party: truncate(party, matmul(party, ring_half(x, party.rank), ring_half(y, party.rank)), 16)
    )
    assert set(np.unique(opened(results) - (x @ y >> 16))) == {0, 1}


@pytest.mark.parametrize("k", [11, 12])
def test_matrices_that_are_transposed_in_memory(k):
    x, y = np.random.default_rng(1).integers(-99, 99, (2, 5, k))
    results, _ = run_both(
        lambda party: matmul(party, ring_half(x, party.rank), ring_half(y, party.rank).map(np.transpose))
    )
    assert np.array_equal(opened(results), x @ y.T)


def test_matrices_of_mismatched_shapes_are_refused():
    x = np.ones((5, 7), int)
    with pytest.raises(ShapeMismatch):
        run_both(lambda party: matmul(party, ring_half(x, party.rank), ring_half(x, party.rank)))


def test_or():
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    results, _ = run_both(lambda party: or_bits(party, bit_half(a, party.rank), bit_half(b, party.rank)))
    assert np.array_equal(opened(results), a | b)


@pytest.mark.parametrize("bits", [2, 3, 7, 33, 64])
def test_to_bits(bits):
    x = np.array([0, 1, -1, 2**62, -(2**63), *np.random.default_rng(bits).integers(-(2**63), 2**63 - 1, 200)])
    results, _ = run_both(lambda party: to_bits(party, ring_half(x, party.rank), bits))
    assert np.array_equal(opened(results), (x[:, None] >> np.arange(bits)) & 1)


def test_comparisons():
    rng = np.random.default_rng(2)
    x, y = rng.integers(-(2**62), 2**62, (2, 300))
    y[:20] = x[:20]

    def job(party):
        a, b = ring_half(x, party.rank), ring_half(y, party.rank)
        best, lost = maximum(party, a, b)
        return [less_than(party, a, b), in_range(party, a, -(2**61), 2**61), best, lost]

    less, between, best, lost = (opened(pair) for pair in zip(*run_both(job)[0], strict=True))
    assert np.array_equal(less, x < y) and np.array_equal(lost, x < y)
    assert np.array_equal(between, (x >= -(2**61)) & (x < 2**61))
    assert np.array_equal(best, np.maximum(x, y))


def test_division_over_six_decades():
    rng = np.random.default_rng(3)
    y = np.exp2(rng.uniform(8, 28, 2000)).astype(np.int64)
    x = np.round(y * rng.uniform(-(2**10), 2**10, 2000)).astype(np.int64)
    y[0], x[1] = 0, 0
    results, _ = run_both(lambda party: divide(party, ring_half(x, party.rank), ring_half(y, party.rank), 8, 28, 16))
    quotient = opened(results) / 2**16
    assert quotient[0] == 0 and quotient[1] == 0
    exact = x[2:] / y[2:]
    assert (np.abs(quotient[2:] - exact) <= np.abs(exact) * 2**-16 + 2**-16).all()
    with pytest.raises(RangeError):
        run_both(lambda party: divide(party, ring_half(x, party.rank), ring_half(y, party.rank), 8, 28, 46))


def test_operators_in_a_session():
    x, y = np.array([[3, -4], [5, 6]]), np.array([[1, 2], [-7, 6]])

    def job(party):
        a = party.share(x if party.rank == 0 else None, owner=0)
        b = party.share(y if party.rank == 1 else None, owner=1)
        with pytest.raises(TypeError, match="session"):
            a * b
        with session(party):
            out = [a * b, a @ b, a < b, a > b, a < 5, 2 * a - 1, (a + b).sum(axis=0), a @ x, a * b[0]]
        return [party.reveal(o, what="test") for o in out]

    expected = [x * y, x @ y, x < y, x > y, x < 5, 2 * x - 1, (x + y).sum(axis=0), x @ x, x * y[0]]
    for result in run_both(job)[0]:
        for mine, theirs in zip(result, expected, strict=True):
            assert np.array_equal(mine, theirs)


def in_session(values, run, scale=0):
    """Return the revealed result of `run` on values that party 0 shares at a scale; the operators run the protocols."""

    def job(party):
        with session(party):
            results = run(party.share(values if party.rank == 0 else None, owner=0, scale=scale))
        return [party.reveal(t, what="test") for t in results]

    first, second = run_both(job)[0]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    return first


def test_floats_are_the_numbers_and_integers_the_units():
    x, unit = np.array([1.5, -2.75, 0.0, 1024.0]), 2**-16
    got = in_session(
        x,
        lambda s: [s, s + 0.5, 0.5 - s, s + 1, s * 0.5, 0.25 * s, s * 3, s * x, s @ x[:, None], s + np.float32(0.5)],
        scale=16,
    )
    exact = [x, x + 0.5, 0.5 - x, x + unit, x * 0.5, x * 0.25, x * 3, x * x, [(x * x).sum()], x + 0.5]
    for mine, theirs in zip(got, exact, strict=True):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("scale", [0, 16])
def test_comparisons_with_public_numbers(scale):
    x = np.array([-3, -2, 0, 2, 3]) / (1 if scale == 0 else 4)
    for c in [2, -3, 0, True, 2.5, -2.5, 0.7, -0.7, 0.1, np.float32(0.1), np.uint8(2), np.int8(-3), x[::-1]]:
        value = c if np.asarray(c).dtype.kind == "f" else np.asarray(c, int) / 2.0**scale
        less, more = in_session(x, lambda s, c=c: [s < c, s > c], scale)
        assert np.array_equal(less, x < value) and np.array_equal(more, x > value), c


def test_equality_is_computed_on_shares():
    x, y = np.array([3, -4, 0, 2**61]), np.array([3, 4, 1, 2**61])
    equal, other, reflected, pairwise = in_session(x, lambda s: [s == y, s != 3, x[0] == s, s == s[[0, 0, 2, 3]]])
    assert np.array_equal(equal, x == y) and np.array_equal(other, x != 3)
    assert np.array_equal(reflected, x == 3) and pairwise.tolist() == [1, 0, 1, 1]
    (half,) = in_session([1.5, 0.3], lambda s: [s == 0.3], scale=16)
    assert half.tolist() == [0, 1]
    (far,) = in_session(np.array([-(2**63), 2**63 - 1, -1]), lambda s: [s == np.array([0, -1, -1])])
    assert far.tolist() == [0, 0, 1]


NAN, FAR = float("nan"), 2.0**70


@pytest.mark.parametrize(
    "run",
    [
        lambda s: s + 0.5,
        lambda s: 0.5 - s,
        lambda s: s * 0.5,
        lambda s: s @ np.array([[0.5]]),
        lambda s: s == 0.5,
        lambda s: s + NAN,
        lambda s: s * NAN,
        lambda s: s < NAN,
        lambda s: s > float("inf"),
        lambda s: s + FAR,
        lambda s: s + 2**70,
        lambda s: s + 2**63,
        lambda s: s * "a",
        lambda s: s + None,
        lambda s: s == None,  # noqa: E711
        lambda s: s + 1j,
        lambda s: (s < 3) ^ 0.5,
        lambda s: (s < 3) ^ 2,
    ],
)
def test_operands_that_a_share_cannot_hold_are_refused(run):
    with pytest.raises((DataError, RangeError)):
        in_session([1], lambda s: [run(s)])


@pytest.mark.parametrize(
    ("values", "scale", "sentence"),
    [
        ([1.5, -2.7], 0, r"a share at scale 0 must be integers, got 1\.5: share with a scale"),
        ([1.0, NAN], 16, "got nan"),
        ([1.0, float("inf")], 16, "does not fit"),
        ([2.0**50], 16, "at scale 16 does not fit"),
        ([2**64], 0, "must fit 64 bits with sign"),
        (["a"], 0, "takes integers or floats"),
        ([[1], [2, 3]], 0, "all rows must have the same length"),
    ],
)
def test_values_that_cannot_be_shared_are_refused_before_a_message(values, scale, sentence):
    def job(party):
        rounds = party.meter.total.rounds
        if party.rank == 0:
            with pytest.raises((DataError, RangeError), match=sentence):
                party.share(values, owner=0, scale=scale)
        return party.meter.total.rounds - rounds

    assert run_both(job)[0] == [0, 0]


@pytest.mark.parametrize(
    ("lie", "error"),
    [
        (None, ProtocolDesync),
        ([2], ProtocolDesync),
        ({"owner": 0, "scale": 0, "shape": "ab"}, ProtocolDesync),
        ({"owner": 0, "scale": np.zeros(0), "shape": [2]}, ProtocolDesync),
        ({"owner": 0, "scale": 0, "shape": [-1]}, ProtocolDesync),
        ({"owner": 0, "scale": 0, "shape": [True]}, ProtocolDesync),
        ({"owner": 0, "scale": 0, "shape": [1 << 50]}, ProtocolDesync),
        ({"owner": 0, "scale": 0, "shape": [1] * 99}, ProtocolDesync),
        ({"owner": 0, "scale": 0, "shape": [1 << 20, 1 << 20]}, DataError),
        ({"owner": 1, "scale": 0, "shape": [2]}, DataError),
        ({"owner": 0, "scale": 16, "shape": [2]}, DataError),
        ({"owner": 0, "scale": 0, "shape": None}, DataError),
    ],
)
def test_a_false_shape_is_refused_in_one_sentence(lie, error):
    def job(party):
        if party.rank == 0:
            party.exchange_public("share.shape", lie)
        else:
            with pytest.raises(error, match=r"share"):
                party.share(None, owner=0)

    run_both(job)


def test_revealing_goes_on_record():
    def job(party):
        party.reveal(ring_half([1], party.rank), to=1, what="the total")
        return decode_signed(np.array([5], np.uint64))

    _, parties = run_both(job)
    assert [p.revealed for p in parties] == [[], ["the total"]]
