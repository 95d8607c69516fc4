"""Inner products over GF(2^64) = F_2[X] / (X^64 + X^4 + X^3 + X + 1): an element is a word, bit i the factor of X^i.

Products are added up before they are reduced, in vectors of 256 bits (VPCLMULQDQ) or 128 (PCLMULQDQ) through LLVM; on
other processors numpy computes them bit by bit.

Source     Intel, "Intel Carry-Less Multiplication Instruction and its Usage for Computing the GCM Mode", 2010
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mpc.kernels.compiled import EXTENSIONS
from protocols.ot.kernels import COMPILES

HAS_CLMUL = "pclmul" in EXTENSIONS
_WIDTH = 256 if "vpclmulqdq" in EXTENSIONS else 128
# What X^64 is modulo the polynomial.
_TAIL = 0x1B
# Words that one call of an instruction's function takes.
_STEP = 16


def _added_products(width: int, blocks: bool) -> Any:
    """Return a function that adds products of 16 words, with instructions on `width` bits."""
    lanes = width // 64
    suffix = "" if width == 128 else f".{width}"

    @intrinsic
    def add_products(typingctx: Any, out: Any, words: Any, start: Any, factors: Any, first: Any) -> Any:
        """Add to out, uint64[4], the 16 words from `start` on times factors, unreduced: low words, then high ones.

        Of words, each has a factor of its own, and out[:2] + out[2:] is their sum. Of blocks, each of the 8 has one,
        and out[:2] is the sum of first words, out[2:] that of second ones.
        """
        signature = types.void(out, words, types.intp, factors, types.intp)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(ir.IntType(64), lanes)
            kind = ir.FunctionType(vector, [vector, vector, ir.IntType(8)])
            multiply = builder.module.declare_intrinsic(f"llvm.x86.pclmulqdq{suffix}", (), kind)

            def load(array: int, offset: int) -> Any:
                data = context.make_array(signature.args[array])(context, builder, args[array]).data
                place = builder.add(args[array + 1], ir.Constant(args[array + 1].type, offset))
                loaded = builder.load(builder.bitcast(builder.gep(data, [place]), vector.as_pointer()))
                loaded.align = 8
                return loaded

            def indices(values: Any) -> Any:
                return ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(values))

            none = ir.Constant(vector, [0] * lanes)
            sums = [none, none]
            for offset in range(0, _STEP, lanes):
                of = load(1, offset)
                if blocks:
                    # A vector of factors serves two vectors of blocks: each factor goes to its block's lanes.
                    loaded, half = load(3, offset // 2 // lanes * lanes), offset // 2 % lanes
                    factor = builder.shuffle_vector(loaded, loaded, indices(half + i // 2 for i in range(lanes)))
                    choices = 0x00, 0x01
                else:
                    factor, choices = load(3, offset), (0x00, 0x11)
                for i, choice in enumerate(choices):
                    product = builder.call(multiply, [of, factor, ir.Constant(ir.IntType(8), choice)])
                    sums[i] = builder.xor(sums[i], product)
            target = context.make_array(signature.args[0])(context, builder, args[0]).data
            for i, total in enumerate(sums):
                for lane in range(lanes):
                    place = builder.gep(target, [ir.Constant(ir.IntType(64), 2 * i + lane % 2)])
                    word = builder.extract_element(total, ir.Constant(ir.IntType(32), lane))
                    builder.store(builder.xor(builder.load(place), word), place)
            return context.get_dummy_value()

        return signature, codegen

    return add_products


_add_words = _added_products(_WIDTH, blocks=False)
_add_blocks = _added_products(_WIDTH, blocks=True)


@numba.njit(inline="always")
def _reduced(low: Any, high: Any) -> Any:
    """Reduce low + X^64 high, where X^64 = X^4 + X^3 + X + 1: what is carried over once is below X^4."""
    one, three, four = np.uint64(1), np.uint64(3), np.uint64(4)
    over = high >> np.uint64(63) ^ high >> np.uint64(61) ^ high >> np.uint64(60)
    high ^= over
    return low ^ high ^ high << one ^ high << three ^ high << four


@numba.njit(cache=True, nogil=True)
def _fold_planes(planes: np.ndarray, factors: np.ndarray, out: np.ndarray) -> None:
    """`fold_planes`, of rows whose lengths are multiples of 16."""
    flat, width, total = planes.reshape(-1), planes.shape[1], np.empty(4, np.uint64)
    for plane in range(planes.shape[0]):
        total[:] = 0
        for w in range(0, width, _STEP):
            _add_words(total, flat, plane * width + w, factors, w)
        out[plane] = _reduced(total[0] ^ total[2], total[1] ^ total[3])


@numba.njit(cache=True, nogil=True)
def _fold_blocks(blocks: np.ndarray, factors: np.ndarray, out: np.ndarray) -> None:
    """`fold_blocks` on flat words; the number of factors is a multiple of 8."""
    period, total, rest = 2 * factors.size, np.empty(4, np.uint64), np.zeros(_STEP, np.uint64)
    for chunk in range(out.shape[1]):
        total[:] = 0
        start = chunk * period
        count = min(period, blocks.size - start)
        whole = count // _STEP * _STEP
        for w in range(0, whole, _STEP):
            _add_blocks(total, blocks, start + w, factors, w >> 1)
        if whole < count:
            for i in range(count - whole):
                rest[i] = blocks[start + whole + i]
            _add_blocks(total, rest, 0, factors, whole >> 1)
        out[0, chunk], out[1, chunk] = _reduced(total[0], total[1]), _reduced(total[2], total[3])


@numba.njit(cache=True, nogil=True)
def fold_bits_compiled(bits: np.ndarray, factors: np.ndarray, out: np.ndarray) -> None:
    """Write to out[k] the sum of the factors whose bits, of the k-th part of bits uint8[n], are 1."""
    for chunk in range(out.size):
        start, total = chunk * factors.size, np.uint64(0)
        for i in range(min(factors.size, bits.size - start)):
            total ^= factors[i] & -np.uint64(bits[start + i])
        out[chunk] = total


def fold_bits_plainly(bits: np.ndarray, factors: np.ndarray, out: np.ndarray) -> None:
    """`fold_bits_compiled` in numpy."""
    for chunk in range(out.size):
        part = bits[chunk * factors.size :][: factors.size]
        out[chunk] = np.bitwise_xor.reduce(factors[: part.size][part == 1])


def multiply_plainly(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply elementwise; the shapes broadcast."""
    product = np.zeros(np.broadcast_shapes(a.shape, b.shape), np.uint64)
    for bit in range(63, -1, -1):
        product = product << np.uint64(1) ^ (product >> np.uint64(63)) * np.uint64(_TAIL)
        product ^= (b >> np.uint64(bit) & np.uint64(1)) * a
    return product


