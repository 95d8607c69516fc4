"""Operators on shares against numpy: whole ranges, scales, shapes, and what is refused."""

import numpy as np
import pytest

from mpc.arithmetic.beaver import dot, square
from mpc.errors import DataError, RangeError, ScaleMismatch, ShapeMismatch
from mpc.matrix.fixed_operand import fix, multiply_fixed
from mpc.operators import session
from mpc.rings import Z32
from mpc.rounding.truncation import truncate
from mpc.shares import AShare, public_bits, public_ring
from protocols.testing import run_both
from protocols.testing.two_parties import made_by_both

RNG = np.random.default_rng(6)
SCALE = 16
UNIT = 2.0**-SCALE


def held(party, values, scale=SCALE):
    """Share an array of party 0."""
    return party.share(np.asarray(values) if party.rank == 0 else None, owner=0, scale=scale)


def results(job, **how):
    """Return what job(party), a list of shares, reveals; the parties agree."""

    def play(party):
        with session(party):
            return [party.reveal(share, what="a result") for share in job(party)]

    (first, second), _ = run_both(play, **how)
    for mine, theirs in zip(first, second, strict=True):
        assert np.array_equal(mine, theirs)
    return first


def test_reveal_gives_floats_at_a_scale_integers_without_and_bits():
    values, large = np.array([1.5, -2.25, 0.0]), 2**62 + 1

    def job(party):
        x, n = held(party, values), held(party, [3, -(2**63)], scale=0)
        exact = held(party, [large], scale=4)
        assert (party.reveal(x, to=1, what="x") is None) == (party.rank == 0)
        return (
            [party.reveal(share, what="x") for share in (x, n, public_bits([1, 0], party.rank), exact)],
            [party.reveal(share, what="x", units=True) for share in (x, n, exact)],
        )

    (((x, n, bits, rounded), (units, same, exact)), _), _ = run_both(job)
    assert x.dtype == np.float64 and np.array_equal(x, values)
    assert units.dtype == np.int64 and np.array_equal(units, values * 2**SCALE)
    assert n.dtype == np.int64 and np.array_equal(n, [3, -(2**63)]) and np.array_equal(n, same)
    assert bits.dtype == np.uint8 and bits.tolist() == [1, 0]
    assert rounded[0] == large / 16 and exact[0] == large


def test_repr_shows_shape_scale_and_ring_but_no_data():
    secret = 1234567
    x = public_ring(np.full((3, 2), secret), 0, scale=5)
    assert repr(x) == "AShare(shape=(3, 2), scale=5, ring=Z_2^64, rank=0)"
    assert repr(x.narrow(Z32)) == "AShare(shape=(3, 2), scale=5, ring=Z_2^32, rank=0)"
    bits = public_bits([1, 0, 1], 1)
    assert repr(bits) == "BShare(shape=(3,), rank=1)" and repr(bits.packed()) == "PShare(shape=(1,), rank=1)"
    assert str(secret) not in repr([x])


def test_comparisons():
    x = np.array([-3.5, 0, 0, 2.25, 1e6])
    y = np.array([0, 0, UNIT, 2.25, -1e6])

    def job(party):
        a, b = held(party, x), held(party, y)
        return [a < b, a <= b, a > b, a >= b, a == b, a != b, a <= 2.25, a >= 2.25, a >= 0, a <= UNIT / 2, abs(a)]

    *bits, magnitude = results(job)
    expected = [x < y, x <= y, x > y, x >= y, x == y, x != y, x <= 2.25, x >= 2.25, x >= 0, x <= UNIT / 2]
    for got, wanted in zip(bits, expected, strict=True):
        assert np.array_equal(got, wanted)
    assert np.array_equal(magnitude, abs(x))


def test_bits():
    a, b, x = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([[1.5], [-2.0]])

    def job(party):
        first, second, numbers = public_bits(a, party.rank), public_bits(b, party.rank), held(party, x)
        return [first & second, first | second, first & b, b | first, first * numbers, numbers * first]

    both, either, mine, others, chosen, again = results(job)
    assert np.array_equal(both, a & b) and np.array_equal(mine, a & b)
    assert np.array_equal(either, a | b) and np.array_equal(others, a | b)
    assert np.array_equal(chosen, a * x) and np.array_equal(again, a * x)


