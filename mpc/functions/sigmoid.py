"""Logistic function and its derivative, by Fourier series on one opening.

Functionality  [x] at scale 20 -> [sigma(x)], [sigma(x) (1 - sigma(x))] at a given scale
Error          sigma: 4e-7, derivative: 6e-7; their means at any x are within 2e-7 and 4e-7. Then one unit of the
               output scale, rounded without bias. Range: |x| < 2^21 - 13 with the default `bits`, wider with more.
               Outside +-12, or from +-12.25, both stay at their values at +-12: sigma is then off by at most 6.2e-6
Messages       13 x + r modulo 2^28; truncation of the series; alongside, the comparison with 0 and +-12 (2 rounds);
               the choice between the series and the clipped values (1)
Cost           3 rounds; offline the dealer sends sin(k w r), cos(k w r) for k = 1 .. 11, 132 bytes per element
Security       semi-honest, perfect: every message is a one-time pad
How            each function has one series for x >= 0 and one for x < 0, its mirror image: least-squares fits on
               [-0.3, 12.3] of period 2^8 / 13 = 19.7. The derivative is constrained to 1/4 + 2^-22 at 0, so that a sum
               of derivatives there reaches its multiple of 1/4 at any rounding, which min_child_weight needs in a first
               tree. sin k w (e - r), cos k w (e - r) are linear in the dealt values, which thus serve all four series.
               Near 0, and between 12 and 12.25, either choice is right, so it suffices to compare multiples of 1/4: the
               sum of both shares over 2^18, each rounded down, is x over 2^18 rounded down, or 1 less
Source         Fourier sigmoid for secure boosting: Lu et al. (Squirrel), USENIX Security 2023
"""

from __future__ import annotations

import math

import numpy as np

from mpc.arithmetic.bits import select, to_ring
from mpc.comparison.comparison import below, beyond
from mpc.endpoint import Endpoint
from mpc.functions.sigmoid_table import COARSE, LIMITS, RANGE_BITS, SCALE, sigmoid_table
from mpc.kernels import trigonometry
from mpc.kernels.trigonometry import ANGLE_BITS, TERMS, TRIG_SCALE
from mpc.offline.correlation import View, correlation
from mpc.protocol.catalogue import calls, describe
from mpc.protocol.contract import protocol
from mpc.protocol.evidence import Argued
from mpc.rings import Z32, Z64, Z2k
from mpc.rounding.truncation import truncate
from mpc.rounds import Steps, open_shares, parallel
from mpc.shares import AShare, BShare, stack
from mpc.words import U32, U64, Shape, encode_signed, low_bits

# Largest error of either function without the rounding to a unit: by series, and by the table.
SERIES_ERROR, TABLE_ERROR = 6.5e-6, 0.0125
# One period is 2^28 / 13 units of 2^-20.
TURN = 13

# Series of sigma - 1/2 and of the derivative for x >= 0: coefficients of 1, cos w x .. cos 11 w x, and of sin w x ..
# sin 11 w x.
COEFFICIENT_SCALE = 28
VALUE_COSINES = np.array(
    [81583470, -77032149, -22474895, 9855667, 10148564, 831894] + [-2314134, -901661, 137948, 145691, 20800, -1183]
)
VALUE_SINES = np.array(
    [45464206, 51238351, 24734243, 1075783, -4226976] + [-878958, 902318, 488143, 36486, -22481, -3158]
)
SLOPE_COSINES = np.array(
    [7449417, 19156965, 22951557, 15431731, 3040660, -2258486] + [-629530, 1092887, 778327, 132514, -28886, -8229]
)
SLOPE_SINES = np.array(
    [11128459, 6688332, -4122203, -6135443, -912597] + [2095756, 1146206, -105153, -243015, -59001, -1148]
)
FACTOR_SCALE = 25
_SUM_SCALE = FACTOR_SCALE + TRIG_SCALE
# |sigma - 1/2| and the derivative stay below 1/2: sums modulo 2^48 hold them with their sign.
_SUM_BITS = _SUM_SCALE + 1
# 1 / (1 + e^-12) and e^-12 / (1 + e^-12)^2 at that scale.
END_SCALE = 58
AT_CLIP, SLOPE_AT_CLIP = 288228605213955006, 1770926875787


def factors() -> np.ndarray:
    """Return the coefficients of cosines and sines at FACTOR_SCALE, float64 [4, 2, TERMS].

    The four series are those for x >= 0 and those for x < 0, of either function.
    """
    value, slope = np.array([[VALUE_COSINES[1:], VALUE_SINES], [SLOPE_COSINES[1:], SLOPE_SINES]], float)
    odd, even = np.array([[-1.0], [1.0]]), np.array([[1.0], [-1.0]])
    return np.stack([value, slope, odd * value, even * slope]) / (1 << COEFFICIENT_SCALE - FACTOR_SCALE)


def constants() -> np.ndarray:
    """Return the series' terms of degree 0, in the order of `factors`, at the scale of the sums: int64 [4]."""
    value, slope = int(VALUE_COSINES[0]), int(SLOPE_COSINES[0])
    return np.array([value, slope, -value, slope]) << _SUM_SCALE - COEFFICIENT_SCALE


