"""Logistic function and its derivative by a public table, for randomness that two parties make by themselves.

Functionality  [x] at scale 20 -> [sigma(x)], [sigma(x) (1 - sigma(x))] at a given scale
Error          x is rounded to a neighbouring multiple of 1/20, at random and without bias: sigma is off by up to
               0.0125, the derivative by 0.0049, but their means at any x by no more than 3.1e-5 and 4e-5. At multiples
               of 1/20 nothing is random, and both are within 2.4e-7. Then one unit of the output scale, rounded without
               bias. Range: |x| < 2^21 - 13 with the default `bits`, wider with more. Outside +-12, or from +-12.25,
               both stay at their values at +-12: sigma is then off by at most 6.4e-6
Messages       5 x + r modulo 2^27; alongside, the comparison with +-12 (2 rounds); bits of the table where x is inside
               (1); their conversion to integers (1); truncation (1)
Cost           5 rounds; offline by transfers, per element: one-hots of nine bits, a comparison, and 42 bits in the ring
Security       semi-honest, perfect: composition of perfect protocols
How            both functions on +-12.8 are one table of 2^9 entries, 22 and 20 bits at scale 22, which
               mpc/lookup/windows.py looks up at 5 x, with the random rounding of its window. 1/4 minus the derivative
               takes one bit less
Source         one-time truth tables: Ishai et al., TCC 2013
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np

from mpc.arithmetic.bits import and_each, to_ring
from mpc.comparison.comparison import below
from mpc.endpoint import Endpoint
from mpc.lookup.windows import Windows, look_up
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import protocol
from mpc.protocol.evidence import composed
from mpc.rings import Z64, Z2k
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, parallel
from mpc.shares import AShare, BShare, stack
from mpc.words import U32, U64

SCALE = 20
CLIP = 12
RANGE_BITS = 42

# With both shares rounded down to units of 2^COARSE, their sum is up to one such unit too low.
COARSE = 18
LIMITS = -(CLIP << SCALE - COARSE) - 1, CLIP << SCALE - COARSE

TURN = 5
PLACE, WIDTH = 18, 9
# Entries per unit of x.
GRID = TURN << SCALE - PLACE
# Bits of sigma, and of 1/4 minus the derivative, at TABLE_SCALE.
TABLE_SCALE = 22
VALUE_BITS, SLOPE_BITS = 22, 20
# The ring of the entries, whose numbers are within a quarter of it.
ENTRIES = Z2k(U32, TABLE_SCALE + 2)


def _entry(place: int) -> int:
    """Return the entry at x = place / GRID, clipped, in exact arithmetic."""
    with localcontext(prec=40):
        x = Decimal(max(-CLIP * GRID, min(CLIP * GRID, place))) / GRID
        value = 1 / (1 + (-x).exp())
        slope = Decimal("0.25") - value * (1 - value)
        return round(value * 2**TABLE_SCALE) | round(slope * 2**TABLE_SCALE) << VALUE_BITS


@lru_cache(maxsize=1)
def table() -> Windows:
    """Return the table: entry k is the value at k / GRID, or at (k - 2^WIDTH) / GRID in the upper half."""
    half = 1 << WIDTH - 1
    entries = tuple(_entry((k ^ half) - half) for k in range(2 * half))
    return Windows(PLACE, 1, (entries,), (0,), VALUE_BITS + SLOPE_BITS)


def _bits(entry: int) -> np.ndarray:
    return np.array([entry >> j & 1 for j in range(VALUE_BITS + SLOPE_BITS)], np.uint8)


def _inner(party: Endpoint, x: AShare) -> Steps[BShare]:
    """[x] -> <bits of the table at x>, x.shape + (42,)."""
    words = yield from look_up.steps(party, x.map(lambda w: w * U64.type(TURN)), table())
    places = np.arange(VALUE_BITS + SLOPE_BITS, dtype=U64)
    return BShare((words.words >> places & U64.type(1)).astype(np.uint8), party.rank)


@protocol()
def sigmoid_table(
    party: Endpoint,
    x: AShare,
    scale: int,
    ring: Z2k = Z64,
    bits: int = RANGE_BITS,
) -> Steps[tuple[AShare, AShare]]:
    """[x] at scale 20 -> ([sigma(x)], [sigma(x) (1 - sigma(x))]) at `scale` in `ring`, shape of x.

    |x| < 2^(bits - 21) - 13. `scale` is 2 .. 57 and at least 2 below the bits of the ring.
    """
    coarse = x.map(lambda w: w >> U64.type(COARSE))
    inner, low = yield from parallel(_inner(party, x), below.steps(party, coarse, LIMITS, bits - COARSE))
    under, over = low[..., 0], ~low[..., 1]
    kept = yield from and_each.steps(party, ~(under ^ over), inner)
    lowest, highest = (_bits(_entry(end * CLIP * GRID)) for end in (-1, 1))
    every = kept.map(lambda b: b ^ under.bits[..., None] & lowest ^ over.bits[..., None] & highest)
    entries = yield from to_ring.steps(party, every, ENTRIES)
    weights = 1 << np.arange(VALUE_BITS)
    value = entries[..., :VALUE_BITS].times(weights).sum(axis=-1) - (1 << TABLE_SCALE - 1)
    slope = (1 << TABLE_SCALE - 2) - entries[..., VALUE_BITS:].times(weights[:SLOPE_BITS]).sum(axis=-1)
    up = 64 - ENTRIES.bits
    words = stack([value, slope]).words.astype(U64) << U64.type(up)
    shift = TABLE_SCALE + up - scale
    result = yield from truncate.steps(party, AShare(words, party.rank, TABLE_SCALE + up), shift, ring)
    return result[0] + (1 << scale - 1), result[1]


describe(
    sigmoid_table,
    samples=calls(lambda i, n: [i.words(-(2**24), 2**24, n, scale=SCALE), 14]),
    priced=calls(lambda i, n: [i.words(0, 1, n, scale=SCALE), 20], element="value and slope"),
    evidence=composed(look_up, below, and_each, to_ring, truncate),
)
