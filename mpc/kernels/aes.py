"""Fixed-key AES-128 as a length-doubling generator: s -> H(s), H(s xor 1), .. with H(x) = AES_k(x) xor x.

On x86 the rounds are the AES-NI instruction, reached through LLVM; elsewhere `cryptography` encrypts the blocks.
Words are little-endian: a block is uint64[2].

Source     Matyas, Meyer and Oseas 1985; a fixed key drawn per session: Guo, Katz, Wang and Yu, IEEE S&P 2020
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mpc.kernels.compiled import EXTENSIONS

HAS_AES_NI = "aes" in EXTENSIONS


def _round_instruction(name: str) -> Any:
    @intrinsic
    def instruction(typingctx: Any, low: Any, high: Any, key_low: Any, key_high: Any) -> Any:
        signature = types.UniTuple(types.uint64, 2)(types.uint64, types.uint64, types.uint64, types.uint64)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(ir.IntType(64), 2)
            index = [ir.Constant(ir.IntType(32), i) for i in (0, 1)]

            def pack(first: Any, second: Any) -> Any:
                half = builder.insert_element(ir.Constant(vector, ir.Undefined), first, index[0])
                return builder.insert_element(half, second, index[1])

            declared = builder.module.declare_intrinsic(name, (), ir.FunctionType(vector, [vector, vector]))
            out = builder.call(declared, [pack(args[0], args[1]), pack(args[2], args[3])])
            lanes = [builder.extract_element(out, i) for i in index]
            return context.make_tuple(builder, signature.return_type, lanes)

        return signature, codegen

    return instruction


_aesenc = _round_instruction("llvm.x86.aesni.aesenc")
_aesenclast = _round_instruction("llvm.x86.aesni.aesenclast")


@numba.njit(inline="always")
def _hash(low: np.uint64, high: np.uint64, keys: np.ndarray) -> tuple[np.uint64, np.uint64]:
    a, b = low ^ keys[0], high ^ keys[1]
    for i in range(1, 10):
        a, b = _aesenc(a, b, keys[2 * i], keys[2 * i + 1])
    a, b = _aesenclast(a, b, keys[20], keys[21])
    return a ^ low, b ^ high


@numba.njit(cache=True, nogil=True)
def _sub_word(word: np.uint32) -> np.uint32:
    """Apply the S-box to four bytes: with all columns equal, the last round's ShiftRows changes nothing."""
    twice = np.uint64(word) | np.uint64(word) << np.uint64(32)
    return np.uint32(_aesenclast(twice, twice, np.uint64(0), np.uint64(0))[0] & np.uint64(0xFFFFFFFF))


@numba.njit(cache=True, nogil=True)
def schedule(key: np.ndarray) -> np.ndarray:
    """uint32[4] -> round keys uint32[44] (FIPS 197)."""
    words = np.empty(44, np.uint32)
    # Not as a slice: numba would compile its error for shapes that differ, which takes two seconds.
    for i in range(4):
        words[i] = key[i]
    constant = np.uint32(1)
    for i in range(4, 44):
        w = words[i - 1]
        if i % 4 == 0:
            w = _sub_word(w >> np.uint32(8) | w << np.uint32(24)) ^ constant
            doubled = np.uint32(constant << np.uint32(1))
            constant = doubled ^ np.uint32(0x11B) if doubled & np.uint32(0x100) else doubled
        words[i] = words[i - 4] ^ w
    return words


@numba.njit(cache=True, nogil=True)
def hash_all(seeds: np.ndarray, tweaks: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """`expand` for compiled code: tweaks uint64[m], and the key schedule. Needs AES-NI."""
    out = np.empty((seeds.shape[0], tweaks.size, 2), np.uint64)
    for i in range(seeds.shape[0]):
        for j in range(tweaks.size):
            out[i, j, 0], out[i, j, 1] = _hash(seeds[i, 0] ^ tweaks[j], seeds[i, 1], keys)
    return out


@functools.lru_cache(maxsize=16)
def round_keys(key: bytes) -> np.ndarray:
    """The key schedule of a 16-byte key, for `expand`."""
    return schedule(np.frombuffer(key, np.uint32)).view(np.uint64)


def expand(seeds: np.ndarray, tweaks: tuple[int, ...], key: bytes) -> np.ndarray:
    """seeds uint64[n, 2], tweaks below 2^64, key of 16 bytes -> H(seed xor tweak), uint64[n, len(tweaks), 2]."""
    words = np.array(tweaks, np.uint64)
    if HAS_AES_NI:
        return hash_all(seeds, words, round_keys(key))
    return expand_portably(seeds, words, key)


def expand_portably(seeds: np.ndarray, tweaks: np.ndarray, key: bytes) -> np.ndarray:
    """Compute `expand` with `cryptography`."""
    blocks = np.repeat(seeds[:, None, :], tweaks.size, axis=1)
    blocks[:, :, 0] ^= tweaks
    # ECB applies the fixed-key permutation to blocks that are pseudorandom seeds; it is not used to encrypt.
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    hashed = np.frombuffer(encryptor.update(blocks.tobytes()), np.uint64).reshape(blocks.shape)
    return hashed ^ blocks
