"""Public numbers that are the same on every machine.

Both parties multiply public numbers on shares and compare shares with them. A last bit that differs between two hosts
would turn shares into noise, so a public number is an integer in the source, comes from sums, products, quotients and
square roots of floats, which IEEE 754 rounds in one way, or from the functions here. The logarithms and exponentials of
libm, numpy and BLAS depend on the processor, and numpy's random generators on its version.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, is_dataclass
from decimal import Context, Decimal

import numpy as np

# `decimal` rounds its exponential and logarithm correctly, to this many digits.
_EXACT = Context(prec=40)


def exp(x: float) -> float:
    """e^x."""
    return float(_EXACT.exp(Decimal(x)))


def ln(x: float) -> float:
    """The natural logarithm of x > 0."""
    return float(_EXACT.ln(Decimal(x)))


def ceil_log2(x: float) -> int:
    """The least k with x <= 2^k, for x > 0."""
    mantissa, exponent = math.frexp(x)
    return exponent - (mantissa == 0.5)


def choose(count: int, of: int, label: str) -> np.ndarray:
    """`count` of the numbers 0 .. of - 1 by a public coin, in ascending order.

    Number i draws word i of SHAKE-256 of the label, and the least words win: every choice is equally likely, but for
    the chance of less than of^2 / 2^65 that two words are equal.
    """
    words = np.frombuffer(hashlib.shake_256(label.encode()).digest(8 * of), "<u8")
    return np.sort(np.argsort(words, kind="stable")[:count])


def digest(*values: object) -> str:
    """SHA-256 of plain values, dataclasses and arrays of numbers, in hexadecimal."""
    hashed = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            hashed.update(f"{value.dtype.str} {value.shape}\n".encode() + np.ascontiguousarray(value).tobytes())
        else:
            plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
            hashed.update(json.dumps(plain, sort_keys=True).encode() + b"\n")
    return hashed.hexdigest()