@correlation
class TrigonometricMasks:
    """[r] modulo 2^28, and [sin(k w r)], [cos(k w r)] at scale 22."""

    shape: Shape

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        n = math.prod(self.shape)
        r = view.mask(Z32, (n,))
        ring = Z2k(U64, _SUM_BITS)
        return r, view.derived(ring, (TERMS, 2, n), lambda: trigonometry.harmonics(low_bits(r, ANGLE_BITS)))


def _series(party: Endpoint, x: AShare, scale: int, ring: Z2k) -> Steps[tuple[AShare, np.ndarray]]:
    """Return [sigma - 1/2] and [derivative] by the series for x >= 0 and by those for x < 0, and the opened angle.

    Both are rounded to `scale` in `ring`, (2, 2, *x.shape). Where x is outside the fit, a series may leave the range of
    `truncate`, but it is multiplied by 0.
    """
    sums, angle = yield from _sums(party, x)
    rounded = yield from truncate.steps(party, sums, sums.scale - scale, ring)
    return rounded, angle


def _sums(party: Endpoint, x: AShare) -> Steps[tuple[AShare, np.ndarray]]:
    """As `_series`, in the upper bits of words and not rounded. The large dealt arrays are freed on return."""
    r, shares = party.randomness.take(TrigonometricMasks(x.shape))
    masked = x.map(lambda w: low_bits(w.reshape(-1).astype(U32) * U32.type(TURN) + r, ANGLE_BITS))
    (e,) = yield from open_shares(masked, bits=[ANGLE_BITS])
    angle = low_bits(e, ANGLE_BITS)
    out = trigonometry.series(angle, shares, factors())
    if party.rank == 0:
        out += encode_signed(constants())[:, None]
    up = 64 - _SUM_BITS
    out <<= U64.type(up)
    return AShare(out.reshape(2, 2, *x.shape), party.rank, _SUM_SCALE + up), angle.reshape(x.shape)


def _ends(angle: np.ndarray, scale: int) -> np.ndarray:
    """Return sigma - 1/2 and the derivative at 12, rounded to `scale` without bias by the opened angle, a coin."""
    exact = np.array([AT_CLIP - (1 << END_SCALE - 1), SLOPE_AT_CLIP]).reshape(2, *[1] * angle.ndim)
    shift = END_SCALE - scale
    coin = angle.astype(np.int64) << max(shift - ANGLE_BITS, 0) >> max(ANGLE_BITS - shift, 0)
    return (exact + coin) >> shift


def _apart(
    party: Endpoint,
    first: tuple[AShare, AShare],
    second: tuple[AShare, AShare],
    x: AShare,
    scale: int,
    ring: Z2k = Z64,
    bits: int = RANGE_BITS,
) -> Steps[BShare]:
    """Return bits that are 0 unless two evaluations differ by more than rounding allows."""
    error = SERIES_ERROR if party.randomness.has_dealer else TABLE_ERROR
    most = math.ceil(2 * error * (1 << scale)) + 2
    return beyond(party, stack([a - b for a, b in zip(first, second, strict=True)]), most, ring.bits)


@protocol(near=_apart, elementwise=True)
def sigmoid(
    party: Endpoint,
    x: AShare,
    scale: int,
    ring: Z2k = Z64,
    bits: int = RANGE_BITS,
) -> Steps[tuple[AShare, AShare]]:
    """[x] at scale 20 -> ([sigma(x)], [sigma(x) (1 - sigma(x))]) at `scale` in `ring`, shape of x.

    |x| < 2^(bits - 21) - 13. `scale` is 1 .. 57 and at least 2 below the bits of the ring. Sines and cosines are cheap
    to deal, but by transfers they would take 18 kB and 1,500 transfers per element: without a dealer this is
    `sigmoid_table`.
    """
    if not party.randomness.has_dealer:
        return (yield from sigmoid_table.steps(party, x, scale, ring, bits))
    coarse = x.map(lambda w: w >> U64.type(COARSE))
    (sides, angle), low = yield from parallel(
        _series(party, x, scale, ring), below.steps(party, coarse, [LIMITS[0], 0, LIMITS[1]], bits - COARSE)
    )
    under, negative, positive, over = low[..., 0], low[..., 0] ^ low[..., 1], low[..., 1] ^ low[..., 2], ~low[..., 2]
    inner, outer = yield from parallel(
        select.steps(party, stack([positive, negative]).map(lambda b: b[:, None]), sides),
        to_ring.steps(party, stack([under, over]), ring),
    )
    outer = stack([outer[1] - outer[0], outer[0] + outer[1]])
    half = np.array([1 << scale - 1, 0]).reshape(2, *[1] * x.ndim)
    values = inner.sum(axis=0) + outer.times(_ends(angle, scale), scale) + half
    return values[0], values[1]


describe(
    sigmoid,
    samples=calls(lambda i, n: [i.words(-(2**24), 2**24, n, scale=SCALE), 14]),
    priced=calls(lambda i, n: [i.words(0, 1, n, scale=SCALE), 20], element="value and slope"),
    evidence=[
        Argued(
            "its table has 22 words of 48 bits; the rest is below, select, to_ring and truncate",
            "perfect: the angle is opened under a mask uniform modulo the period, and is thus fit for a public coin",
        )
    ],
)
