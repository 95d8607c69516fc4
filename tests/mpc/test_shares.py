"""Shares: linear operations commute with opening; shares refuse to be values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.errors import ScaleMismatch
from mpc.shares import AShare, BShare, concatenate, public_bits, public_ring
from mpc.words import (
    U8,
    U32,
    U64,
    decode_signed,
    encode_signed,
    pack_bits,
    pack_words,
    packed_size,
    packed_sizes,
    unpack_bits,
    unpack_words,
)

INTS = st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=20).map(np.array)


def shared(values, mask_seed=1, dtype=U64):
    words = encode_signed(values, dtype)
    mask = np.random.default_rng(mask_seed).integers(0, 2**32, words.shape).astype(dtype)
    return AShare(words - mask, 0), AShare(mask, 1)


def opened(pair):
    return decode_signed(pair[0].words + pair[1].words)


@given(INTS, st.integers(-1000, 1000), st.sampled_from([U32, U64]))
def test_linear_operations_commute_with_opening(x, c, dtype):
    half = x // 4
    pairs = shared(half, 1, dtype), shared(-half // 2, 2, dtype)
    both = list(zip(*pairs, strict=True))
    assert np.array_equal(opened([a + b for a, b in both]), half + -half // 2)
    assert np.array_equal(opened([c - a for a, _ in both]), c - half)
    assert np.array_equal(opened([a.times(3) for a, _ in both]), 3 * half)
    assert opened([a.sum() for a, _ in both]) == decode_signed(encode_signed(half.sum(), dtype))


def test_adding_another_scale_is_refused():
    with pytest.raises(ScaleMismatch, match="cannot add scale 16 to scale 0"):
        public_ring([1], 0) + public_ring([1], 0, scale=16)
    with pytest.raises(ScaleMismatch):
        concatenate([public_ring([1], 0), public_ring([1], 0, scale=16)])


@pytest.mark.parametrize("share", [public_ring([1], 0), public_bits([1], 0)])
@pytest.mark.parametrize("use", [bool, float, int, np.asarray, list, hash])
def test_a_share_is_not_a_value(share, use):
    with pytest.raises(TypeError, match=r"^this [AB]Share is one half of a secret, not a value: use party\.reveal$"):
        use(share)


def test_bits_are_not_compared_in_the_clear():
    for compare in (lambda b: b == 1, lambda b: b != b, lambda b: b in [1]):
        with pytest.raises(TypeError, match=r"use party\.reveal"):
            compare(public_bits([1], 0))


@given(st.lists(st.integers(0, 1), min_size=1, max_size=40).map(np.array))
def test_not_and_xor_on_bits(bits):
    bits = bits.astype(np.uint8)
    mask = np.random.default_rng(3).integers(0, 2, bits.shape).astype(np.uint8)
    pair = BShare(bits ^ mask, 0), BShare(mask, 1)
    assert np.array_equal((~pair[0]).bits ^ (~pair[1]).bits, 1 - bits)
    assert np.array_equal((pair[0] ^ bits).bits ^ (pair[1] ^ bits).bits, np.zeros_like(bits))


@given(st.integers(1, 64), st.integers(0, 30))
def test_words_survive_the_wire(bits, count):
    words = np.random.default_rng(bits).integers(0, 2**63, count).astype(U64) >> np.uint64(max(0, 63 - bits))
    data = pack_words(words, bits)
    assert [part.size for part in data] == packed_sizes(count, bits) and all(part.dtype == U8 for part in data)
    assert np.array_equal(unpack_words(data, (count,), U64, bits), words)


@given(st.lists(st.integers(0, 1), max_size=70).map(lambda b: np.array(b, np.uint8)))
def test_bits_survive_the_wire(bits):
    data = pack_bits(bits)
    assert data.size == packed_size(bits.size, 1)
    assert np.array_equal(unpack_bits(data, bits.shape), bits)
