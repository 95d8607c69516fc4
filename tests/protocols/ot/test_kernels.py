"""Kernels of oblivious transfer against their twins, interpreted, and against known answers."""

import copy
import importlib
import os
import pkgutil
import subprocess
import sys

import numba
import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

import protocols.ot.kernels
from protocols.ot.kernels import aes_blocks, carryless, children, fold, leaf_words, lpn, transpose

RNG = np.random.default_rng(3)


def words(*shape):
    return RNG.integers(0, 2**64, shape, np.uint64)


def block(text):
    return np.frombuffer(bytes.fromhex(text), np.uint64)


# Arguments of each compiled kernel; outputs are compared after the kernel has run.
CALLS = {
    transpose.transpose_compiled: [(words(128, width), words(64 * width, 2)) for width in (32, 96)],
    transpose._exchanged: [(*words(4), 4, np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0F0F0F0F0F0F0F0F))],
    transpose._enter: [(words(128, 64), 32, words(128, 32))],
    transpose._exchange: [(words(128, 32), 4, np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0F0F0F0F0F0F0F0F))],
    fold.fold_compiled: [
        (words(trees, 1 << k, w), words(trees, w), words(trees * k, w))
        for trees, k in ((32, 4), (16, 8), (3, 1), (3, 5))
        for w in (1, 6)
    ],
    fold._add: [tuple(words(6, 5))],
    children._put: [tuple(words(5, 32))],
    leaf_words._add: [
        (words(32), 20, words(32), words(40)),
        (words(16).view(np.uint32), 32, *words(2, 16).view(np.uint32)),
    ],
    leaf_words.add_at_compiled: [(words(5, 3), np.array([4, 0, 4, 2]), words(4, 3))],
    carryless._reduced: [tuple(words(2))],
    carryless.fold_bits_compiled: [
        (words(n).astype(np.uint8) & np.uint8(1), words(8), words(-(-n // 8))) for n in (1, 8, 21)
    ],
    children.mend: [
        (
            words(8, 5, 2),
            4,
            np.array([3, 0, 1, 2, 3]),
            np.array([0, 1, 1, 0, 1], np.uint8),
            words(5, 2),
            words(2, 5, 2),
            words(5, 2),
        )
    ],
}
TWINS = {
    carryless.fold_bits_compiled: carryless.fold_bits_plainly,
    transpose.transpose_compiled: transpose.transpose_plainly,
    fold.fold_compiled: fold.fold_plainly,
    leaf_words.add_at_compiled: leaf_words.add_at_plainly,
}


def test_every_kernel_is_here():
    kernels = set()
    for info in pkgutil.iter_modules(protocols.ot.kernels.__path__):
        # The processor's instructions have no body in Python: their callers are compared with `cryptography` and numpy.
        if info.name != "aes_blocks":
            module = importlib.import_module(f"protocols.ot.kernels.{info.name}")
            kernels |= {v for v in vars(module).values() if isinstance(v, CPUDispatcher)}
    kernels.discard(aes_blocks.copy_words)
    instructed = {leaf_words._add_words, children._double, fold._fold_streams, lpn.add_rows_compiled}
    assert kernels == {carryless._fold_planes, carryless._fold_blocks, *instructed, *CALLS}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda k: k.__name__)
def test_compiled_interpreted_and_plain_agree(kernel):
    for arguments in CALLS[kernel]:
        compiled, interpreted = copy.deepcopy(arguments), copy.deepcopy(arguments)
        kernel(*compiled)
        with np.errstate(over="ignore"):
            kernel.py_func(*interpreted)
        assert all(np.array_equal(a, b) for a, b in zip(compiled, interpreted, strict=True))
        if kernel in TWINS:
            plain = copy.deepcopy(arguments)
            TWINS[kernel](*plain)
            # `fold` overwrites its first argument.
            written = slice(1, None) if kernel is fold.fold_compiled else slice(None)
            assert all(np.array_equal(a, b) for a, b in zip(compiled[written], plain[written], strict=True))


def product_of_polynomials(a, b):
    """Multiply over GF(2^64), with Python's integers."""
    product = 0
    for bit in range(64):
        product ^= (a << bit) * (b >> bit & 1)
    for bit in range(126, 63, -1):
        product ^= (1 << 64 | 0b11011) << bit - 64 if product >> bit & 1 else 0
    return product


def test_products_over_the_field():
    a, b = words(2, 50)
    a[0], b[:2] = 2**64 - 1, 2**64 - 1
    expected = [product_of_polynomials(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    assert carryless.multiply_plainly(a, b).tolist() == expected
    # An inverse: X times X^63 + X^3 + X^2 + 1.
    assert carryless.multiply_plainly(np.array([2], np.uint64), np.array([1 << 63 | 0b1101], np.uint64)).tolist() == [1]


@pytest.mark.parametrize("count", (1, 7, 8, 15, 16, 17, 128, 200))
def test_sums_of_products_over_the_field(count, monkeypatch):
    planes, blocks, factors = words(5, count), words(count, 2), words(64)
    own = words(count)
    results = []
    for has in (carryless.HAS_CLMUL, False):
        monkeypatch.setattr(carryless, "HAS_CLMUL", has)
        results.append((carryless.fold_planes(planes, own), carryless.fold_blocks(blocks, factors)))
    assert all(np.array_equal(*both) for both in zip(*results, strict=True))
    products = [[product_of_polynomials(int(x), int(y)) for x, y in zip(row, own, strict=True)] for row in planes]
    assert results[0][0].tolist() == np.bitwise_xor.reduce(np.array(products, np.uint64), axis=1).tolist()
    assert results[0][1].shape == (2, -(-count // 64))


def test_a_transposed_bit_is_where_it_belongs():
    planes = np.zeros((128, 32), np.uint64)
    planes[77, 3] = np.uint64(1 << 5)
    blocks = np.empty((2048, 2), np.uint64)
    transpose.transpose(planes, blocks)
    assert np.argwhere(blocks).tolist() == [[3 * 64 + 5, 1]] and blocks[3 * 64 + 5, 1] == 1 << (77 - 64)


def test_aes_on_known_answers():
    # AESAVS, VarTxt and VarKey of 128 bits, number 0.
    encrypted = np.empty((2, 129, 2), np.uint64)
    schedules = aes_blocks.schedules(np.stack([block("00" * 16), block("80" + "00" * 15)]))
    aes_blocks.counters(schedules, 0, encrypted)
    assert encrypted[0, 128].tobytes().hex() == "3ad78e726c1ec02b7ebfe92b23d9ec34"
    assert encrypted[1, 0].tobytes().hex() == "0edd33d3c621e546455bd8ba1418bec8"
    # FIPS 197, appendix C.1, through the hash: s(x) is the plaintext.
    (schedule,) = aes_blocks.schedules(block("000102030405060708090a0b0c0d0e0f")[None])
    plain = block("00112233445566778899aabbccddeeff")
    x = np.array([plain[1], plain[0] ^ plain[1]])
    leaves = np.tile(x, (2, 17, 1))
    children.double(leaves, 1, schedule, np.empty((2, 17, 2), np.uint64))
    hashed = leaves[0] ^ plain
    assert {row.tobytes().hex() for row in hashed} == {"69c4e0d86a7b0430d8cdb78070b4c55a"}


@pytest.mark.parametrize("count", (0, 1, 15, 16, 17, 50))
def test_aes_agrees_with_cryptography(count):
    keys, blocks = words(3, 2), words(count, 2)
    schedules = aes_blocks.schedules(keys)
    compiled, plain = np.empty((2, 3, count, 2), np.uint64)
    aes_blocks.counters(schedules, 2**40 + 3, compiled)
    aes_blocks.counters_portably(keys, 2**40 + 3, plain)
    assert np.array_equal(compiled, plain)
    for size in (1, 2, 3, 6):
        assert np.array_equal(
            aes_blocks.tweaked_hashes(blocks, 2**63, size, schedules[1]),
            aes_blocks.hashes_portably(blocks, 2**63, size, keys[1]),
        )


@pytest.mark.parametrize("dtype", (np.uint8, np.uint32, np.uint64))
@pytest.mark.parametrize("trees", (1, 16, 37))
def test_words_of_leaves(dtype, trees):
    leaves, keys, per = words(5, trees, 2), words(1, 2), 16 // np.dtype(dtype).itemsize
    (schedule,) = aes_blocks.schedules(keys)
    by_leaf, by_tree = np.ones((2, 5, 3, per), dtype), np.ones((2, 3, trees * per), dtype)
    leaf_words.add_words(leaves, schedule, 4, by_leaf[0], by_tree[0])
    leaf_words.add_words_portably(leaves, keys[0], 4, by_leaf[1], by_tree[1])
    assert np.array_equal(*by_leaf) and np.array_equal(*by_tree) and (by_leaf != 1).any() and (by_tree != 1).any()


@pytest.mark.skipif(not aes_blocks.HAS_AES_NI, reason="no AES-NI")
@pytest.mark.parametrize("width", (128, aes_blocks._WIDTH))
def test_instructions_of_either_width(width):
    numbers, plain_hash, numbered_hash, stream = (
        aes_blocks._sixteen_blocks(width, *how)
        for how in ((False, True), (True, False), (True, True), (False, True, True))
    )

    @numba.njit
    def run(blocks, keys, first, part, out):
        numbers(out[0], 0, blocks, 2, keys, 22, first, part)
        plain_hash(out[1], 0, blocks, 2, keys, 22, first, part)
        numbered_hash(out[2], 0, blocks, 2, keys, 22, first, part)
        stream(out[3], 0, blocks, 2, keys, 22, first, part)

    keys, blocks, out, first = words(2, 2), words(17, 2), np.empty((4, 32), np.uint64), 2**40
    run(blocks.reshape(-1), aes_blocks.schedules(keys).reshape(-1), np.uint64(first), np.uint64(0), out)
    expected = np.empty((1, 16, 2), np.uint64)
    aes_blocks.counters_portably(keys[1:], first, expected)
    assert np.array_equal(out[0].reshape(16, 2), expected[0])
    swapped = np.zeros((16, 2), np.uint64)
    swapped[:, 1] = (np.uint64(first) + np.arange(16, dtype=np.uint64)).byteswap()
    assert np.array_equal(out[3].reshape(16, 2), aes_blocks._encrypted(swapped, keys[1]))
    assert np.array_equal(out[1].reshape(16, 2), aes_blocks.hashes_portably(blocks[1:], None, 2, keys[1]))
    assert np.array_equal(out[2].reshape(16, 2), aes_blocks.hashes_portably(blocks[1:], first, 2, keys[1]))


def test_nothing_compiled():
    """Check correlated OTs and pads without compilation, so that every twin replaces its kernel."""
    program = "from tests.protocols.ot.pairs import check_everything; check_everything()"
    subprocess.run([sys.executable, "-c", program], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, check=True)


@pytest.mark.parametrize("trees", [1, 7, 16, 26, 32])
def test_trees_double_in_place(trees):
    """Hashes of 16 blocks, wherever a level of the trees ends among them."""
    for size in (1, 2, 8):
        (schedule,) = aes_blocks.schedules(words(1, 2))
        leaves = words(2 * size, trees, 2)
        compiled, plain = leaves.copy(), leaves.copy()
        sums, others = np.empty((2, 2, trees, 2), np.uint64)
        children.double(compiled, size, schedule, sums)
        children.double_portably(plain, size, schedule, others)
        assert np.array_equal(compiled, plain) and np.array_equal(sums, others)
        left = aes_blocks.hashes_portably(leaves[:size].reshape(-1, 2), None, 2, schedule).reshape(size, trees, 2)
        assert np.array_equal(compiled[:size], left) and np.array_equal(compiled[size:], leaves[:size] ^ left)


@pytest.mark.parametrize("count", [1, 7, 8, 100])
def test_sums_of_rows(count):
    schedules, table, leaves = aes_blocks.schedules(words(1, 2)), words(64, 2), words(count, 2)
    (compiled, plain), bits = np.empty((2, count, 2), np.uint64), np.empty((2, count), np.uint8)
    lpn.add_rows(compiled, leaves, table, schedules, 1000, bits[0])
    lpn.add_rows_plainly(plain, leaves, table, schedules, 1000, bits[1])
    assert np.array_equal(compiled, plain) and np.array_equal(*bits) and np.array_equal(bits[0], compiled[:, 0] & 1)
    whole = lpn.places(schedules, 0, 2000, 64)
    assert np.array_equal(lpn.places(schedules, 1000, count, 64), whole[1000 : 1000 + count])
    assert len(np.unique(whole)) == 64 and abs(whole.mean() - 31.5) < 1
