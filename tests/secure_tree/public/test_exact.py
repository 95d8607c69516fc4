"""Public numbers are correct, and pinned because both parties derive them by themselves."""

import math

import numpy as np
import pytest

from secure_tree.public.exact import ceil_log2, choose, digest, exp, ln
from secure_tree.public.layout import Layout


def test_logarithm_and_exponential_are_right_to_the_last_bit():
    x = np.random.default_rng(1).uniform(-700, 700, 200).tolist()
    assert all(abs(exp(v) - math.exp(v)) <= math.ulp(math.exp(v)) for v in x)
    assert all(abs(ln(abs(v)) - math.log(abs(v))) <= math.ulp(math.log(abs(v))) for v in x)
    assert [exp(1.0).hex(), exp(12.0).hex(), exp(0.7).hex()] == [
        "0x1.5bf0a8b145769p+1",
        "0x1.3de1654d37c9ap+17",
        "0x1.01c2a61268987p+1",
    ]
    assert [ln(2.0).hex(), ln(5e-324).hex()] == ["0x1.62e42fefa39efp-1", "-0x1.74385446d71c3p+9"]


def test_powers_of_two_above():
    for x in (1.0, 0.5, 3.0, 2.0**1000, 5e-324, 1.7e308, math.nextafter(8, 9), math.nextafter(8, 7)):
        k = ceil_log2(x)
        assert math.ldexp(x, -k) <= 1 < 2 * math.ldexp(x, -k)


def test_choices_are_pinned_and_equally_likely():
    assert choose(4, 12, "held out 0").tolist() == [2, 3, 4, 5]
    assert choose(0, 5, "x").size == 0 and choose(5, 5, "x").tolist() == [0, 1, 2, 3, 4]
    counts = np.zeros(10)
    for label in range(5000):
        chosen = choose(3, 10, str(label))
        assert (np.diff(chosen) > 0).all()
        counts[chosen] += 1
    assert (np.abs(counts - 1500) < 5 * np.sqrt(5000 * 0.3 * 0.7)).all()
    half = choose(500_000, 1_000_000, "many")
    assert half.size == 500_000 and abs(half.mean() - 499_999.5) < 5 * 1_000_000 / np.sqrt(12 * 500_000)


@pytest.mark.parametrize(
    "other", [(1, [2, 3]), (1, np.array([2, 4])), (1, np.array([2, 3], np.int32)), (1, np.array([[2, 3]])), (2,)]
)
def test_digests_differ_where_values_do(other):
    assert digest(1, np.array([2, 3])) == digest(1, np.array([2, 3])) != digest(*other)


def test_a_digest_takes_dataclasses():
    layout = Layout("vertical", (3, 3), (1, 2), (2, 2))
    assert digest(layout) == digest(Layout("vertical", (3, 3), (1, 2), (2, 2)))
    assert digest(layout) != digest(Layout("vertical", (3, 3), (1, 2), (2, 3)))
