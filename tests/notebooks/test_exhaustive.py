"""Every input and every value of the randomness: correctness and privacy by counting, and leaks that are planted."""

from dataclasses import dataclass

import numpy as np
import pytest

from mpc import beaver, bit_product, comparison, conversion, equality, one_hot
from mpc.beaver import Triples
from mpc.correlation import Hand
from mpc.party import open_shares
from mpc.ring import U8, U16, U64
from mpc.shares import AShare, BShare
from notebooks.exhaustive import check


def words(rank, columns):
    return [AShare(c.copy(), rank) for c in columns]


def small_words(rank, columns):
    return [AShare(c.astype(np.uint8), rank) for c in columns]


def bits(rank, columns):
    return [BShare((c & np.uint64(1)).astype(np.uint8), rank) for c in columns]


def bit_and_word(rank, columns):
    return [*bits(rank, columns[:1]), *words(rank, columns[1:])]


def modulo(k, value):
    return [np.asarray(value) & np.uint64((1 << k) - 1)]


@pytest.mark.parametrize(
    ("steps", "make", "ideal", "options"),
    [
        pytest.param(
            beaver.multiply.steps,
            words,
            lambda a, b, c, d: modulo(2, (a + c) * (b + d)),
            {"inputs": 2, "k": 2},
            id="product, Z_4",
        ),
        *(
            pytest.param(
                beaver.square.steps, words, lambda a, b, k=k: modulo(k, (a + b) ** 2), {"k": k}, id=f"square, Z_{2**k}"
            )
            for k in (2, 3, 4)
        ),
        pytest.param(
            bit_product.conjoin.steps, bits, lambda a, b, c, d: [(a ^ c) & (b ^ d)], {"inputs": 2, "k": 1}, id="and"
        ),
        pytest.param(
            bit_product.disjoin.steps, bits, lambda a, b, c, d: [(a ^ c) | (b ^ d)], {"inputs": 2, "k": 1}, id="or"
        ),
        *(
            pytest.param(
                bit_product.to_ring.steps, bits, lambda a, b: [(a ^ b) & np.uint64(1)], {"k": k}, id=f"bit to Z_{2**k}"
            )
            for k in (2, 3, 4)
        ),
        pytest.param(
            bit_product.select.steps,
            bit_and_word,
            lambda b, x, c, y: modulo(2, (b & np.uint64(1) ^ c & np.uint64(1)) * (x + y)),
            {"inputs": 2, "k": 2},
            id="bit times Z_4",
        ),
        *(
            pytest.param(
                lambda p, x, k=k: equality.equals_zero.steps(p, x, k),
                small_words,
                lambda a, b, k=k: [(a + b) % np.uint64(1 << k) == 0],
                {"k": k, "widths": {U8: k}},
                id=f"equality with zero, Z_{2**k}",
            )
            for k in (2, 3)
        ),
        pytest.param(
            lambda p, x, y: one_hot.one_hot.steps(p, BShare(np.stack([x.bits, y.bits], axis=1), p.rank)),
            bits,
            lambda a, b, c, d: [np.arange(4) == ((a ^ c) + np.uint64(2) * (b ^ d))[:, None]],
            {"inputs": 2, "k": 1},
            id="one-hot of four",
        ),
        *(
            pytest.param(
                lambda p, x, k=k: comparison.below.steps(p, x, [0], k, "bits"),
                words,
                lambda a, b, k=k: [((a + b) % np.uint64(1 << k) >= 1 << k - 1)[:, None]],
                {"k": k, "widths": {U8: 1 << k - 1, U16: 1}},
                id=f"sign, Z_{2**k}",
                marks=[pytest.mark.long] if k == 3 else [],
            )
            for k in (2, 3)
        ),
        pytest.param(
            lambda p, x: conversion.to_bits.steps(p, x, 2),
            words,
            lambda a, b: [(a + b)[:, None] >> np.arange(2, dtype=np.uint64) & np.uint64(1)],
            {"k": 2},
            id="bits of Z_4",
        ),
    ],
)
def test_proven_by_exhaustion(steps, make, ideal, options):
    verdict = check(steps, make, ideal, **options)
    assert verdict.proven and verdict.cases >= 2**4, verdict


def product_ideal(a, b, c, d):
    return modulo(2, (a + c) * (b + d))


def test_a_reused_mask_is_caught():
    def steps(party, x, y):
        a, _, _ = party.randomness.take(Triples(x.shape, x.dtype))
        opened = yield from open_shares("leak", x.map(lambda w: w - a), y.map(lambda w: w - a))
        return AShare(opened[0] * np.uint64(0), party.rank)

    verdict = check(steps, words, lambda a, b, c, d: [a * np.uint64(0)], inputs=2, k=2)
    assert min(verdict.leaking) > 0


def test_an_unmasked_opening_is_caught():
    def steps(party, x, y):
        yield from open_shares("leak", x)
        return (yield from beaver.multiply.steps(party, x, y))

    verdict = check(steps, words, product_ideal, inputs=2, k=2)
    assert verdict.wrong == 0 and min(verdict.leaking) > 0


def test_a_biased_generator_is_caught():
    @dataclass(frozen=True)
    class Biased:
        shape: tuple[int, ...]

        def deal(self, hand: Hand):
            a = hand.mask(self.shape, U64)
            # Two of the four values of a half never occur.
            return a & np.uint64(1) if a is not None else a

    def steps(party, x):
        a = party.randomness.take(Biased(x.shape))
        yield from open_shares("leak", x.map(lambda w: w - a))
        return AShare(x.words * np.uint64(0), party.rank)

    verdict = check(steps, words, lambda a, b: [a * np.uint64(0)], k=2)
    assert min(verdict.leaking) > 0


def test_a_wrong_protocol_is_caught():
    def steps(party, x, y):
        return (yield from beaver.multiply.steps(party, x, x + y))

    assert check(steps, words, product_ideal, inputs=2, k=2).wrong > 0
