"""Kernels of two rings in which differences of random points are units, for proofs that dealt values are right.

GF(2^64) = F_2[X] / (X^64 + X^4 + X^3 + X + 1): an element is a word.
GR(2^64, 48) = Z_2^64[X] / (X^48 + X^5 + X^3 + X^2 + 1), a Galois ring: an element is 48 words, the coefficients from
X^0 up. Modulo 2 it is GF(2^48), so that two different elements with coefficients 0 and 1 differ by a unit.

Source     Wan, Lectures on Finite Fields and Galois Rings, 2003
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mpc.kernels.compiled import EXTENSIONS

HAS_CLMUL = "pclmul" in EXTENSIONS
DEGREE = 48
_TAIL = 0x1B


@intrinsic
def _instruction(typingctx: Any, a: Any, b: Any) -> Any:
    signature = types.UniTuple(types.uint64, 2)(types.uint64, types.uint64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, index = ir.VectorType(ir.IntType(64), 2), [ir.Constant(ir.IntType(32), i) for i in (0, 1)]
        kind = ir.FunctionType(vector, [vector, vector, ir.IntType(8)])
        declared = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", (), kind)
        low = [builder.insert_element(ir.Constant(vector, [0, 0]), word, index[0]) for word in args]
        out = builder.call(declared, [*low, ir.Constant(ir.IntType(8), 0)])
        return context.make_tuple(builder, signature.return_type, [builder.extract_element(out, i) for i in index])

    return signature, codegen


@numba.njit(inline="always")
def _portably(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    low, high = np.uint64(0), np.uint64(0)
    for i in range(64):
        if (b >> np.uint64(i)) & np.uint64(1):
            low ^= a << np.uint64(i)
            if i:
                high ^= a >> np.uint64(64 - i)
    return low, high


_carryless: Any = _instruction if HAS_CLMUL else _portably


@numba.njit(inline="always")
def _reduced(low: np.uint64, high: np.uint64) -> np.uint64:
    first, over = _carryless(high, np.uint64(_TAIL))
    return low ^ first ^ _carryless(over, np.uint64(_TAIL))[0]


@numba.njit(cache=True, nogil=True)
def field_products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply elementwise over GF(2^64), uint64[n]."""
    out = np.empty_like(a)
    for i in range(a.size):
        low, high = _carryless(a[i], b[i])
        out[i] = _reduced(low, high)
    return out


@numba.njit(cache=True, nogil=True)
def field_dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the inner product over GF(2^64), uint64[1]."""
    low, high = np.uint64(0), np.uint64(0)
    for i in range(a.size):
        one, two = _carryless(a[i], b[i])
        low ^= one
        high ^= two
    return np.array([_reduced(low, high)])


@numba.njit(cache=True, nogil=True)
def field_between(point: np.uint64, zero: np.ndarray, one: np.ndarray) -> np.ndarray:
    """(1 - point) zero + point one, over GF(2^64)."""
    out = np.empty_like(zero)
    for i in range(zero.size):
        low, high = _carryless(zero[i] ^ one[i], point)
        out[i] = zero[i] ^ _reduced(low, high)
    return out


@numba.njit(cache=True, nogil=True)
def field_sums(bits: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """bits uint8[n, k], weights uint64[k] -> the xor of the weights whose bit is 1: uint64[n]."""
    out = np.zeros(bits.shape[0], np.uint64)
    for i in range(bits.shape[0]):
        for k in range(bits.shape[1]):
            out[i] ^= weights[k] & (np.uint64(0) - np.uint64(bits[i, k]))
    return out


# Loops run over the lengths of arrays: with constant bounds they would be unrolled, and take a minute to compile.
@numba.njit(cache=True, nogil=True)
def _reduce_into(long: np.ndarray, out: np.ndarray) -> None:
    """Reduce 2 n coefficients, which are overwritten, to n."""
    for i in range(long.size - 1, out.size - 1, -1):
        at, top = i - out.size, long[i]
        long[at] -= top
        long[at + 2] -= top
        long[at + 3] -= top
        long[at + 5] -= top
    out[:] = long[: out.size]


@numba.njit(cache=True, nogil=True)
def ring_dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the inner product over GR(2^64, 48): two uint64[n, 48] -> uint64[1, 48]."""
    degree = a.shape[1]
    long, out = np.zeros(2 * degree, np.uint64), np.empty((1, degree), np.uint64)
    for i in range(a.shape[0]):
        for j in range(degree):
            if a[i, j]:
                for k in range(degree):
                    long[j + k] += a[i, j] * b[i, k]
    _reduce_into(long, out[0])
    return out


@numba.njit(cache=True, nogil=True)
def ring_between(point: np.ndarray, zero: np.ndarray, one: np.ndarray) -> np.ndarray:
    """(1 - point) zero + point one, over GR(2^64, 48): point uint64[48], the others uint64[n, 48]."""
    degree = point.size
    out, long = np.empty_like(zero), np.empty(2 * degree, np.uint64)
    for i in range(zero.shape[0]):
        long[:] = 0
        for j in range(degree):
            if point[j]:
                for k in range(degree):
                    long[j + k] += point[j] * (one[i, k] - zero[i, k])
        _reduce_into(long, out[i])
        for k in range(degree):
            out[i, k] += zero[i, k]
    return out


def ring_multiples(coefficients: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Multiply words of Z_2^64 by elements whose coefficients are the low 48 bits: two uint64[n] -> uint64[n, 48]."""
    return words[:, None] * (coefficients[:, None] >> np.arange(DEGREE, dtype=np.uint64) & np.uint64(1))
