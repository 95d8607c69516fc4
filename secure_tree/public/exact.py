"""Public numbers that are the same on every machine.

Both parties multiply shares by public numbers and compare shares with them. If the last bit of such a number differed
between two hosts, shares would become noise. Public numbers are therefore integers in the source, results of float
operations that IEEE 754 rounds uniquely (sums, products, quotients, square roots), or results of the functions here.
The logarithms and exponentials of libm, numpy and BLAS depend on the processor, and numpy's random generators depend on
its version.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, is_dataclass
from decimal import Context, Decimal

import numpy as np

# `decimal` rounds its exponential and logarithm correctly to this number of digits.
_EXACT = Context(prec=40)


def exp(x: float) -> float:
    """Return e^x."""
    return float(_EXACT.exp(Decimal(x)))


def ln(x: float) -> float:
    """Return the natural logarithm of x > 0."""
    return float(_EXACT.ln(Decimal(x)))


def ceil_log2(x: float) -> int:
    """Return the least k with x <= 2^k, for x > 0."""
    mantissa, exponent = math.frexp(x)
    return exponent - (mantissa == 0.5)


def choose(count: int, of: int, label: str) -> np.ndarray:
    """Choose `count` of the numbers 0 .. of - 1 by a public coin, in ascending order.

    Number i gets word i of SHAKE-256 of the label, and the numbers with the smallest words are chosen. All choices are
    equally likely unless two words are equal, which has a probability below of^2 / 2^65.
    """
    words = np.frombuffer(hashlib.shake_256(label.encode()).digest(8 * of), "<u8")
    return np.sort(np.argsort(words, kind="stable")[:count])


def digest(*values: object) -> str:
    """Return the SHA-256 of plain values, dataclasses and numeric arrays, in hexadecimal."""
    hashed = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            hashed.update(f"{value.dtype.str} {value.shape}\n".encode() + np.ascontiguousarray(value).tobytes())
        else:
            plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
            hashed.update(json.dumps(plain, sort_keys=True).encode() + b"\n")
    return hashed.hexdigest()
