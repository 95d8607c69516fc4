"""Pads: both sides' values, the numbering, and that no input of the permutation is used twice under a key."""

import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from protocols.ot.kernels import aes_blocks
from protocols.ot.pads import pads, pads_of_both

RNG = np.random.default_rng(9)
KEY = bytes(range(16))
EPOCH = 1 << 14


def words(*shape):
    return RNG.integers(0, 2**64, shape, np.uint64)


@pytest.mark.parametrize("first", (0, EPOCH - 3, 5 * EPOCH, 2**40 - 1, 2**56 - 40))
@pytest.mark.parametrize("size", (1, 2, 5, 34))
def test_a_pad_depends_only_on_its_block_and_number(first, size):
    blocks = words(40, 2)
    whole = pads(blocks, first, size, KEY)
    assert whole.shape == (40, size)
    one_by_one = [pads(blocks[i : i + 1], first + i, size, KEY) for i in range(40)]
    assert np.array_equal(whole, np.concatenate(one_by_one))
    assert np.array_equal(whole, pads(blocks, first, size + 3, KEY)[:, :size])
    assert not (whole == pads(blocks, first, size, KEY[::-1])).any()
    if first >= EPOCH:
        assert not (whole == pads(blocks, first - EPOCH, size, KEY)).any()


@pytest.mark.parametrize("number", (3, 5 * EPOCH + 9))
def test_the_formula(number):
    def aes(key, low, high):
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        return encryptor.update(struct.pack("<QQ", low, high))

    ((low, high),) = blocks = words(1, 2)
    linear, expected = (int(low ^ high), int(low)), []
    for part in range(33):
        key = aes(KEY, (number >> 14) + (part // 16 << 42), 0)
        hashed = struct.unpack("<QQ", aes(key, linear[0] ^ number, linear[1] ^ part % 16))
        expected += [hashed[0] ^ linear[0], hashed[1] ^ linear[1]]
    assert pads(blocks, number, 66, KEY).tolist() == [expected]


def test_equal_blocks_have_pads_that_differ():
    assert np.unique(pads(np.zeros((3 * EPOCH, 2), np.uint64), 7, 1, KEY)).size == 3 * EPOCH


def test_no_blocks():
    assert pads(words(0, 2), EPOCH, 4, KEY).shape == (0, 4)


def test_no_key_and_tweak_twice(monkeypatch):
    used, plain = set(), aes_blocks.tweaked_hashes

    def remembering(blocks, first, size, schedule):
        for i in range(first, first + blocks.shape[0]):
            for j in range(-(-size // 2)):
                assert (schedule.tobytes(), i, j) not in used and i >> 14 == first >> 14 and j < 16
                used.add((schedule.tobytes(), i, j))
        return plain(blocks, first, size, schedule)

    monkeypatch.setattr(aes_blocks, "tweaked_hashes", remembering)
    number = EPOCH - 100
    for count in (1, 99, 150, 2 * EPOCH, 1):
        pads(words(count, 2), number, 34, KEY)
        number += count
    assert len(used) == 17 * (number - EPOCH + 100)
    assert len({key for key, _, _ in used}) == 8


@pytest.mark.parametrize("first", (-1, 2**56 - 2))
def test_numbers_do_not_wrap(first):
    with pytest.raises(AssertionError, match="twice"):
        pads(words(3, 2), first, 1, KEY)


def test_a_fault_in_the_hash_is_seen(monkeypatch):
    """A hash without the number gives equal blocks equal pads."""
    plain = aes_blocks.tweaked_hashes
    monkeypatch.setattr(aes_blocks, "tweaked_hashes", lambda blocks, first, *rest: plain(blocks, 0, *rest))
    with pytest.raises(AssertionError):
        test_a_pad_depends_only_on_its_block_and_number(5 * EPOCH, 1)


@pytest.mark.parametrize("words", [1, 2, 3, 40])
def test_pads_of_both_blocks(words):
    """Over the end of a period, for any number of blocks."""
    rng = np.random.default_rng(5)
    for count in (0, 1, 16, 45):
        blocks, delta = rng.integers(0, 2**63, (count, 2), np.uint64), rng.integers(0, 2**63, 2, np.uint64)
        flips = rng.integers(0, 2, count).astype(np.uint8)
        zero, other = pads_of_both(blocks, flips, delta, (1 << 14) - 9, words, bytes(16))
        flipped = blocks ^ flips[:, None].astype(np.uint64) * delta
        for found, of in ((zero, flipped), (other, flipped ^ delta)):
            assert np.array_equal(found, pads(of, (1 << 14) - 9, words, bytes(16)))
