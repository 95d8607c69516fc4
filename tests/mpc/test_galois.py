"""The two rings of proofs, compared with polynomials computed in Python."""

import numpy as np
import pytest

from mpc.kernels import galois
from mpc.ring import U64

RNG = np.random.default_rng(1)
FIELD, RING = (1 << 64) | 0x1B, (1 << 48) | 0b101101


def remainder(a, modulus):
    while a.bit_length() >= modulus.bit_length():
        a ^= modulus << a.bit_length() - modulus.bit_length()
    return a


def product(a, b, modulus):
    out = 0
    for i in range(b.bit_length()):
        out ^= (a << i) * (b >> i & 1)
    return remainder(out, modulus)


def gcd(a, b):
    while b:
        a, b = b, remainder(a, b)
    return a


@pytest.mark.parametrize(("modulus", "primes"), [(FIELD, [2]), (RING, [2, 3])])
def test_the_moduli_are_irreducible(modulus, primes):
    """Rabin's test."""
    degree, powers = modulus.bit_length() - 1, [2]
    for _ in range(degree):
        powers.append(product(powers[-1], powers[-1], modulus))
    assert powers[degree] == 2
    assert all(gcd(modulus, powers[degree // p] ^ 2) == 1 for p in primes)


def words(*shape):
    return RNG.integers(0, 1 << 64, shape, U64)


def test_field():
    a, b = words(50), words(50)
    expected = [product(int(x), int(y), FIELD) for x, y in zip(a, b, strict=True)]
    assert galois.field_products(a, b).tolist() == expected
    assert galois.field_dot(a, b).item() == np.bitwise_xor.reduce(np.array(expected, U64))
    between = galois.field_between(a[0], a, b)
    assert np.array_equal(between, a ^ galois.field_products(np.full(50, a[0]), a ^ b))
    bits = RNG.integers(0, 2, (9, 50), np.uint8)
    assert np.array_equal(galois.field_sums(bits, a), np.bitwise_xor.reduce(bits * a, axis=1))


def test_without_carryless_products_of_the_processor():
    for a, b in words(20, 2):
        low, high = galois._portably.py_func(a, b)
        assert int(low) | int(high) << 64 == product(int(a), int(b), 1 << 200)


def in_ring(a, b):
    """Return coefficients by long division of Python's integers."""
    long = [0] * 95
    for i, x in enumerate(a.tolist()):
        for j, y in enumerate(b.tolist()):
            long[i + j] += x * y
    for i in range(94, 47, -1):
        for tap in (0, 2, 3, 5):
            long[i - 48 + tap] -= long[i]
    return np.array([x % (1 << 64) for x in long[:48]], U64)


def test_ring():
    a, b = words(3, 48), words(3, 48)
    expected = sum(in_ring(x, y) for x, y in zip(a, b, strict=True))
    assert np.array_equal(galois.ring_dot(a, b)[0], expected)
    between = galois.ring_between(a[0], a, b)
    assert np.array_equal(between, np.stack([x + in_ring(a[0], y - x) for x, y in zip(a, b, strict=True)]))
    multiples = galois.ring_multiples(a[0], b[0])
    assert np.array_equal(multiples[:, 47], b[0] * (a[0] >> U64.type(47) & U64.type(1)))
