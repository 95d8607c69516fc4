"""Every numba kernel gives the same result as its body run by the interpreter."""

import copy
import importlib
import pkgutil

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

import mpc.kernels
from mpc.kernels import (
    aes,
    all_pairs,
    borrow,
    comparison_keys,
    linear_map,
    matrix_product,
    parity,
    products,
    trigonometry,
    truncation,
    windows,
    wrap,
)
from mpc.rings import GF2

RNG = np.random.default_rng(1)


def words(*shape, dtype=np.uint64, bits=64):
    return (RNG.integers(0, 2**63, shape, dtype=np.uint64) * np.uint64(2) >> np.uint64(64 - bits)).astype(dtype)


BINS = RNG.integers(0, 5, (7, 3)).astype(np.uint16)
CHILDREN = words(6, 4, 2), words(6, 4, 2)
ON = words(2, 6, bits=1)
TABLES = words(6, 3, 4, dtype=np.uint8, bits=8)

CALLS = {
    linear_map.add_ring_products: [
        (words(2, v, 4, dtype=t), words(2, 9, 4, dtype=t), words(2, v, 9, dtype=t))
        for t in (np.uint32, np.uint64)
        for v in (3, 6)
    ],
    linear_map._four: [(words(9), i) for i in (0, 6, 8)],
    linear_map.bit_product: [(words(5, 2), words(3, 2))],
    linear_map.histogram: [(BINS, 5, words(2, 7, dtype=np.uint32), block) for block in (3, 7)],
    linear_map.take_bits: [(BINS, 5, words(2, 15, dtype=np.uint8, bits=1))],
    linear_map.subtract_one_hot: [(BINS, 5, words(7, 15, dtype=np.uint32))],
    linear_map.flip_one_hot: [(BINS, 5, words(7, 1))],
    all_pairs.differences: [(words(3, 4, dtype=t, bits=bits),) for t, bits in ((np.uint16, 16), (np.uint64, 64))],
    all_pairs.signed_products: [
        (words(6), 14, words(6, dtype=np.uint32, bits=2 * m - 1), m, width) for m in (1, 3, 6) for width in (1, 2, 4, 8)
    ],
    all_pairs.to_look_up: [
        (words(3, 4, dtype=np.uint8, bits=8), words(3, 4, dtype=t), 4) for t in (np.uint16, np.uint64)
    ],
    all_pairs.to_spread: [(words(3, 4, dtype=np.uint8, bits=8), words(3, 4, 5, dtype=np.uint8, bits=1), 4)],
    all_pairs.count_wins: [(*words(3, 18), place, 3, 4, first) for place in (0, 63) for first in (True, False)],
    all_pairs.look_up: [
        (words(3, 3, 3, 2, dtype=t), words(3, 4, dtype=np.uint8, bits=2), *words(2, 3, 4, dtype=t), first)
        for t in (np.uint16, np.uint64)
        for first in (True, False)
    ],
    all_pairs.spread: [
        (
            words(3, 4, 3, 5, dtype=np.uint8, bits=1),
            words(3, 4, dtype=np.uint8, bits=2),
            words(3, 4, dtype=np.uint8, bits=1),
            *words(2, 3, 4, 5, dtype=np.uint8, bits=1),
        )
    ],
    borrow.fill_thermometers: [
        (np.empty((6, 3, size), dtype), words(6, bits=3 * c), c)
        for c, dtype, size in ((3, np.uint8, 1), (5, np.uint32, 1), (7, np.uint64, 2))
    ],
    borrow.chunk_bits: [(words(6, bits=15), words(2), TABLES, 15, 5, 3, first) for first in (True, False)],
    borrow.mask_products: [
        (words(6, dtype=np.uint32, bits=2 * m - 1), m, borrow.product_words(m)) for m in (3, 6, 7, 9)
    ],
    borrow.chosen_products: [(m, borrow.product_words(m)) for m in (3, 7)],
    borrow.borrows: [
        (words(6, dtype=np.uint32, bits=2 * m - 1), words(6, borrow.product_words(m)), m, *borrow.choices(m))
        for m in (3, 7, 9)
    ],
    borrow.flip_to_signs: [
        (words(6, 2, dtype=np.uint8, bits=1), words(6, dtype=np.uint8, bits=1), words(6), words(2), bits, first)
        for bits in (2, 42, 64)
        for first in (True, False)
    ],
    borrow._words: [(1,), (64,), (65,)],
    borrow._whole: [(1,), (63,), (64,), (128,)],
    borrow.ring_mask_products: [
        (words(6, dtype=np.uint32, bits=2 * m - 1), m, 3 * 2 ** (m - 1) - 2) for m in (1, 3, 8)
    ],
    borrow.ring_borrows: [
        (words(6, dtype=np.uint32, bits=2 * m - 1), words(6, 3 * 2 ** (m - 1) - 2, dtype=t), words(6), m)
        for m in (1, 3, 8)
        for t in (np.uint8, np.uint64)
    ],
    products.product: [(*words(5, 7, dtype=t), first) for t in (np.uint32, np.uint64) for first in (True, False)],
    products.square: [(*words(3, 7, dtype=t), first) for t in (np.uint32, np.uint64) for first in (True, False)],
    products.conjunction: [(*words(5, 7, dtype=t), first) for t in (np.uint8, np.uint64) for first in (True, False)],
    products.powers: [(*words(4, 7), first) for first in (True, False)],
    products.product_with_square: [(*words(7, 7), first) for first in (True, False)],
    products.flipped: [
        (words(7, dtype=np.uint8, bits=1), words(7, dtype=t), first)
        for t in (np.uint8, np.uint64)
        for first in (True, False)
    ],
    products.choice: [
        (words(7, dtype=np.uint8, bits=1), *words(4, 7, dtype=t), first)
        for t in (np.uint8, np.uint64)
        for first in (True, False)
    ],
    products.weighted_choice: [
        (words(6, 3, dtype=np.uint8, bits=1), words(6), words(6, 3), words(6), words(6, 3), words(3), first)
        for first in (True, False)
    ],
    matrix_product.share_of_product: [
        (*words(3, n, k, dtype=t), *words(3, k, m, dtype=t), words(n, m, dtype=t), first)
        for t in (np.uint8, np.uint64)
        for n, k, m in ((1, 2, 1), (3, 8, 2), (2, 18, 5), (0, 10, 4), (3, 0, 2))
        for first in (True, False)
    ],
    matrix_product.dealt_product: [
        (*words(2, n, k, dtype=t), *words(2, k, m, dtype=t))
        for t in (np.uint8, np.uint64)
        for n, k, m in ((1, 2, 1), (3, 8, 2), (2, 18, 5), (0, 10, 4), (3, 0, 2))
    ],
    matrix_product._left: [(*words(3, 5, 4), first) for first in (True, False)],
    matrix_product._right: [(*words(3, 4, 5), first) for first in (True, False)],
    matrix_product._dealt_left: [words(2, 5, 4)],
    matrix_product._dealt_right: [words(2, 4, 5)],
    matrix_product._room: [(words(0, 3, dtype=t), 8) for t in (np.uint8, np.uint64)],
    matrix_product._added_product: [
        (words(n, m, dtype=t), words(n, k, dtype=t), words(k, m, dtype=t))
        for t in (np.uint8, np.uint64)
        for n, k, m in ((1, 1, 1), (3, 8, 2), (2, 17, 5), (0, 9, 4), (3, 0, 2))
    ],
    matrix_product._less_pairs: [
        (words(3, 5, dtype=t), words(3, 8, dtype=t), words(8, 5, dtype=t), words(3, 5, dtype=t))
        for t in (np.uint8, np.uint64)
    ],
    truncation.shift_opened: [(*words(3, 7), shift, first) for shift in (1, 16, 62) for first in (True, False)],
    windows.one_hot: [(words(5), np.array([0, 5, 54]), width) for width in (1, 6, 8, 10)],
    parity.parity: [(np.uint64(x),) for x in (0, 7, 1 << 63, 2**63 + 1, 2**64 - 1)],
    windows.block_parities: [
        (words(5, size), np.arange(5) * (1 << bits) // 5, bits) for bits, size in ((1, 1), (5, 1), (6, 1), (8, 4))
    ],
    windows.turned: [(words(1 << width, bits=9), 9) for width in (1, 6, 8)],
    windows.look_up: [
        (words(5), np.array([0, 5, 54]), words(5, 3, size), words(2, 1 << width, size, outputs), np.array([0, 1, 0]))
        for width, size, outputs in ((1, 1, 1), (6, 1, 9), (8, 4, 42))
    ],
    wrap.mask_tops: [
        (words(7, dtype=t, bits=8 * np.dtype(t).itemsize), np.uint64(1 << 30), words(7, dtype=np.uint8, bits=8))
        for t in (np.uint32, np.uint64)
    ],
    wrap.add_halves: [
        (words(9, dtype=t, bits=8 * np.dtype(t).itemsize), np.uint64(1 << 30))
        + tuple(words(9, dtype=np.uint8, bits=1) for _ in "go")
        + (words(9, dtype=np.uint8, bits=8), words(9, bits=64 - up), down, up, np.uint64(2**64 - 5), first)
        for t, down, up in ((np.uint64, 1, 63), (np.uint64, 12, 52), (np.uint64, 62, 2), (np.uint32, 0, 32))
        for first in (True, False)
    ],
    trigonometry._sine_cosine: [(0,), (12345,), (2**28 - 3,)],
    trigonometry.harmonics: [(words(4, dtype=np.uint32, bits=28),)],
    trigonometry.series: [(words(4, dtype=np.uint32, bits=28), words(11, 2, 4), RNG.normal(size=(4, 2, 11)) * 1e7)],
    comparison_keys._generate_level: [
        (*CHILDREN, words(2, 6, 2), ON, words(6, bits=1), words(6, 2), words(6, width))
        + (words(6, 2), words(6, dtype=np.uint8, bits=3), words(6, width), width == 0)
        for width in (0, 2)
    ],
    comparison_keys._evaluate_level: [
        (words(12, 4, 2), words(6, 2, 2), words(6, 2, bits=1), words(6, 2, bits=1), words(6, 2, max(1, width)))
        + (words(6, 2), words(6, dtype=np.uint8, bits=3), words(6, width), owner, width == 0)
        for width in (0, 2)
        for owner in (0, 1)
    ],
}


def test_every_kernel_is_covered():
    kernels = set()
    for info in pkgutil.iter_modules(mpc.kernels.__path__):
        # Processor instructions have no body in Python: test_comparison_keys compares AES with `cryptography`.
        if info.name != "aes":
            module = importlib.import_module(f"mpc.kernels.{info.name}")
            kernels |= {v for v in vars(module).values() if isinstance(v, CPUDispatcher)}
    # These call AES; test_all_levels_without_aes compares them.
    assert kernels - set(CALLS) == {comparison_keys._generate_levels, comparison_keys._evaluate_levels}


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("kernel", CALLS, ids=lambda k: k.__name__)
def test_compiled_and_interpreted_agree(kernel):
    for arguments in CALLS[kernel]:
        compiled, interpreted = copy.deepcopy(arguments), copy.deepcopy(arguments)
        results = kernel(*compiled), kernel.py_func(*interpreted)
        for mine, theirs in (results, (compiled, interpreted)):
            if isinstance(mine, tuple):
                assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
            else:
                assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("m", (1, 4, 5, 6))
@pytest.mark.parametrize("width", (1, 2, 8))
def test_signed_products_from_a_table(m, width):
    arguments = words(50), 14, words(50, dtype=np.uint32, bits=2 * m - 1), m, width
    assert np.array_equal(all_pairs.look_up_signed_products(*arguments), all_pairs.signed_products(*arguments))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_products_of_rings(dtype):
    """Whatever the order of arrays in memory, and for blocks of rows that begin within a matrix."""
    vectors, matrices = words(3, 5, 6, dtype=dtype), words(3, 4, 6, dtype=dtype).swapaxes(1, 2)
    expected = np.einsum("bvi,bio->bvo", vectors, matrices, dtype=dtype)
    assert np.array_equal(linear_map.ring_products(vectors, matrices), expected)
    out = words(3, 5, 4, dtype=dtype)
    matrix, rows, of_all = matrices[0].copy(), vectors[0], out.copy()
    for i in range(6):
        of_all[(i + 2) // 3] += rows[:, i, None] * matrix[i]
    linear_map.add_block_products(out, matrix, rows, 2, 3)
    assert np.array_equal(out, of_all)


@pytest.mark.parametrize("n", [0, 1, 3, 254, 255, 256, 257, 509, 510, 511, 800])
@pytest.mark.parametrize("m", [1, 7, 8, 9, 64])
def test_products_of_bits(n, m):
    """For sums of bits that fill a byte, and rows that do not fill a word."""
    x, y = words(3, 5, n, bits=1).astype(np.uint8), words(3, m, n, bits=1).astype(np.uint8).swapaxes(1, 2)
    x[0], y[0] = 1, 1
    product = GF2.matmul(x, y)
    assert product.dtype == np.uint8 and np.array_equal(product, (x.astype(int) @ y) % 2)


@pytest.mark.parametrize("width", [0, 2])
def test_all_levels_without_aes(monkeypatch, width):
    """Levels in compiled code, and one after the other with AES from a library."""
    roots, alpha, beta, x = words(2, 6, 2), words(6, bits=9), words(6, width), words(6, 3, bits=9)

    def made():
        keys = comparison_keys.generate(roots, alpha, beta, 9, bytes(16))
        found = [comparison_keys.evaluate(p, roots[p], keys, x, bytes(16)) for p in (0, 1)]
        return [keys.seeds, keys.control, keys.values, keys.last, *found]

    compiled = made()
    monkeypatch.setattr(aes, "HAS_AES_NI", False)
    assert all(np.array_equal(a, b) for a, b in zip(compiled, made(), strict=True))