def test_quotients_of_shares():
    x = np.concatenate([RNG.uniform(-900, 900, 40), [0, 5, -5, 7, 1, 4095, 60_000]])
    y = np.concatenate(
        [RNG.uniform(0.05, 4000, 40) * RNG.choice([-1, 1], 40), [3, 0, -UNIT * 2**14, 4095.9, -4095.9, 1, 1]]
    )

    def job(party):
        a, b = held(party, x), held(party, y)
        return [a / b, 2.5 / held(party, y[:40]), a[:3] / b[:3].reshape(3, 1), 1 / held(party, [[UNIT * 2]])]

    quotient, inverse, table, largest = results(job)
    wanted = np.divide(x, y, out=np.zeros_like(x), where=y != 0)
    assert (abs(quotient - wanted) <= abs(wanted) * 2.0**-15.9 + 2 * UNIT).all()
    assert (abs(inverse - 2.5 / y[:40]) <= abs(2.5 / y[:40]) * 2.0**-15.9 + 2 * UNIT).all()
    assert table.shape == (3, 3) and abs(np.diag(table) - quotient[:3]).max() <= 2 * UNIT
    assert abs(largest[0, 0] / 32768 - 1) < 2.0**-15


@pytest.mark.parametrize("source", [{}, {"source": made_by_both}], ids=["dealer", "pairwise"])
def test_quotients_by_public_numbers_and_means(source):
    x = np.concatenate([RNG.uniform(-1000, 1000, (3, 4)), [[2.0**27, -(2.0**27), UNIT, 0]]])
    by = np.array([3.0, -0.01, 100, 7])

    def job(party):
        a = held(party, x)
        return [
            a / 3,
            a[:3] / -1e-3,
            a / 2.0**20,
            a[:3] / by,
            a.mean(),
            a[:3].mean(axis=0),
            a[0].mean(),
        ]

    wanted = [x / 3, x[:3] / -1e-3, x / 2.0**20, x[:3] / by, x.mean(), x[:3].mean(axis=0), x[0].mean()]
    for got, value in zip(results(job, **source), wanted, strict=True):
        assert got.shape == np.shape(value)
        assert (abs(got - value) <= abs(value) * 2.0**-17 + 1.5 * UNIT).all()


def test_powers():
    x = np.array([1.5, -2.0, 3, 0])

    def job(party):
        return [held(party, x, scale=4) ** k for k in (0, 1, 2, 3, 4, 5, 8)]

    for got, k in zip(results(job), (0, 1, 2, 3, 4, 5, 8), strict=True):
        assert np.array_equal(got, x**k), k
    for power in (-1, 0.5, True):
        with pytest.raises(DataError, match="power of a share must be an integer of 0 or more"):
            public_ring([1], 0) ** power


def test_extremes():
    x = np.array([[3, -7.5, 3, 0], [-1, -1, -2, -1.5], [2.0**45, -(2.0**46), 5, 6]])
    n = RNG.integers(-(2**62), 2**62, (2, 50))
    n[0, [3, 9]], n[1, 7] = 2**62 - 1, -(2**62)

    def job(party):
        a, b = held(party, x), held(party, n, scale=0)
        reduced = [a.max(axis=1), a.min(axis=1), a.max(), a.min(axis=0), a[:, 0].max(axis=-1)]
        places = [a.argmax(axis=1), a.argmin(axis=1), a.argmax(), a.argmin(axis=0)]
        return [*reduced, *places, b.max(axis=1), b.argmax(axis=1), b.argmin(axis=1)]

    wanted = [x.max(axis=1), x.min(axis=1), x.max(), x.min(axis=0), x[:, 0].max()]
    wanted += [x.argmax(axis=1), x.argmin(axis=1), x.argmax(), x.argmin(axis=0)]
    wanted += [n.max(axis=1), n.argmax(axis=1), n.argmin(axis=1)]
    for got, value in zip(results(job), wanted, strict=True):
        assert np.array_equal(got, value)
    with pytest.raises(ShapeMismatch, match="empty share"):
        public_ring(np.zeros((2, 0), int), 0).max(axis=1)


