"""Logistic function and its derivative, by a Fourier series on one opening.

Functionality  [x] at scale 20 -> [sigma(x)], [sigma(x) (1 - sigma(x))] at a scale of choice
Error          sigma: 3e-7, derivative: 7e-7 over |x| < 2^21 - 12, or more where `bits` says so, plus one unit of
               the output scale (rounded without bias).
               Outside +-12 both stay at their values at +-12: sigma is then off by at most 6.2e-6
Messages       x + r modulo the period of 32; truncation of the series; alongside, the comparison with +-12 (2 rounds);
               the choice between the series and the clipped values (1)
Cost           3 rounds; offline the dealer sends sin(k w r), cos(k w r) for k = 1 .. 24, 384 bytes an element
Security       semi-honest, perfect: every message is a one-time pad
How            both functions are least-squares fits on [-12, 12] with period 32: sigma - 1/2 on sines, the derivative
               on cosines, held to 1/4 + 2^-25 at 0: a sum of derivatives there reaches its multiple of 1/4 at any
               rounding, as min_child_weight in a first tree needs. sin k w (e - r), cos k w (e - r) are linear in
               the dealt values
Source         Fourier sigmoid for secure boosting: Lu et al. (Squirrel), USENIX Security 2023
"""

from __future__ import annotations

import math

import numpy as np

from mpc.bit_product import select, to_ring
from mpc.catalogue import BOTH, calls, describe
from mpc.comparison import below
from mpc.contract import protocol
from mpc.correlation import View, correlation
from mpc.endpoint import Endpoint, Variant
from mpc.evidence import Argued
from mpc.kernels import trigonometry
from mpc.kernels.trigonometry import ANGLE_BITS, TERMS, TRIG_SCALE
from mpc.ring import U32, Shape, encode_signed, low_bits
from mpc.rings import Z32, Z64, Z2k
from mpc.rounds import Steps, open_shares, parallel
from mpc.shares import AShare, stack
from mpc.truncation import truncate

SCALE = 20
CLIP = 12
RANGE_BITS = 42

COEFFICIENT_SCALE = 28
SINES = np.array(
    [161012631, -138455, 32713642, 3249796, 4441903, 6729159, -4730437, 7649104]
    + [-6354719, 6293260, -4963061, 4064455, -2937820, 2106157, -1373687, 868929]
    + [-501837, 276121, -136665, 62987, -24980, 8842, -2325, 483]
)
COSINES = np.array(
    [462887690, -880016543, 870365504, -786367930, 725143278, -623346630, 535679418, -435565669, 348954982]
    + [-266458953, 198539319, -141248721, 97313411, -63872047, 40287840, -24062333, 13678512]
    + [-7279411, 3634461, -1663226, 696379, -255415, 81193, -19680, 3445]
)
_SUM_SCALE = COEFFICIENT_SCALE + TRIG_SCALE
# 1 / (1 + e^-12) and e^-12 / (1 + e^-12)^2 at that scale.
AT_CLIP, SLOPE_AT_CLIP = 288228605213955006, 1770926875787


@correlation
class TrigonometricMasks:
    """[r] modulo 2^25, and [sin(k w r)], [cos(k w r)] at scale 30."""

    shape: Shape

    def deal(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        n = math.prod(self.shape)
        r = view.mask(Z32, (n,))
        return r, view.derived(Z64, (TERMS, 2, n), lambda: trigonometry.harmonics(low_bits(r, ANGLE_BITS)))


def _series(party: Endpoint, x: AShare, scale: int) -> Steps[tuple[AShare, np.ndarray]]:
    """[sigma] and [derivative] of the periodic fit, rounded to `scale`, (2, *x.shape), and the opened angle.

    Beyond +-12 the fit is out of the range of `truncate`, and times 0.
    """
    r, shares = party.randomness.take(TrigonometricMasks(x.shape))
    masked = x.map(lambda w: low_bits(w.reshape(-1).astype(U32) + r, ANGLE_BITS))
    (e,) = yield from open_shares(masked, bits=[ANGLE_BITS])
    angle = low_bits(e, ANGLE_BITS)
    out = trigonometry.series(angle, shares, SINES.astype(float), COSINES[1:].astype(float))
    if party.rank == 0:
        constants = np.array([1 << _SUM_SCALE - 1, int(COSINES[0]) << TRIG_SCALE])
        out += encode_signed(constants)[:, None]
    periodic = AShare(out.reshape(2, *x.shape), party.rank, _SUM_SCALE)
    rounded = yield from truncate.steps(party, periodic, _SUM_SCALE - scale)
    return rounded, angle.reshape(x.shape)


def _ends(angle: np.ndarray, scale: int) -> np.ndarray:
    """sigma - 1/2 and the derivative at 12, rounded to `scale` without bias: the opened angle is a public coin."""
    exact = np.array([AT_CLIP - (1 << _SUM_SCALE - 1), SLOPE_AT_CLIP]).reshape(2, *[1] * angle.ndim)
    shift = _SUM_SCALE - scale
    coin = angle.astype(np.int64) << max(shift - ANGLE_BITS, 0) >> max(ANGLE_BITS - shift, 0)
    return (exact + coin) >> shift


@protocol()
def sigmoid(
    party: Endpoint,
    x: AShare,
    scale: int,
    ring: Z2k = Z64,
    by: Variant | None = None,
    bits: int = RANGE_BITS,
) -> Steps[tuple[AShare, AShare]]:
    """[x] at scale 20 -> ([sigma(x)], [sigma(x) (1 - sigma(x))]) at `scale` in `ring`, shape of x.

    |x| < 2^(bits - 21) - 12. `scale` is 1 .. 57 and below the bits of the ring. Keys for the comparison would be 1.4 KB
    an element: they are used where `by` names them, not by the party's setting.
    """
    by = by or ("bits" if party.comparison == "keys" else party.comparison)
    limits = [-CLIP << SCALE, CLIP << SCALE]
    (periodic, angle), low = yield from parallel(_series(party, x, scale), below.steps(party, x, limits, bits, by))
    under, over = low[..., 0], ~low[..., 1]
    inside = ~(under ^ over)
    half = np.array([1 << scale - 1, 0]).reshape(2, *[1] * x.ndim)
    inner, outer = yield from parallel(
        select.steps(party, inside.map(lambda b: b[None]), (periodic - half).narrow(ring)),
        to_ring.steps(party, stack([under, over]), ring),
    )
    outer = stack([outer[1] - outer[0], outer[0] + outer[1]])
    values = inner + outer.times(_ends(angle, scale), scale) + half
    return values[0], values[1]


describe(
    sigmoid,
    samples=calls(lambda i, n: [i.words(-(2**24), 2**24, n, scale=SCALE), 14], *BOTH),
    priced=calls(lambda i, n: [i.words(0, 1, n, scale=SCALE), 20], *BOTH, element="value and slope"),
    evidence=[
        Argued(
            "its table has 48 words of 64 bits; the rest is below, select, to_ring and truncate",
            "perfect: the angle is opened under a mask uniform modulo the period, and is thus fit for a public coin",
        )
    ],
)
