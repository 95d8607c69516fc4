"""AES-128 on many blocks: counters under many keys, and the hash pi(s(x) xor tweak) xor s(x) under one key.

Sixteen blocks are in flight: eight 256-bit VAES instructions, or sixteen AES-NI instructions, both through LLVM;
on other processors `cryptography` encrypts. A block is uint64[2], little-endian. s(x) = (x_0 xor x_1, x_0) is an
orthomorphism: s and x -> s(x) xor x are both linear permutations.

Source     FIPS 197; the hash: Guo, Katz, Wang and Yu, IEEE S&P 2020
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mpc.kernels.aes import HAS_AES_NI, schedule
from mpc.kernels.compiled import EXTENSIONS

_ROUNDS = 10
_IN_FLIGHT = 16


def _sixteen_blocks(width: int, hashed: bool, numbered: bool, big_endian: bool = False) -> Any:
    """Return a function that encrypts 16 block numbers, or hashes 16 blocks, with instructions on `width` bits."""
    lanes = width // 64
    suffix = "" if width == 128 else f".{width}"

    @intrinsic
    def encrypt(
        typingctx: Any, out: Any, to: Any, blocks: Any, start: Any, keys: Any, key: Any, number: Any, part: Any
    ) -> Any:
        """Write to out[to:] from blocks[start:], with the schedule keys[key:]; all are uint64[:], indexed by word.

        Block i has the number (number + i, part); if big-endian, as one 128-bit integer with `part` as the upper half.
        """
        signature = types.void(out, types.intp, blocks, types.intp, keys, types.intp, types.uint64, types.uint64)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector, one_key = ir.VectorType(ir.IntType(64), lanes), ir.VectorType(ir.IntType(64), 2)
            kind = ir.FunctionType(vector, [vector, vector])
            middle = builder.module.declare_intrinsic(f"llvm.x86.aesni.aesenc{suffix}", (), kind)
            last = builder.module.declare_intrinsic(f"llvm.x86.aesni.aesenclast{suffix}", (), kind)
            turned = builder.module.declare_intrinsic(f"llvm.bswap.v{lanes}i64", (), ir.FunctionType(vector, [vector]))

            def constant(values: Sequence[int], bits: int = 64) -> Any:
                return ir.Constant(ir.VectorType(ir.IntType(bits), lanes), list(values))

            def at(array: int, element: Any, offset: int) -> Any:
                words = context.make_array(signature.args[array])(context, builder, args[array]).data
                place = builder.gep(words, [builder.add(args[array + 1], ir.Constant(args[array + 1].type, offset))])
                return builder.bitcast(place, element.as_pointer())

            def load(pointer: Any) -> Any:
                loaded = builder.load(pointer)
                loaded.align = 8
                return loaded

            def round_key(i: int) -> Any:
                loaded = load(at(4, one_key, 2 * i))
                return builder.shuffle_vector(loaded, loaded, constant([0, 1] * (lanes // 2), 32))

            def linear(offset: int) -> Any:
                block, zero = load(at(2, vector, offset)), constant([0] * lanes)
                even = range(0, lanes, 2)
                firsts = builder.shuffle_vector(block, zero, constant([x for i in even for x in (i, i)], 32))
                seconds = builder.shuffle_vector(block, zero, constant([x for i in even for x in (i + 1, lanes)], 32))
                return builder.xor(firsts, seconds)

            pair = ir.Constant(one_key, ir.Undefined)
            for i in (0, 1):
                pair = builder.insert_element(
                    pair, args[7 - i if big_endian else 6 + i], ir.Constant(ir.IntType(32), i)
                )
            base = builder.shuffle_vector(pair, pair, constant([0, 1] * (lanes // 2), 32))

            def numbers(offset: int) -> Any:
                steps = [
                    x for i in range(offset // 2, (offset + lanes) // 2) for x in ((0, i) if big_endian else (i, 0))
                ]
                added = builder.add(base, constant(steps))
                return builder.call(turned, [added]) if big_endian else added

            for group in range(0, 2 * _IN_FLIGHT, 8 * lanes):
                places = [group + lanes * i for i in range(8)]
                inputs = [linear(place) for place in places] if hashed else []
                states = inputs
                if numbered:
                    states = [numbers(place) for place in places]
                    states = [builder.xor(*both) for both in zip(states, inputs, strict=True)] if hashed else states
                whitening = round_key(0)
                states = [builder.xor(state, whitening) for state in states]
                for i in range(1, _ROUNDS + 1):
                    instruction, k = (middle if i < _ROUNDS else last), round_key(i)
                    states = [builder.call(instruction, [state, k]) for state in states]
                if hashed:
                    states = [builder.xor(state, linear(place)) for state, place in zip(states, places, strict=True)]
                for place, state in zip(places, states, strict=True):
                    builder.store(state, at(0, vector, place)).align = 8
            return context.get_dummy_value()

        return signature, codegen

    return encrypt


_WIDTH = 256 if "vaes" in EXTENSIONS else 128
_encrypt_numbers = _sixteen_blocks(_WIDTH, hashed=False, numbered=True)
_encrypt_stream = _sixteen_blocks(_WIDTH, hashed=False, numbered=True, big_endian=True)
_hash = _sixteen_blocks(_WIDTH, hashed=True, numbered=False)
_hash_numbered = _sixteen_blocks(_WIDTH, hashed=True, numbered=True)


@numba.njit(cache=True, nogil=True)
def copy_words(source: np.ndarray, first: int, target: np.ndarray, at: int, count: int) -> None:
    """Copy source[first : first + count] to target[at : at + count], without numba's errors for shapes that differ.

    To compile those takes two seconds, once per process.
    """
    for i in range(count):
        target[at + i] = source[first + i]


@numba.njit(cache=True, nogil=True)
def _schedules(keys: np.ndarray) -> np.ndarray:
    out = np.empty((keys.shape[0], 44), np.uint32)
    for i in range(keys.shape[0]):
        expanded = schedule(keys[i])
        for j in range(44):
            out[i, j] = expanded[j]
    return out


@numba.njit(cache=True, nogil=True)
def _counters(schedules: np.ndarray, first: np.uint64, out: np.ndarray) -> None:
    keys, flat, rest, none = schedules.reshape(-1), out.reshape(-1), np.empty(32, np.uint64), np.uint64(0)
    count = out.shape[1]
    whole = count // 16 * 16
    for j in range(out.shape[0]):
        for i in range(0, whole, 16):
            _encrypt_numbers(flat, 2 * (j * count + i), flat, 0, keys, 22 * j, first + np.uint64(i), none)
        if whole < count:
            _encrypt_numbers(rest, 0, flat, 0, keys, 22 * j, first + np.uint64(whole), none)
            copy_words(rest, 0, flat, 2 * (j * count + whole), 2 * (count - whole))


@numba.njit(cache=True, nogil=True)
def _stream(schedule: np.ndarray, part: np.uint64, first: np.uint64, out: np.ndarray) -> None:
    flat, rest = out.reshape(-1), np.empty(32, np.uint64)
    count = out.shape[0]
    whole = count // 16 * 16
    for i in range(0, whole, 16):
        _encrypt_stream(flat, 2 * i, flat, 0, schedule, 0, first + np.uint64(i), part)
    if whole < count:
        _encrypt_stream(rest, 0, flat, 0, schedule, 0, first + np.uint64(whole), part)
        copy_words(rest, 0, flat, 2 * whole, 2 * (count - whole))


@numba.njit(cache=True, nogil=True)
def _tweaked_hashes(blocks: np.ndarray, first: np.uint64, keys: np.ndarray, out: np.ndarray) -> None:
    source, flat, words = blocks.reshape(-1), out.reshape(-1), out.shape[1]
    hashed, rest = np.empty(32, np.uint64), np.zeros(32, np.uint64)
    for start in range(0, blocks.shape[0], 16):
        size, place, number = min(16, blocks.shape[0] - start), 2 * start, first + np.uint64(start)
        if size < 16:
            copy_words(source, place, rest, 0, 2 * size)
            source, place = rest, 0
        for word in range(0, words, 2):
            if words == 2 and size == 16:
                _hash_numbered(flat, place, source, place, keys, 0, number, np.uint64(0))
                continue
            _hash_numbered(hashed, 0, source, place, keys, 0, number, np.uint64(word // 2))
            to = words * start + word
            for b in range(size):
                flat[to + words * b] = hashed[2 * b]
            if word + 1 < words:
                for b in range(size):
                    flat[to + words * b + 1] = hashed[2 * b + 1]


@numba.njit(cache=True, nogil=True)
def _hashes_of_both(
    blocks: np.ndarray,
    flips: np.ndarray,
    delta: np.ndarray,
    first: np.uint64,
    keys: np.ndarray,
    zero: np.ndarray,
    other: np.ndarray,
) -> None:
    """Compute `tweaked_hashes` of x xor flip delta in zero, and of that xor delta in other."""
    words = zero.shape[1]
    one, two, hashed = np.zeros(32, np.uint64), np.zeros(32, np.uint64), np.empty(32, np.uint64)
    for start in range(0, blocks.shape[0], 16):
        size, number = min(16, blocks.shape[0] - start), first + np.uint64(start)
        for b in range(size):
            mask = -np.uint64(flips[start + b])
            for w in range(2):
                x = blocks[start + b, w] ^ (delta[w] & mask)
                one[2 * b + w], two[2 * b + w] = x, x ^ delta[w]
        for word in range(0, words, 2):
            for inputs, out in ((one, zero), (two, other)):
                _hash_numbered(hashed, 0, inputs, 0, keys, 0, number, np.uint64(word // 2))
                for b in range(size):
                    out[start + b, word] = hashed[2 * b]
                    if word + 1 < words:
                        out[start + b, word + 1] = hashed[2 * b + 1]


def schedules(keys: np.ndarray) -> np.ndarray:
    """keys uint64[n, 2] -> the argument of the functions below: the key schedules, or the keys without AES-NI."""
    return _schedules(keys.view(np.uint32)).view(np.uint64) if HAS_AES_NI else keys


def counters(schedules: np.ndarray, first: int, out: np.ndarray) -> None:
    """Write to out uint64[n, m, 2]: AES of the numbers first .. first + m - 1 under each of n keys."""
    if HAS_AES_NI:
        _counters(schedules, np.uint64(first), out)
    else:
        counters_portably(schedules, first, out)


def stream(schedule: np.ndarray, part: int, first: int, out: np.ndarray) -> None:
    """Write to out uint64[n, 2]: AES-CTR under one key. The counter starts at `first`; its upper half is `part`.

    Needs AES-NI.
    """
    _stream(schedule, np.uint64(part), np.uint64(first), out)


def tweaked_hashes(blocks: np.ndarray, first: int, words: int, schedule: np.ndarray) -> np.ndarray:
    """blocks x uint64[n, 2] -> the words of pi(s(x) xor (first + i, j)) xor s(x), j = 0, 1, .., as uint64[n, words]."""
    if not HAS_AES_NI:
        return hashes_portably(blocks, first, words, schedule)
    out = np.empty((blocks.shape[0], words), np.uint64)
    _tweaked_hashes(blocks, np.uint64(first), schedule, out)
    return out


def hashes_of_both(
    blocks: np.ndarray,
    flips: np.ndarray,
    delta: np.ndarray,
    first: int,
    schedule: np.ndarray,
    zero: np.ndarray,
    other: np.ndarray,
) -> None:
    """Write `tweaked_hashes` of x xor flip delta to zero, and of that xor delta to other, uint64[n, words] each."""
    if HAS_AES_NI:
        _hashes_of_both(blocks, flips, delta, np.uint64(first), schedule, zero, other)
        return
    flipped = blocks ^ flips.astype(np.uint64)[:, None] * delta
    zero[:], other[:] = (hashes_portably(x, first, zero.shape[1], schedule) for x in (flipped, flipped ^ delta))


def counters_portably(schedules: np.ndarray, first: int, out: np.ndarray) -> None:
    """`counters` with `cryptography`; it reads only the first two words of a schedule, which are the key."""
    blocks = np.zeros(out.shape[1:], np.uint64)
    blocks[:, 0] = np.uint64(first) + np.arange(out.shape[1], dtype=np.uint64)
    for key, encrypted in zip(schedules, out, strict=True):
        encrypted[:] = _encrypted(blocks, key)


def hashes_portably(blocks: np.ndarray, first: int | None, words: int, key: np.ndarray) -> np.ndarray:
    """`tweaked_hashes` with `cryptography`; without `first`, pi(s(x)) xor s(x), uint64[n, 2]."""
    linear = np.stack([blocks[:, 0] ^ blocks[:, 1], blocks[:, 0]], axis=1)
    inputs = np.repeat(linear[:, None], (words + 1) // 2, axis=1)
    tweaks = np.zeros_like(inputs)
    if first is not None:
        tweaks[:, :, 0] = (np.uint64(first) + np.arange(blocks.shape[0], dtype=np.uint64))[:, None]
        tweaks[:, :, 1] = np.arange(inputs.shape[1], dtype=np.uint64)
    hashed = _encrypted(inputs ^ tweaks, key) ^ inputs
    return hashed.reshape(blocks.shape[0], 2 * inputs.shape[1])[:, :words]


def _encrypted(blocks: np.ndarray, key: np.ndarray) -> np.ndarray:
    # ECB is the bare permutation: the blocks are counters or inputs of a hash, not messages.
    encryptor = Cipher(algorithms.AES(key[:2].tobytes()), modes.ECB()).encryptor()
    return np.frombuffer(encryptor.update(blocks.tobytes()), np.uint64).reshape(blocks.shape)