def fold_planes(planes: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Sum each row of planes uint64[p, W] times factors uint64[W]: uint64[p]."""
    if not HAS_CLMUL:
        return np.bitwise_xor.reduce(multiply_plainly(planes, factors), axis=1)
    missing = -planes.shape[1] % _STEP
    if missing:
        planes, factors = np.pad(planes, ((0, 0), (0, missing))), np.pad(factors, (0, missing))
    out = np.empty(len(planes), np.uint64)
    _fold_planes(planes, factors, out)
    return out


def fold_blocks(blocks: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Sum blocks uint64[n, 2] times factors uint64[m], m a multiple of 8, m blocks at a time: uint64[2, n / m]."""
    out = np.empty((2, -(-len(blocks) // factors.size)), np.uint64)
    if HAS_CLMUL:
        _fold_blocks(blocks.reshape(-1), factors, out)
        return out
    for chunk in range(out.shape[1]):
        part = blocks[chunk * factors.size :][: factors.size]
        out[:, chunk] = np.bitwise_xor.reduce(multiply_plainly(part, factors[: len(part), None]), axis=0)
    return out


def fold_bits(bits: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Sum the factors uint64[m] whose bits, of uint8[n], are 1, m bits at a time: uint64[n / m]."""
    out = np.empty(-(-bits.size // factors.size), np.uint64)
    (fold_bits_compiled if COMPILES else fold_bits_plainly)(bits, factors, out)
    return out
