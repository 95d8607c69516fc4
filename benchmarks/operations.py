"""The measured operations on shares of 64-bit words, and the same operations in CrypTen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.pair import Operation
from mpc.arithmetic.beaver import multiply
from mpc.comparison.argmax import argmax
from mpc.comparison.comparison import less_than
from mpc.functions.reciprocal import reciprocal
from mpc.functions.sigmoid import sigmoid
from mpc.matrix.matrix_product import matmul
from mpc.party import Party
from mpc.rounding.truncation import truncate
from mpc.shares import AShare

SCALE = 16


def _half(party: Party, shape: tuple[int, ...], low: float, high: float) -> AShare:
    rng = np.random.default_rng(5)
    words = np.round(rng.uniform(low, high, shape) * 2**SCALE).astype(np.int64).astype(np.uint64)
    mask = rng.integers(0, 2**64, shape, dtype=np.uint64)
    return AShare(words - mask if party.rank == 0 else mask, party.rank, SCALE)


def product(party: Party, n: int) -> Callable[[Party], Any]:
    x, y = _half(party, (n,), -100, 100), _half(party, (n,), -100, 100)
    return lambda p: truncate(p, multiply(p, x, y), SCALE)


def comparison(party: Party, n: int) -> Callable[[Party], Any]:
    x, y = _half(party, (n,), -100, 100), _half(party, (n,), -100, 100)
    return lambda p: less_than(p, x, y, 64)


def logistic(party: Party, n: int) -> Callable[[Party], Any]:
    x = _half(party, (n,), -8, 8).times(16).at_scale(20)
    return lambda p: sigmoid(p, x, SCALE)


def inverse(party: Party, n: int) -> Callable[[Party], Any]:
    x = _half(party, (n,), 1, 1000)

    def run(p: Party) -> AShare:
        y, s = reciprocal(p, x, SCALE, SCALE + 10, exact=False)  # CrypTen's also rounds at random
        return truncate(p, multiply(p, y, s), 12 + 16)

    return run


def largest(party: Party, n: int) -> Callable[[Party], Any]:
    x = _half(party, (n // 32, 32), 0, 100)

    return lambda p: argmax(p, x, 23)


def matrix_product(party: Party, n: int) -> Callable[[Party], Any]:
    x, y = (_half(party, (n, n), -10, 10) for _ in range(2))
    return lambda p: truncate(p, matmul(p, x, y), SCALE)


OPERATIONS: dict[str, Operation] = {
    "product": product,
    "comparison": comparison,
    "sigmoid": logistic,
    "reciprocal": inverse,
    "argmax of rows of 32": largest,
    "matrix product": matrix_product,
}


def crypten_operation(name: str, n: int) -> Callable[[], Any]:
    """The same in CrypTen, for both of its processes: inputs now, the operation when called."""
    import crypten
    import torch

    def secret(shape: tuple[int, ...], low: float, high: float) -> Any:
        torch.manual_seed(5)
        return crypten.cryptensor(torch.empty(shape).uniform_(low, high), src=0)

    if name == "product":
        x, y = secret((n,), -100, 100), secret((n,), -100, 100)
        return lambda: x * y
    if name == "comparison":
        x, y = secret((n,), -100, 100), secret((n,), -100, 100)
        return lambda: x < y
    if name == "sigmoid":
        x = secret((n,), -8, 8)
        return lambda: x.sigmoid()
    if name == "reciprocal":
        x = secret((n,), 1, 1000)
        return lambda: x.reciprocal()
    if name == "argmax of rows of 32":
        x = secret((n // 32, 32), 0, 100)
        return lambda: x.argmax(dim=1)
    x, y = secret((n, n), -10, 10), secret((n, n), -10, 10)
    return lambda: x.matmul(y)