def test_shapes():
    x = RNG.integers(-9, 9, (2, 3, 4)).astype(float)

    def job(party):
        a = held(party, x)
        return [a.T, a.transpose(1, 0, 2), a.reshape(6, 4), a[0].T @ a[1], np.ones((2, 3)) @ a[0]]

    wanted = [x.T, x.transpose(1, 0, 2), x.reshape(6, 4), x[0].T @ x[1], np.ones((2, 3)) @ x[0]]
    for got, value in zip(results(job), wanted, strict=True):
        assert np.array_equal(got, value)
    with pytest.raises(ShapeMismatch, match=r"shapes \(3,\) and \(4,\) do not broadcast"):
        results(lambda party: [held(party, [1.0] * 3) * held(party, [1.0] * 4)])


PRODUCTS = {
    "product": lambda party, x, y: x * y,
    "square": lambda party, x, y: square(party, x),
    "dot": lambda party, x, y: dot(party, x, y),
    "matrix": lambda party, x, y: x @ y,
    "public": lambda party, x, y: x * 1.5,
    "public matrix": lambda party, x, y: x @ np.eye(2),
    "public matrix before": lambda party, x, y: np.eye(2) @ x,
    "public factor": lambda party, x, y: x.times(3, 32),
    "fixed": lambda party, x, y: multiply_fixed(party, x.reshape(1, 2, 2), fix(party, y.reshape(1, 2, 2))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_too_large_a_scale_is_refused(name):
    message = r"a product of scales 3\d and 3\d has scale 6\d, at which 64 bits hold no number of 1 or more: truncate"
    values = np.eye(2)

    def job(scale):
        return lambda party: [PRODUCTS[name](party, held(party, values, scale), held(party, values, scale))]

    with pytest.raises(RangeError, match=message):
        results(job(32))
    if name != "public factor":
        assert np.array_equal(results(job(31))[0].reshape(-1)[0], 1.5 if name == "public" else 1)


def test_a_product_that_was_truncated_goes_on():
    values = np.array([1.5, -2.25, 3])

    def job(party):
        x = held(party, values)
        cube = truncate(party, x * x * x, 2 * SCALE)
        return [cube, truncate(party, cube * x, SCALE)]

    cube, fourth = results(job)
    assert abs(cube - values**3).max() <= UNIT and abs(fourth - values**4).max() <= 5 * UNIT
    with pytest.raises(RangeError, match="has scale 64"):
        results(lambda party: [held(party, values) ** 4])


@pytest.mark.parametrize(
    ("operation", "error", "message"),
    [
        (lambda x, n: n / 2, ScaleMismatch, "x / y has a fraction, and scale 0 has none"),
        (lambda x, n: 1 / n, ScaleMismatch, "x / y has a fraction"),
        (lambda x, n: n.mean(), ScaleMismatch, "x / y has a fraction"),
        (lambda x, n: x / n, ScaleMismatch, "cannot divide scale 16 by scale 0"),
        (lambda x, n: x / 0, DataError, "divided by finite numbers other than 0"),
        (lambda x, n: x / np.nan, DataError, "divided by finite numbers other than 0"),
        (lambda x, n: x / [1.0, 1e9], RangeError, "within a factor of 2.22"),
        (lambda x, n: x / 1e15, RangeError, "below 2.45"),
        (lambda x, n: x.narrow(Z32) / 2, RangeError, "needs shares of 64 bits, got 32"),
    ],
)
def test_what_is_refused(operation, error, message):
    def job(party):
        with session(party):
            operation(public_ring([1, 2], party.rank, scale=SCALE), public_ring([1, 2], party.rank))

    with pytest.raises(error, match=message):
        run_both(job)


@pytest.mark.parametrize("use", [abs, lambda x: x / x, lambda x: x.max(), lambda x: x**2, lambda x: x <= 1])
def test_operators_need_a_session(use):
    with pytest.raises(TypeError, match="on shares needs a session"):
        use(AShare(np.zeros(2, np.uint64), 0, SCALE))
