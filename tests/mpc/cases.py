"""One small run of every protocol: how to call it, at two sizes, on any data of the right range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpc import (
    argmax,
    beaver,
    bit_product,
    comparison,
    comparison_keys,
    conversion,
    division,
    equality,
    fixed_operand,
    linear_map,
    matrix_product,
    one_hot,
    reciprocal,
    sharing,
    sigmoid,
    sigmoid_exponential,
    sigmoid_piecewise,
    truncation,
    weighted_choice,
    widening,
)
from mpc.linear_map import DenseBits, DenseWords
from mpc.ring import U8, U32, U64
from mpc.rings import GF2, Z8, Z32, Z64
from mpc.shares import PShare
from tests.mpc.twoparty import bit_half, ring_half


@dataclass(frozen=True)
class Case:
    """A protocol, and the arguments of one call: (party, rng, size) -> positional arguments; named ones as they are."""

    protocol: Callable
    arguments: Callable
    named: dict

    @property
    def name(self) -> str:
        variant = "".join(f"-{v}" for v in self.named.values())
        return f"{self.protocol.name}{variant}"


def words(low, high, *tail, dtype=U64, scale=0, count=1):
    """Arguments: `count` shares of integers in low .. high, of shape (size, *tail)."""

    def make(party, rng, size):
        return [ring_half(rng.integers(low, high, (size, *tail)), party.rank, dtype, scale) for _ in range(count)]

    return make


def bits(*tail, count=1):
    def make(party, rng, size):
        return [bit_half(rng.integers(0, 2, (size, *tail)), party.rank) for _ in range(count)]

    return make


def packed(count=1):
    def make(party, rng, size):
        shares = words(0, 2**62, count=count)(party, rng, size)
        return [PShare(share.words, party.rank) for share in shares]

    return make


def then(make, *more):
    """Further public arguments behind `make`'s."""
    return lambda party, rng, size: [*make(party, rng, size), *more]


def _operand(make):
    def arguments(party, rng, size):
        matrix = make((2, 3, size), rng, party)
        return [make((2, 4, 3), rng, party), fixed_operand.fix(party, matrix)]

    return arguments


def _ring_array(shape, rng, party):
    return ring_half(rng.integers(-9, 9, shape), party.rank)


def _bit_array(shape, rng, party):
    return bit_half(rng.integers(0, 2, shape), party.rank)


def _matrix(owner, ring):
    def arguments(party, rng, size):
        if ring == GF2:
            matrix = DenseBits(rng.integers(0, 2, (size, 9)).astype(np.uint8))
        else:
            matrix = DenseWords(rng.integers(0, 99, (9, size)).astype(ring.dtype))
        return [owner, matrix if party.rank == owner else None, 9, size, ring]

    return arguments


def _apply(owner, ring):
    def arguments(party, rng, size):
        shared = linear_map.share_masked_matrix(party, *_matrix(owner, ring)(party, rng, size))
        make = bit_half if ring == GF2 else lambda x, rank: ring_half(x, rank, ring.dtype)
        return [shared.supply(party, 2), make(rng.integers(0, 2, (2, 9)), party.rank)]

    return arguments


def _share(owner):
    def arguments(party, rng, size):
        values = rng.integers(-99, 99, (size, 2))
        return [values if party.rank == owner else None, owner, (size, 2)]

    return arguments


def _matrices(party, rng, size):
    return [ring_half(rng.integers(-99, 99, shape), party.rank) for shape in ((size, 4), (4, 3))]


