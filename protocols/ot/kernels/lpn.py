"""Sums of ten rows of a table, at random places: the linear map of primal LPN.

Source     Yang, Weng, Lan, Zhang and Wang, CCS 2020, section 5.2
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mpc.kernels.aes import HAS_AES_NI
from protocols.ot.kernels import aes_blocks

ROW_WEIGHT = 10
# Blocks of AES per sum: each word has three places of 21 bits, of which a table of up to 2^21 rows uses the lowest.
_BLOCKS, _PLACE_BITS = 2, 21
_SUMS = 16 // _BLOCKS


def _added_rows(count: int) -> Any:
    """Return a function that adds `count` rows of a table."""

    @intrinsic
    def add_rows(typingctx: Any, out: Any, leaves: Any, to: Any, table: Any, last: Any, words: Any, start: Any) -> Any:
        """Write to out[to:] the block leaves[to:], less its lowest bit, plus the rows of the table that words[start:]
        choose; return the lowest bit. Arrays are uint64[:], a row is two words, `last` is the number of the last row.

        A row is one vector of 128 bits: few instructions can wait for memory at a time, so each one counts.
        """
        signature = types.uint64(out, leaves, types.intp, table, types.uint64, words, types.intp)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(64)
            vector = ir.VectorType(word, 2)

            def pointer(array: int, place: Any) -> Any:
                data = context.make_array(signature.args[array])(context, builder, args[array]).data
                return builder.gep(data, [place])

            def load(pointer: Any) -> Any:
                loaded = builder.load(builder.bitcast(pointer, vector.as_pointer()))
                loaded.align = 8
                return loaded

            total = builder.and_(load(pointer(1, args[2])), ir.Constant(vector, [~1, ~0]))
            # Of 16 bytes each: a place is shifted and masked at once.
            mask = builder.shl(args[4], ir.Constant(word, 4))
            rows = builder.bitcast(pointer(3, ir.Constant(word, 0)), ir.IntType(8).as_pointer())
            for row in range(count):
                chosen = builder.load(pointer(5, builder.add(args[6], ir.Constant(word, row // 3))))
                shift = _PLACE_BITS * (row % 3) - 4
                move = builder.lshr if shift > 0 else builder.shl
                byte = builder.and_(move(chosen, ir.Constant(word, abs(shift))), mask)
                total = builder.xor(total, load(builder.gep(rows, [byte])))
            stored = builder.store(total, builder.bitcast(pointer(0, args[2]), vector.as_pointer()))
            stored.align = 8
            return builder.and_(builder.extract_element(total, ir.Constant(ir.IntType(32), 0)), ir.Constant(word, 1))

        return signature, codegen

    return add_rows


_add_ten_rows = _added_rows(ROW_WEIGHT)


@numba.njit(cache=True, nogil=True)
def add_rows_compiled(
    out: np.ndarray, leaves: np.ndarray, table: np.ndarray, schedule: np.ndarray, first: int, lowest: np.ndarray
) -> None:
    """`add_rows` on flat words."""
    last, none = np.uint64(table.size // 2 - 1), np.uint64(0)
    words = np.empty(32, np.uint64)
    for start in range(0, lowest.size, _SUMS):
        aes_blocks._encrypt_numbers(words, 0, words, 0, schedule, 0, np.uint64(_BLOCKS * (first + start)), none)
        for i in range(min(_SUMS, lowest.size - start)):
            lowest[start + i] = _add_ten_rows(out, leaves, 2 * (start + i), table, last, words, 2 * _BLOCKS * i)


def places(schedules: np.ndarray, first: int, count: int, rows: int) -> np.ndarray:
    """Return the places in a table of `rows` rows, a power of 2, of sums from number `first` on: int64[count, 10]."""
    words = np.empty((1, _BLOCKS * count, 2), np.uint64)
    aes_blocks.counters(schedules, _BLOCKS * first, words)
    shifts = np.uint64(_PLACE_BITS) * np.arange(3, dtype=np.uint64)
    every = words.reshape(count, 2 * _BLOCKS, 1) >> shifts & np.uint64(rows - 1)
    return every.reshape(count, -1)[:, :ROW_WEIGHT].astype(np.int64)


def add_rows_plainly(
    out: np.ndarray, leaves: np.ndarray, table: np.ndarray, schedules: np.ndarray, first: int, lowest: np.ndarray
) -> None:
    """`add_rows` in numpy."""
    out[:] = leaves
    out[:, 0] &= ~np.uint64(1)
    out ^= np.bitwise_xor.reduce(table[places(schedules, first, len(out), len(table))], axis=1)
    lowest[:] = out[:, 0] & np.uint64(1)


def add_rows(
    out: np.ndarray, leaves: np.ndarray, table: np.ndarray, schedules: np.ndarray, first: int, lowest: np.ndarray
) -> None:
    """out uint64[n, 2] = leaves, less their lowest bits, plus ten rows of the table uint64[2^m, 2] each, by xor.

    The rows of sum `first` + i are chosen by AES in counter mode; schedules[0] is that of its key. The lowest bits of
    the result are written to lowest uint8[n], too.
    """
    if HAS_AES_NI:
        add_rows_compiled(out.reshape(-1), leaves.reshape(-1), table.reshape(-1), schedules.reshape(-1), first, lowest)
    else:
        for start in range(0, len(out), 1 << 12):
            of = slice(start, start + (1 << 12))
            add_rows_plainly(out[of], leaves[of], table, schedules, first + start, lowest[of])
