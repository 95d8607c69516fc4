import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mpc.errors import ProtocolDesync
from protocols.transport.codec import DTYPES, MAX_DEPTH, Joined, byte_view, decode, encode

arrays = hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | arrays
trees = st.recursive(
    leaves,
    lambda children: (
        st.lists(children, max_size=4)
        | st.lists(children, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), children, max_size=4)
    ),
    max_leaves=12,
)


def encoded(tree):
    return bytearray(b"".join(encode(tree)))


def same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return left == right or (left != left and right != right)


def decodes_strictly(data):
    """Check that data is refused with ProtocolDesync, or is the only encoding of its value."""
    try:
        tree = decode(data)
    except ProtocolDesync:
        return True
    return encoded(tree) == data


@given(trees)
def test_decode_inverts_encode(tree):
    assert same(decode(encoded(tree)), tree)


@given(trees)
def test_decoded_arrays_are_aligned_writable_views(tree):
    data = encoded([tree, np.arange(5)])
    array = decode(data)[-1]
    assert array.flags.aligned and array.flags.writeable
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))


@given(trees, st.data())
def test_a_truncated_encoding_is_refused(tree, data):
    whole = encoded(tree)
    with pytest.raises(ProtocolDesync):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(trees, st.data())
def test_a_flipped_bit_is_refused_or_another_value(tree, data):
    whole = encoded(tree)
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert decodes_strictly(whole)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_a_value(data):
    assert decodes_strictly(bytearray(data))


@given(st.lists(st.sampled_from([b"N", b"l", b"t", b"d", b"a", b"s", b"b", b"i", *map(bytes, [[0], [1], [255]])])))
def test_random_codes_are_refused_or_a_value(codes):
    assert decodes_strictly(bytearray(b"".join(code + bytes(7) for code in codes)))


def test_arrays_are_sent_without_a_copy():
    array = np.arange(1000.0)
    assert any(np.shares_memory(np.frombuffer(buffer, np.uint8), array) for buffer in encode([1, array]))


@pytest.mark.parametrize("sizes", [(), (0,), (3,), (5, 0, 12)])
def test_joined_arrays_arrive_as_one(sizes):
    parts = [np.arange(size, dtype=np.uint8) for size in sizes]
    buffers = encode({"data": Joined(parts), "after": np.arange(3)})
    arrived = decode(bytearray(b"".join(buffers)))
    assert arrived["data"].tolist() == [value for part in parts for value in part.tolist()]
    assert np.array_equal(arrived["after"], np.arange(3))


def test_strided_arrays_arrive_equal():
    array = np.arange(24, dtype=np.int32).reshape(4, 6)[::2, ::-1].T
    assert np.array_equal(decode(encoded(array)), array)


@pytest.mark.parametrize(
    "value",
    [
        {1},
        1j,
        np.float64(1.0),
        np.datetime64("2020-01-01"),
        {1: 2},
        np.array([None]),
        np.array(["text"]),
        np.arange(3, dtype=">u8"),
        np.zeros(2, np.complex128),
        np.ma.masked_array([1, 2]),
        bytearray(b"x"),
        len,
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_types_are_not_sent(value):
    with pytest.raises(TypeError, match="cannot be sent"):
        encode([value])


def nested(depth):
    return [nested(depth - 1)] if depth else None


def test_depth_is_bounded_on_both_sides():
    assert decode(encoded(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    with pytest.raises(ValueError, match="nested"):
        encode(nested(MAX_DEPTH + 1))
    with pytest.raises(ProtocolDesync, match="nested"):
        decode(b"l\1\0\0\0\0\0\0\0" * 100_000 + b"N")


def word(value):
    return value.to_bytes(8, "little")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "1 bytes announced, 0 left"),
        (b"NN", "1 bytes after the end"),
        (b"?", "unknown code"),
        (b"b" + word(2**64 - 1), "bytes announced"),
        (b"l" + word(2**40), "items announced"),
        (b"i" + word(2) + b"\1\0", "integer of 2 bytes that needs 1"),
        (b"i" + word(0), "integer of 0 bytes"),
        (b"s" + word(1) + b"\xff", "invalid start byte"),
        (b"d" + word(2) + 2 * (word(1) + b"kN"), "repeated key"),
        (b"a\xff\0", "dtype code 255"),
        (b"a\0\xff", "255 dimensions"),
        (b"a\1\2" + word(2**32) + word(2**32), "shape too large"),
        (b"a\1\2" + word(0) + word(2**63), "shape too large"),
        (b"a\1\1" + word(2**40), "bytes announced"),
        (b"a\1\0\0\0\0\0\1\0", "padding"),
        (b"a\0\0\0\0\0\0\0\2", "neither 0 nor 1"),
    ],
)
def test_garbage_is_refused_for_a_reason_and_without_memory(data, message):
    tracemalloc.start()
    with pytest.raises(ProtocolDesync, match=message):
        decode(data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "item",
    [None, 300, 1 << 100, 0.5, "", "😀", b"bytes", [], [None], (None,), {}, {"k": None}]
    + [np.zeros(3), np.zeros(()), np.zeros((1,) * 16)],
    ids=repr,
)
def test_values_take_no_more_memory_than_they_are_counted_for(item):
    data = encoded([item] * 10_000)
    tracemalloc.start()
    decode(data)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with pytest.raises(ProtocolDesync, match="more memory than allowed"):
        decode(data, room=taken)


def test_integers_have_a_bound_on_both_sides():
    assert decode(encoded(1 << 8000)) == 1 << 8000
    with pytest.raises(ValueError, match="1024 bytes"):
        encode(1 << 8200)
    with pytest.raises(ProtocolDesync, match="an integer of 2000 bytes"):
        decode(b"i" + word(2000) + b"\1" * 2000)


def test_a_scalar_array_has_bytes_too():
    assert bytes(byte_view(np.array(7, np.uint16))) == b"\7\0"
    assert math.prod(decode(encoded(np.array(7))).shape) == 1
