"""Logarithm of a sum, from the logarithms of its terms.

Functionality  [L], [M] in Z_2^16, |L - M| < 2^14 -> [U log2(2^(L / U) + 2^(M / U))], rounded to a unit, U = 64
Messages       d = L - M, masked for a table and for two thresholds (2 rounds); the selection of their results (1); the
               conversion to the ring (1)
Cost           offline: a one-hot of 1,024 bits, a comparison of 16 bits with two thresholds, ten words of 16 bits
Security       semi-honest, perfect: composition
How            the result is M + U log2(1 + 2^(d / U)). A table gives the second term where |d| is below eight octaves;
               the result is M where d is lower, and L where it is higher
Source         Gaussian logarithms: Leonelli, 1803; one-time truth tables as in mpc/lookup/windows.py
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np

from mpc.arithmetic.bits import and_each, select, to_ring
from mpc.comparison.comparison import below
from mpc.lookup.windows import Windows, look_up
from mpc.protocol import Z16, AShare, BShare, Endpoint, Steps, calls, composed, describe, parallel, protocol

UNIT = 64
# Half the length of the table, and the bits of its entries.
END, BITS = 512, 9


@lru_cache(maxsize=1)
def _windows() -> Windows:
    with localcontext() as context:
        context.prec = 40
        powers = [(Decimal(2).ln() * d / UNIT).exp() for d in range(-END, END)]
        table = [int(((1 + p).ln() / Decimal(2).ln() * UNIT).to_integral_value()) for p in powers]
    return Windows(0, 1, (tuple(table[END:] + table[:END]),), (0,), BITS)


@protocol()
def log_sum(party: Endpoint, first: AShare, second: AShare) -> Steps[AShare]:
    """[L], [M], uint16 of one shape -> [log of the sum], uint16."""
    apart = first - second
    found, ends = yield from parallel(
        look_up.steps(party, apart, _windows()), below.steps(party, apart, [-END, END], Z16.bits)
    )
    inside, beyond = ends[..., 0] ^ ends[..., 1], ~ends[..., 1]
    bits = BShare((found.words >> np.arange(BITS, dtype=np.uint32) & np.uint32(1)).astype(np.uint8), party.rank)
    near, far = yield from parallel(and_each.steps(party, inside, bits), select.steps(party, beyond, apart))
    ring = yield from to_ring.steps(party, near, Z16)
    return second + far + ring.times(1 << np.arange(BITS)).sum(axis=-1)


def rounded_sum(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute `log_sum` of integers in the clear: int64."""
    apart = first - second
    (table,) = _windows().tables
    near = np.array(table)[apart & 2 * END - 1]
    return second + np.where(apart >= END, apart, np.where(apart < -END, 0, near))


describe(
    log_sum,
    samples=calls(lambda i, n: [i.words(0, 4000, n, 2, ring=Z16), i.words(0, 4000, n, 2, ring=Z16)]),
    priced=calls(lambda i, n: [i.words(0, 1, n, ring=Z16), i.words(0, 1, n, ring=Z16)], element="sum of two"),
    evidence=composed(look_up, below, and_each, select, to_ring),
)
