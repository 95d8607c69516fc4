"""The protocols' cases with a lane for every run: where a matrix is one input, each of its rows is a run."""

import numpy as np

from mpc import fixed_operand, linear_map, matrix_product
from mpc.linear_map import DenseBits, DenseWords
from mpc.rings import GF2, Z32, Z64
from tests.mpc import cases
from tests.mpc.cases import CASES, Case


def _words(rng, shape, party, ring=Z64):
    return cases.ring_half(rng.integers(-99, 99, shape), party.rank, ring.dtype)


def _bits(rng, shape, party):
    return cases.bit_half(rng.integers(0, 2, shape), party.rank)


def _inner(party, rng, lanes):
    """A row times a column, with a run for each of their entries."""
    return [_words(rng, (lanes, 1), party).map(np.transpose), _words(rng, (lanes, 1), party)]


def _batch(make):
    def arguments(party, rng, lanes):
        return [make(rng, (lanes, 1, 3), party), fixed_operand.fix(party, make(rng, (lanes, 3, 2), party))]

    return arguments


def _matrix(owner, ring):
    def arguments(party, rng, lanes):
        if ring == GF2:
            matrix, shape = DenseBits(rng.integers(0, 2, (lanes, 9)).astype(np.uint8)), (9, lanes)
        else:
            matrix, shape = DenseWords(rng.integers(0, 99, (lanes, 9)).astype(ring.dtype)), (lanes, 9)
        return [owner, matrix if party.rank == owner else None, *shape, ring]

    return arguments


def _vectors(owner, ring):
    def arguments(party, rng, lanes):
        shared = linear_map.share_masked_matrix(party, *_matrix(owner, ring)(party, rng, 9))
        supply = shared.supply(party, lanes)
        return [supply, _bits(rng, (lanes, 9), party) if ring == GF2 else _words(rng, (lanes, 9), party, ring)]

    return arguments


MATRICES = [(owner, ring) for owner in (0, 1) for ring in (Z32, Z64, GF2)]
IN_ROWS = [
    Case(matrix_product.matmul, _inner, {}),
    *(Case(fixed_operand.multiply_fixed, _batch(make), {}) for make in (_words, _bits)),
    *(Case(linear_map.share_masked_matrix, _matrix(*matrix), {}) for matrix in MATRICES),
    *(Case(linear_map.apply_matrix, _vectors(*matrix), {}) for matrix in MATRICES),
]
LANES = IN_ROWS + [case for case in CASES if case.protocol not in {c.protocol for c in IN_ROWS}]
