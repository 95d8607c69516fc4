"""Computations of two parties by transfers: all cases in small rings, odd shapes, and faults."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from mpc.offline import one_hot_transfers, transfers
from mpc.rings import GF2, Z8, Z16, Z64, PackedBits, PackedIntegers, Z2k, integers, packed_bits
from mpc.rounds import parallel
from mpc.words import U8, U16, U32, U64, low_bits, smallest_word
from tests.mpc.offline.ideal_transfers import Ideal, shared

RNG = np.random.default_rng(4)


def small(bits):
    return integers(U8, bits)


def every(*bits):
    """Return all combinations of words of these widths as a table, one array per word."""
    return [np.array(column, U8) for column in zip(*itertools.product(*(range(1 << b) for b in bits)), strict=True)]


def made(function, *halves, ideal=None, **named):
    """Return the two results of function(rank, *that party's half of each argument)."""
    ideal = ideal or Ideal()
    return ideal.run([function(rank, *(pair[rank] for pair in halves), **named) for rank in (0, 1)])


def added(ring, results):
    whole = ring.add(*results)
    return low_bits(whole, ring.bits) if isinstance(ring, Z2k) else whole


def split(ring, values):
    return shared(ring, values, int(RNG.integers(1 << 30)))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_products_of_all_shares_of_small_words(k):
    ring = small(k)
    a0, a1, b0, b1 = every(k, k, k, k)
    wanted = low_bits((a0 + a1) * (b0 + b1), k)
    assert np.array_equal(added(ring, made(transfers.multiply, (a0, a1), (b0, b1), ring=ring)), wanted)
    assert np.array_equal(
        added(ring, made(transfers.multiply, (a0, a1), (a0, a1), ring=ring)), low_bits((a0 + a1) ** 2, k)
    )
    for chooser in (0, 1):
        own = a0, b0[:, None]
        parts = own if chooser == 0 else own[::-1]
        results = made(transfers.multiply_private, (chooser,) * 2, parts, width=1, ring=ring)
        assert np.array_equal(added(ring, results)[:, 0], low_bits(a0 * b0, k))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_bits_times_all_shares_of_small_words(k):
    ring = small(k)
    b0, b1, a0, a1 = every(1, 1, k, k)
    wanted = (b0 ^ b1) * low_bits(a0 + a1, k)
    assert np.array_equal(added(ring, made(transfers.choose, (b0, b1), (a0, a1), ring=ring)), wanted)
    assert np.array_equal(added(ring, made(transfers.lift, (b0, b1), ring=ring)), b0 ^ b1)
    assert np.array_equal(added(ring, made(transfers.multiply_bits, (b0, b1), ring=ring)), b0 & b1)
    w0, w1 = every(4, 4)
    assert np.array_equal(added(ring, made(transfers.join, (w0, w1), ring=ring)), low_bits(w0 ^ w1, k))


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_bits_times_packed_integers(width):
    ring = PackedIntegers(width)
    bits, words = RNG.integers(0, 2, 50).astype(U8), low_bits(RNG.integers(0, 256, (50, 11)).astype(U8), width)
    results = made(transfers.choose_packed, split(GF2, bits), split(small(width), words), ring=ring)
    assert np.array_equal(added(small(width), results), bits[:, None] * words)


def test_conjunctions_of_all_shares_of_bits():
    a0, a1, b0, b1 = every(1, 1, 1, 1)
    wanted = (a0 ^ a1) & (b0 ^ b1)
    assert np.array_equal(np.bitwise_xor(*made(transfers.and_bits, (a0, a1), (b0, b1), ring=GF2)), wanted)
    strings = b0[:, None], b1[:, None]
    assert np.array_equal(np.bitwise_xor(*made(transfers.and_each, (a0, a1), strings))[:, 0], wanted)
    for dtype in (U8, U16, U32, U64):
        x, y = (RNG.integers(0, 1 << 8 * dtype.itemsize, (3, 5), dtype) for _ in "xy")
        ring = packed_bits(dtype)
        results = made(transfers.and_bits, split(ring, x), split(ring, y), ring=ring)
        assert np.array_equal(np.bitwise_xor(*results), x & y)


SHAPES = [
    ((3,), (3,)),
    ((3, 1), (1, 4)),
    ((2, 3, 1), (2, 1, 5)),
    ((4,), (2, 3, 4)),
    ((), (3,)),
    ((0,), (0,)),
    ((0, 3), (3,)),
]


@pytest.mark.parametrize(("first", "second"), SHAPES + [(b, a) for a, b in SHAPES])
def test_shapes_that_broadcast(first, second):
    ring = Z2k(U64, 29)
    a, b = (low_bits(RNG.integers(0, 1 << 63, shape, U64), 29) for shape in (first, second))
    bits, other = (RNG.integers(0, 2, shape).astype(U8) for shape in (first, second))
    results = made(transfers.multiply, split(ring, a), split(ring, b), ring=ring)
    assert np.array_equal(added(ring, results), low_bits(a * b, 29))
    results = made(transfers.choose, split(GF2, bits), split(ring, b), ring=ring)
    assert np.array_equal(added(ring, results), bits * b)
    results = made(transfers.and_bits, split(GF2, bits), split(GF2, other), ring=GF2)
    assert np.array_equal(np.bitwise_xor(*results), bits & other)


@pytest.mark.parametrize("ring", [Z8, Z16, Z64, Z2k(U64, 33), Z2k(U32, 9)], ids=repr)
def test_wide_rings(ring):
    draw = [low_bits(RNG.integers(0, 1 << 63, (7, 2), U64).astype(ring.dtype) * 3, ring.bits) for _ in "ab"]
    a, b = draw
    results = made(transfers.multiply, split(ring, a), split(ring, b), ring=ring)
    assert np.array_equal(added(ring, results), low_bits(a * b, ring.bits))
    words = RNG.integers(0, 1 << 63, 7, U64)
    results = made(transfers.join, split(packed_bits(U64), words), ring=ring)
    assert np.array_equal(added(ring, results), low_bits(words.astype(ring.dtype), ring.bits))


@pytest.mark.parametrize(("n", "k", "m"), [(1, 1, 1), (2, 3, 5), (5, 3, 2), (4, 0, 2), (0, 2, 3), (3, 2, 3)])
@pytest.mark.parametrize("left", [0, 1])
def test_private_matrices(n, k, m, left):
    ring = Z2k(U64, 21)
    a, b = RNG.integers(0, 1 << 21, (n, k), U64), RNG.integers(0, 1 << 21, (k, m), U64)
    halves = [(a, np.zeros_like(b)), (np.zeros_like(a), b)]
    of = [halves[0], halves[1]] if left == 0 else [halves[1], halves[0]]
    results = made(transfers.matmul_private, (left, left), *zip(*of, strict=True), ring=ring)
    assert np.array_equal(added(ring, results), low_bits(a @ b, 21))


@pytest.mark.parametrize("most", [1, 300, 1000])
def test_long_products_in_pieces(monkeypatch, most):
    monkeypatch.setattr(transfers, "_MOST", most)
    ring = Z2k(U64, 21)
    a, b = RNG.integers(0, 1 << 21, (7, 3), U64), RNG.integers(0, 1 << 21, (3, 8), U64)
    none = np.zeros_like(a), np.zeros_like(b)
    ideal = Ideal()
    results = made(transfers.matmul_private, (0, 0), (a, none[0]), (none[1], b), ideal=ideal, ring=ring)
    assert np.array_equal(added(ring, results), low_bits(a @ b, 21))
    # The 21 choices of a have 21 bits each, times 8 words; pieces are whole rows where these fit.
    assert ideal.waves == {1: 21, 300: 21, 1000: 7}[most]
    assert max(one.count * one.width for one in ideal.asked) <= max(most, 8 * 8)


@pytest.mark.long
def test_a_product_of_many_words_takes_no_more_memory():
    """16 million elementary products, which take a party 8 GB if their messages are made at once."""
    program = (
        "import numpy as np\n"
        "from tests.mpc.offline.ideal_transfers import Ideal\n"
        "from mpc.offline import transfers\n"
        "from mpc.rings import Z64\n"
        "from tests.memory import peak\n"
        "a = np.arange(64009, dtype=np.uint64).reshape(253, 253)\n"
        "given = [(a, a * 0), (a * 0, a)]\n"
        "both = [transfers.matmul_private(rank, 0, *given[rank], Z64) for rank in (0, 1)]\n"
        "first, second = Ideal().run(both)\n"
        "assert np.array_equal(first + second, a @ a)\n"
        "print(peak())"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(child.stdout) < 3e9


@pytest.mark.parametrize("bits", range(1, 13))
def test_one_hots_of_bits(bits):
    index = np.arange(1 << min(bits, 8)) * 37 % (1 << bits)
    results = made(one_hot_transfers.one_hot, split(packed_bits(U64), index.astype(U64)), bits=bits)
    assert results[0].dtype == smallest_word(min(64, 1 << bits))
    assert np.array_equal(transfers.unpack(results[0] ^ results[1], 1 << bits), np.arange(1 << bits) == index[:, None])
    data = (results[0] ^ results[1]).view(U8)
    assert np.unpackbits(data).sum() == len(index), "bits above the entries must be 0"


def windows(bits):
    """Yield all ways to cut this number of bits."""
    if not bits:
        return [()]
    return [(width, *rest) for width in range(1, bits + 1) for rest in windows(bits - width)]


def check_cut(x0, x1, widths, hot, ideal=None):
    (hots, carries), (others, more) = made(one_hot_transfers.one_hots, (x0, x1), ideal=ideal, widths=widths, hot=hot)
    assert len(hots) == hot
    x, low = x0 + x1, 0
    for j, width in enumerate(widths):
        end = low + width
        mask = (1 << end) - 1
        carry = [(int(a) & mask) + (int(b) & mask) >> end for a, b in zip(x0, x1, strict=True)]
        assert np.array_equal((carries ^ more)[:, j], carry), (widths, j)
        if j < hot:
            value = low_bits(x >> x.dtype.type(low), width)
            whole = hots[j] ^ others[j]
            assert whole.dtype == smallest_word(min(64, 1 << width))
            assert np.array_equal(transfers.unpack(whole, 1 << width), np.arange(1 << width) == value[:, None])
            above = one_hot_transfers.above(hots[j]) ^ one_hot_transfers.above(others[j])
            assert np.array_equal(transfers.unpack(above, 1 << width), np.arange(1 << width) < value[:, None])
        low = end


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_all_cuts_of_all_shares_of_small_words(bits):
    x0, x1 = every(bits, bits)
    for widths in windows(bits):
        for hot in range(len(widths) + 1):
            check_cut(x0, x1, widths, hot)


@pytest.mark.parametrize(
    ("widths", "hot"),
    [
        ((5,), 1),
        ((8,), 1),
        ((5, 5, 5), 3),
        ((7, 7, 7, 2), 4),
        ((9, 9, 8, 37), 3),
        ((16, 4), 2),
        ((1, 62), 1),
        ((64,), 0),
    ],
)
def test_cuts_of_long_words(widths, hot):
    x0 = RNG.integers(0, 1 << 64, 200, U64)
    x1 = np.concatenate([RNG.integers(0, 1 << 64, 100, U64), ~x0[100:150], -x0[150:]])
    check_cut(x0, x1, widths, hot)


@pytest.mark.parametrize("k", range(6))
def test_products_over_all_subsets(k):
    bits = (np.arange(1 << k)[:, None] >> np.arange(k) & 1).astype(U8)
    results = made(one_hot_transfers.subset_products, split(GF2, bits))
    subsets = np.arange(1 << k)
    assert np.array_equal(np.bitwise_xor(*results), subsets & subsets[:, None] == subsets)


def test_parallel_computations_take_the_waves_of_the_longest():
    bits = RNG.integers(0, 2, 5).astype(U8)
    half = split(GF2, bits)

    def both(rank, own):
        return parallel(
            transfers.lift(rank, own, Z8), one_hot_transfers.subset_products(rank, np.stack([own] * 4, axis=1))
        )

    ideal = Ideal()
    (a, p), (b, q) = made(both, half, ideal=ideal)
    assert np.array_equal(a + b, bits) and np.array_equal((p ^ q)[:, -1], bits) and ideal.waves == 3


FAULTS = {
    "multiply": lambda ideal: made(transfers.multiply, *_words(small(3)), ideal=ideal, ring=small(3)),
    "choose": lambda ideal: made(transfers.choose, _bits(), _words(small(3))[0], ideal=ideal, ring=small(3)),
    "lift": lambda ideal: made(transfers.lift, _bits(), ideal=ideal, ring=small(3)),
    "join": lambda ideal: made(transfers.join, _words(small(4))[0], ideal=ideal, ring=small(4)),
    "one_hot": lambda ideal: made(one_hot_transfers.one_hot, _words(small(4))[0], ideal=ideal, bits=4),
    "one_hots": lambda ideal: [
        [*hots, carries]
        for hots, carries in made(one_hot_transfers.one_hots, _words(small(5))[0], ideal=ideal, widths=(3, 2), hot=2)
    ],
    "subset_products": lambda ideal: made(
        one_hot_transfers.subset_products, shared(GF2, np.ones((1, 4), U8)), ideal=ideal
    ),
}


def _bits():
    return shared(GF2, np.array([1, 0], U8))


def _words(ring):
    return [shared(ring, np.array(values, U8)) for values in ([3, 6], [5, 7])]


def _whole(results):
    """Flatten both parties' results to bytes: their sum is right modulo the ring if the shares are."""
    first, second = (np.concatenate([np.ravel(a) for a in (r if isinstance(r, list) else [r])]) for r in results)
    return first, second


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_bit_in_any_transfer_is_detected(name):
    right = Ideal()
    first, second = _whole(FAULTS[name](right))
    xor = name in ("one_hot", "one_hots", "subset_products")
    whole = first ^ second if xor else (first + second) & U8.type({"join": 15}.get(name, 7))
    assert right.elements
    for fault in range(right.elements):
        first, second = _whole(FAULTS[name](Ideal(fault=fault)))
        wrong = first ^ second if xor else (first + second) & U8.type({"join": 15}.get(name, 7))
        assert not np.array_equal(wrong, whole), fault


def test_parities():
    for dtype in (U8, U16, U32, U64):
        words = RNG.integers(0, 1 << 8 * dtype.itemsize, 100, dtype)
        assert np.array_equal(one_hot_transfers.parity(words), [int(w).bit_count() & 1 for w in words])


def test_packed_strings_need_the_ring_of_their_words():
    bits, strings = RNG.integers(0, 2, 6).astype(U8), RNG.integers(0, 1 << 16, (6, 3), U16)
    results = made(transfers.and_each, split(GF2, bits), split(PackedBits(U16), strings), ring=packed_bits(U16))
    assert np.array_equal(results[0] ^ results[1], bits[:, None] * strings)
