"""Rings and recipes: the values that they compute for the dealer, compared with plain arithmetic."""

import numpy as np
import pytest

from mpc.offline.recipes import Chosen, Crossed, Lifted, OneHot, Product, Zero
from mpc.protocol.catalogue import correlations
from mpc.protocol.rehearsal import TraceView
from mpc.rings import GF2, Z8, Z16, Z64, PackedBits, PackedIntegers, Z2k
from mpc.words import U8, U16, U64
from protocols.offline.streams import Streams

RNG = np.random.default_rng(1)
RINGS = [Z8, Z64, GF2, PackedBits(U16), Z2k(U64, 13), Z2k(U8, 1), *map(PackedIntegers, (1, 2, 4, 8))]


def uniform(ring, *shape):
    return ring.draw(Streams(b"a" * 16, b"b" * 16).of(len(shape)), shape)


@pytest.mark.parametrize("ring", RINGS, ids=repr)
def test_a_ring_adds_and_subtracts_and_survives_the_wire(ring):
    x, y = uniform(ring, 4, 7), uniform(ring, 4, 7)[::-1]
    assert x.dtype == ring.dtype
    whole = ring.unpack(ring.pack(x), x.shape)
    assert [part.size for part in ring.pack(x)] == ring.sizes(x.shape)
    back = ring.unpack(ring.pack(ring.subtract(ring.add(x, y), y)), x.shape)
    assert np.array_equal(whole, back)
    assert int(whole.max()) < 1 << ring.bits


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_packed_integers_add_and_subtract_by_themselves(width):
    ring = PackedIntegers(width)
    x, y = RNG.integers(0, 256, (2, 50, 11), np.uint8)
    sums, differences = ring.add(ring.join(x), ring.join(y)), ring.subtract(ring.join(x), ring.join(y))
    assert sums.shape == (50, ring.words(11))
    assert np.array_equal(ring.split(sums, 11), (x + y) % 2**width if width < 8 else x + y)
    assert np.array_equal(ring.split(differences, 11), (x - y) % 2**width if width < 8 else x - y)


def test_only_the_low_bits_of_a_narrow_ring_are_sent():
    assert sum(Z2k(U64, 13).sizes((8,))) == 16 and sum(GF2.sizes((9,))) == 2


def test_recipes():
    a, b = uniform(Z64, 3, 4), uniform(Z64, 3, 4)[::-1]
    bits = RNG.integers(0, 2, (3, 4)).astype(np.uint8)
    assert np.array_equal(Product(Z64, a, b)(), a * b)
    assert np.array_equal(Product(GF2, bits, bits[::-1])(), bits & bits[::-1])
    assert np.array_equal(Lifted(Z64, bits)(), bits) and Lifted(Z64, bits)().dtype == U64
    assert np.array_equal(Chosen(Z64, bits[..., None], a[:, None])(), bits[..., None] * a[:, None])
    assert np.array_equal(Crossed(Z8, bits + 2, bits[::-1] + 4)(), bits & bits[::-1])
    assert np.array_equal(OneHot(bits)(), np.eye(16, dtype=bool)[bits @ [1, 2, 4, 8]])
    assert np.array_equal(Zero(GF2, (2,))(), [0, 0])


class _Reader(TraceView):
    """A view that records whether any derived value has no recipe."""

    needs_dealer = False

    def made(self, recipe, halves, to):
        self.needs_dealer |= not hasattr(recipe, "between")
        return super().made(recipe, halves, to)


MADE = {
    "Triples": ((3,), Z64),
    "Squares": ((3,), Z64),
    "BitTriples": ((3,), U64),
    "RingBits": ((3,), Z64),
    "SelectMasks": ((3,), (3,), Z64),
    "OneHotMasks": (3, 2),
    "NewtonMasks": ((3,),),
    "WrapMasks": ((3,), 44),
    "ZeroShares": ((3,), GF2),
    "InputMask": (0, (3,), Z64),
    "OperandMask": (1, (1, 2, 3), GF2),
    "OperandProduct": (1, (1, 2, 3), 4, GF2),
    "MatrixMask": (1, 0, 3, 4, Z64),
    "MatrixVectors": (1, 0, 3, 4, GF2, 2, 2),
    "SignMasks": ((3,), 2, 9),
    "FloorMasks": ((3,), 5),
    "EqualityMasks": ((3,), 4),
    "GroupMasks": (3, 4, 9, Z16, 2),
    "WindowMasks": ((3,), 0, 1, 1, 4),
    "LogarithmMasks": ((3,), 8, 3, 1),
}


@pytest.mark.parametrize("name", MADE)
def test_correlations_that_two_parties_can_make_have_recipes(name):
    view = _Reader(0)
    correlations()[name](*MADE[name]).deal(view)
    assert not view.needs_dealer


def test_a_lambda_needs_a_dealer():
    view = _Reader(0)
    correlations()["TrigonometricMasks"]((3,)).deal(view)
    assert view.needs_dealer