BIG = 2**61
BY = [{"by": by} for by in ("bits", "keys")]
CASES = [
    Case(protocol, arguments, named)
    for protocol, arguments, named in [
        (beaver.multiply, words(-BIG, BIG, count=2), {}),
        (beaver.square, words(-BIG, BIG, 3), {}),
        (matrix_product.matmul, _matrices, {}),
        (bit_product.and_bits, bits(3, count=2), {}),
        (bit_product.and_bits, packed(count=2), {}),
        (bit_product.or_bits, bits(count=2), {}),
        (bit_product.or_bits, packed(count=2), {}),
        (bit_product.to_ring, bits(3), {}),
        (bit_product.to_ring, then(bits(3), Z8), {}),
        (bit_product.select, lambda p, r, n: [*bits(1)(p, r, n), *words(-BIG, BIG, 4)(p, r, n)], {}),
        (
            weighted_choice.choose,
            lambda p, r, n: [*bits(2, 3)(p, r, n), *words(-BIG, BIG, 2)(p, r, n), [1, 5, 2**40]],
            {},
        ),
        *((comparison.below, then(words(-BIG, BIG), [0, 5, -7], 63), by) for by in BY),
        (comparison.below, then(words(-BIG, BIG), [0, 5, -7], 63), {"by": "carries"}),
        (comparison.below_by_bits, then(words(-BIG, BIG), [0, 5, -7], 63), {}),
        *((comparison.less_than, words(-BIG, BIG, count=2), by) for by in BY),
        *((comparison.in_range, then(words(-BIG, BIG), -9, 9), by) for by in BY),
        *((comparison.maximum, words(0, BIG, count=2), by) for by in BY),
        (comparison_keys.below_by_keys, then(words(-99, 99), [3], 9), {}),
        (comparison_keys.floor_by_keys, then(words(-BIG, BIG), 9), {}),
        (comparison_keys.larger_by_keys, then(words(0, 99, count=2), 9), {}),
        (conversion.to_bits, then(words(-BIG, BIG), 11), {}),
        (truncation.truncate, then(words(-BIG, BIG, 2), 13), {}),
        *((truncation.floor, then(words(-BIG, BIG, 2), 13), by) for by in BY),
        (truncation.floor_by_bits, then(words(-BIG, BIG, 2), 13), {}),
        *((reciprocal.normalise, then(words(1, 2**19), 4, 20, [77]), by) for by in BY),
        *((reciprocal.invert, words(2**17, 2**18), by) for by in BY),
        *((reciprocal.reciprocal, then(words(1, 2**15), 4, 15), by) for by in [*BY, {"exact": False}]),
        *((division.divide, then(words(1, 2**15, count=2), 4, 15, 9), by) for by in BY),
        *((argmax.argmax, then(words(0, 99, 11), 8), {"radix": r, "by": "bits"}) for r in (2, 4, 8)),
        (argmax.argmax, then(words(0, 99, 11), 8), {"radix": 2, "by": "keys"}),
        (one_hot.one_hot, bits(5), {}),
        (one_hot.all_of, bits(5), {}),
        (equality.equals_zero, then(words(0, 9, dtype=U8), 4), {}),
        (widening.widen, words(-(2**29), 2**29, dtype=U32), {}),
        *((sigmoid.sigmoid, then(words(-(2**24), 2**24, scale=20), 14), by) for by in BY),
        *((sigmoid_piecewise.sigmoid_piecewise, words(-(2**20), 2**20, scale=16), by) for by in BY),
        *((sigmoid_exponential.sigmoid_exponential, words(-(2**20), 2**20, scale=16), by) for by in BY),
        (fixed_operand.fix, words(-9, 9, 3, 2), {}),
        (fixed_operand.fix, bits(3, 2), {}),
        (fixed_operand.multiply_fixed, _operand(_ring_array), {}),
        (fixed_operand.multiply_fixed, _operand(_bit_array), {}),
        *((linear_map.share_masked_matrix, _matrix(owner, ring), {}) for owner in (0, 1) for ring in (Z32, Z64, GF2)),
        *((linear_map.apply_matrix, _apply(owner, ring), {}) for owner in (0, 1) for ring in (Z32, Z64, GF2)),
        *((sharing.share, _share(owner), {}) for owner in (0, 1)),
        *((sharing.reveal, words(-9, 9, 2), {"to": to}) for to in (0, 1, None)),
        *((sharing.reveal, bits(2), {"to": to}) for to in (0, 1, None)),
    ]
]  # fmt: skip
_NAMES = [case.name for case in CASES]
IDS = [f"{name}-{_NAMES[:i].count(name)}" for i, name in enumerate(_NAMES)]
