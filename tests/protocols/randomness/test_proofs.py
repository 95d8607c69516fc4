"""Proofs of products: those of an honest dealer pass, and any error in a statement fails."""

import numpy as np
import pytest

from mpc.relations import Relations
from mpc.ring import U8, U64
from mpc.rings import Z64
from protocols.randomness.proofs import joint, proving, statements, verifying

RNG = np.random.default_rng(2)


def proved(first, second, alter=lambda step, told: told):
    """Return whether two parties' relations pass; `alter` changes the dealer's message to party 0 in a step."""
    for pair in zip(statements(first, b"k" * 16), statements(second, b"k" * 16), strict=True):
        dealer, parties = proving(joint(*pair)), [verifying(statement) for statement in pair]
        told, sizes, ends, step = next(dealer), [next(party) for party in parties], [], 0
        while not ends:
            shares = [share.reshape(-1).copy() for share in told]
            assert [share.size for share in shares] == sizes
            shares[0] = alter(step, shares[0])
            point, step = RNG.integers(1, 1 << 48, dtype=U64), step + 1
            for party, share in zip(parties, shares, strict=True):
                try:
                    sizes[parties.index(party)] = party.send((share, point))
                except StopIteration as done:
                    ends.append(done.value)
            if not ends:
                told = dealer.send(point)
        end = joint(*ends)
        if not np.array_equal(end.field.dot(end.u, end.v), end.t):
            return False
    return True


def shared(values, xor):
    half = RNG.integers(0, 1 << 64, values.shape, U64).astype(values.dtype)
    half = half & U8.type(1) if xor else half
    return half, values ^ half if xor else values - half


def relations(kind, n, error=0):
    """Return `n` products of one kind; one of them is wrong by `error`."""
    both = Relations(0), Relations(1)
    wrong = np.zeros(n, U64)
    wrong[RNG.integers(n)] = error
    if kind == "one_hots":
        hot = np.zeros((n, 8), U8)
        hot[np.arange(n), RNG.integers(0, 8, n)] = 1
        if error:
            # An odd number of ones, so that the parity is right.
            hot[RNG.integers(n), :] = np.arange(8) < 3
        for each, half in zip(both, shared(hot, True), strict=True):
            each.one_hot(half)
    else:
        bits = kind == "conjunctions"
        u, v = (RNG.integers(0, 2 if bits else 1 << 64, n, U64).astype(U8 if bits else U64) for _ in range(2))
        w = (u & v ^ wrong.astype(U8)) if bits else u * v + wrong
        for each, parts in zip(both, zip(*(shared(x, bits) for x in (u, v, w)), strict=True), strict=True):
            if bits:
                each.conjunction(*parts)
            else:
                each.product(Z64, parts[0][:, None], parts[1][:, None], parts[2])
    return both


KINDS = "conjunctions", "one_hots", "products"


@pytest.mark.parametrize("n", [1, 2, 3, 17, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_right_products_pass(kind, n):
    assert proved(*relations(kind, n))


def test_products_of_several_statements():
    assert proved(*relations("products", (1 << 15) + 5)) and not proved(*relations("products", (1 << 15) + 5, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_one_wrong_product_fails(kind):
    for n in (1, 2, 3, 17, 1000):
        errors = (1, 1 << 5, 1 << 63) if kind == "products" else (1,)
        assert not any(proved(*relations(kind, n, error)) for error in errors for _ in range(5))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0, 1, 4])
def test_a_change_on_the_way_fails(kind, step):
    """Any one word of a step is changed; 17 products take five steps before the last."""
    for _ in range(10):

        def alter(at, told):
            told = told.copy()
            if at == step:
                told[RNG.integers(told.size)] ^= U64.type(1) << RNG.integers(64, dtype=U64)
            return told

        assert not proved(*relations(kind, 17), alter)
