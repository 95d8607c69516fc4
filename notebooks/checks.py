"""Checks that take more than a line: what is composed, windows at the top of a word, known matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mpc import comparison, fixed_operand, linear_map, truncation, widening
from mpc.linear_map import DenseBits, DenseWords
from mpc.party import Party
from mpc.ring import U8, U32
from mpc.rings import GF2, Ring, Z2k
from mpc.rounds import Steps
from notebooks.enumeration import Window
from notebooks.exhaustive import Verdict, bit, check, private, word


def signed(value: np.ndarray, k: int) -> np.ndarray:
    """Numbers below 2^k as two's complement."""
    return (value ^ 1 << k - 1) - (1 << k - 1)


def in_half_range(k: int) -> Callable[[np.ndarray], np.ndarray]:
    """The inputs of k bits whose sum with the offset of a truncation or widening stays below the top bit."""
    return lambda x: np.abs(signed(x, k) + 0.5) < 1 << k - 2


def known_matrix(owner: int, n_in: int, ring: Ring) -> Callable[..., Steps]:
    """Hand a matrix over and apply it to one vector."""

    def steps(party: Party, matrix: Any, x: Any) -> Steps:
        kind = DenseBits if ring == GF2 else DenseWords
        own = None if matrix is None else kind(matrix)
        shared = yield from linear_map.share_masked_matrix.steps(party, owner, own, n_in, 1, ring)
        return (yield from linear_map.apply_matrix.steps(party, shared.supply(party, 1), x))

    return steps


def fixed_product(party: Party, matrix: Any, x: Any) -> Steps:
    """Fix a matrix and multiply one batch of rows by it."""
    operand = yield from fixed_operand.fix.steps(party, matrix)
    return (yield from fixed_operand.multiply_fixed.steps(party, x, operand))


def chosen(count: int) -> Callable:
    """The factor that `choose` makes of its bits with weights 1 .. count, and its product."""

    def ideal(bits: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
        factor = bits @ np.arange(1, count + 1)
        return [factor, factor * x]

    return ideal


def single(protocol: Callable, ideal: Callable) -> Verdict:
    """A product of two bits alone in their bytes."""
    return check(protocol, bit(1), bit(1), ideal=ideal, ring=Window(1), batched=False)


def ring_map(owner: int, k: int, ring: Z2k) -> Verdict:
    return check(
        known_matrix(owner, 1, ring),
        private(owner, k, 1, 1, dtype=ring.dtype),
        word(k, 1, 1, dtype=ring.dtype),
        ideal=lambda m, x: x @ m,
        batched=False,
    )


def bit_map(owner: int, n_in: int) -> Verdict:
    return check(
        known_matrix(owner, n_in, GF2),
        private(owner, 1, 1, n_in, dtype=U8),
        bit(1, n_in),
        ideal=lambda m, x: x @ m.T,
        ring=Window(n_in),
        batched=False,
    )


def below(k: int, thresholds: list[int]) -> Verdict:
    return check(
        comparison.below,
        word(k),
        thresholds,
        k,
        "bits",
        ideal=lambda x: np.stack([signed(x - t & (1 << k) - 1, k) < 0 for t in thresholds], axis=-1),
        draws=[None, Window(1 << k - 1), Window(1), Window(2)],
    )


def truncated(k: int, shift: int) -> Verdict:
    """The k top bits, of which `low` are shifted out; the coin is those of party 1's share."""
    low = shift - (64 - k)
    part = (1 << low) - 1
    return check(
        truncation.truncate,
        word(k, low=64 - k),
        shift,
        draws=[Window(1), Window(1), Window(2)],
        # Of the dealt product two bits, from bit 64 - shift of the result up.
        output=Window(66 - shift),
        promise=in_half_range(k),
        halves=True,
        ideal=lambda x, coin: (signed(x, k) >> low) + ((coin & part) < (x & part)),
    )


def widened(k: int) -> Verdict:
    return check(
        widening.widen,
        word(k, dtype=U32, low=32 - k),
        draws=[Window(1), Window(1), Window(2)],
        output=Window(k + 2, 32 - k),
        promise=in_half_range(k),
        ideal=lambda x: signed(x, k),
    )
