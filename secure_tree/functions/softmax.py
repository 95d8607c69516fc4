"""Softmax of the margins of several classes, on shares.

Functionality  [m_k] of n rows and K classes -> [p_k] = e^m_k / S, S being the sum over the classes; or [ln S]
Range          |m| < 2^(bits - 2) units, bits at most MOST_SOFTMAX_BITS. Margins 12 and more below the largest count as
               e^m = 0, so that p is off by up to 6e-6
Error          p: relative 1e-3 at most near the largest margin and 5e-3 far below it, 1e-4 in the mean, then a unit of
               the scale, rounded without bias. Never negative. ln S: 1e-3 at most
Messages       an argmax over margins rounded to 1/4; quadratics of the differences from it, which are below 1/2; one
               reciprocal per row; one product per row, and one per margin
Security       semi-honest, perfect: composition of perfect protocols
Source         shift by the maximum as in CrypTen and SPU, here only to within 1/2; there the exponential is a power of
               1 + x / 2^8, or a polynomial times a power of two, here it is one of 27 quadratics
"""

from __future__ import annotations

from mpc.arithmetic.beaver import multiply
from mpc.comparison.argmax import argmax
from mpc.functions.reciprocal import invert, normalise
from mpc.party import Party
from mpc.rings import Z64, Z2k
from mpc.rounding.truncation import truncate
from mpc.rounding.widening import widen
from mpc.rounds import Steps
from mpc.shares import AShare, stack
from mpc.words import U32, U64
from secure_tree.functions.curves import SOFT_EXP, logarithm, quadratics
from secure_tree.public.exact import ceil_log2
from secure_tree.public.numerics import MARGIN_SCALE, MOST_SOFTMAX_BITS

# Keys of the maximum are multiples of 2^-2, in words of 32 bits.
KEY_SHIFT = 18
POWER_SCALE = 28


def powers(party: Party, margins: AShare, bits: int) -> Steps[tuple[AShare, AShare]]:
    """[m], [K, n] -> [e^(m - c)] at POWER_SCALE, [K, n], the largest in 1 .. 1.65, and [c] at MARGIN_SCALE, [n]."""
    assert bits <= MOST_SOFTMAX_BITS, "numerics refuse more"
    lowest = 1 << bits - KEY_SHIFT - 1
    # A sum of halves rounded down is the number rounded down, or one less.
    keys = margins.map(lambda w: (w >> U64.type(KEY_SHIFT)).astype(U32).T).at_scale(0) + lowest
    _, largest = yield from argmax.steps(party, keys, bits - KEY_SHIFT)
    shift = ((yield from widen.steps(party, largest)) - lowest).times(1 << KEY_SHIFT).at_scale(MARGIN_SCALE)
    differences = margins - shift
    grown = yield from quadratics(party, differences.reshape(-1), SOFT_EXP, bits + 1, POWER_SCALE)
    return grown.reshape(*margins.shape), shift


def softmax(party: Party, margins: AShare, bits: int, scale: int, ring: Z2k = Z64) -> Steps[AShare]:
    """[m], [K, n] -> [p] at `scale` in `ring`, [K, n]; 2 .. 20 in words of 64 bits, 2 .. 14 in words of 32."""
    grown, _ = yield from powers(party, margins, bits)
    low, high = _octaves(len(margins))
    mantissa, power, _ = yield from normalise.steps(party, grown.sum(axis=0), low, high, (), False)
    inverse = yield from invert.steps(party, mantissa, False)
    over = yield from multiply.steps(party, inverse, power)
    p = yield from multiply.steps(party, grown, stack([over] * len(margins)))
    return (yield from truncate.steps(party, p, p.scale - scale, ring))


def log_sum(party: Party, margins: AShare, bits: int) -> Steps[AShare]:
    """[m], [K, n] -> [ln sum_k e^m_k] at MARGIN_SCALE, [n]."""
    grown, shift = yield from powers(party, margins, bits)
    return shift + (yield from logarithm(party, grown.sum(axis=0), *_octaves(len(margins))))


def _octaves(classes: int) -> tuple[int, int]:
    """Return the lowest and the highest bit of the sum of powers, which is at least 0.99, and below 1.7 `classes`."""
    return POWER_SCALE - 1, POWER_SCALE - 1 + ceil_log2(1.7 * classes)


def curvature(party: Party, p: AShare, scale: int) -> Steps[AShare]:
    """[p], [K, n] at `scale` -> [2 p (1 - p)] at `scale` in the ring of p, never negative, and 1/2 on average at most.

    1 - p is the sum of the other probabilities, whose roundings are independent of that of p.
    """
    product = yield from multiply.steps(party, p, p.sum(axis=0) - p)
    # In the upper bits of words of 64 bits.
    up = 64 - p.ring.bits
    words = product.words.astype(U64) << U64.type(up)
    doubled = yield from truncate.steps(party, AShare(words, p.rank, 2 * scale + up), scale - 1 + up, p.ring)
    return doubled.at_scale(scale)
