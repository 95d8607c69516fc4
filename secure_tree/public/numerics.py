"""Scales and ranges of the split search, chosen from public numbers so that no integer exceeds 62 bits.

G and H are integers at `histogram_scale`, a weight w = G / (H + lambda) is at `weight_scale`, and the gain G w of a
node at the sum of both scales. Candidates are ranked by logarithms of these integers. docs/numerics.md lists the scale
and error of every stage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mpc.errors import RangeError
from mpc.functions.logarithm import Logarithm
from mpc.functions.sigmoid_table import RANGE_BITS
from secure_tree.public.config import POWER_SCALE, TrainConfig
from secure_tree.public.exact import ceil_log2, exp

GAIN_BITS = 62
PRODUCT_BITS = 61
MARGIN_SCALE = 20
# A learning rate is an integer of up to RATE_BITS bits at a scale of its own.
RATE_BITS = 16
WEIGHT_INPUT_SCALE = 28
# Numbers over the label bound.
LABEL_SCALE = 34
RECIPROCAL_BITS = 18
STEP_SCALE = 22
# A step times H + 2 lambda is below 2^STEP_BITS.
STEP_BITS = PRODUCT_BITS - STEP_SCALE
# The logit of any float, or a base score over the label scale, is well below 2^10.
FIRST_MARGIN_BOUND = 1024.0
# Under reg:pseudohubererror, labels and base scores are at most this many slopes.
MOST_SLOPES = 2.0**20
# A base score that is a Newton step is at most 2^NEWTON_OCTAVES slopes.
NEWTON_OCTAVES = 8
LEAST_MARGIN_BITS = RANGE_BITS
# The finest scales of histograms and of weights. Those of numbers and counts are finer because a single outlier can
# dominate their unit: the root mean square of the labels' distances, or the largest count.
FINEST, FINEST_OF_NUMBERS, FINEST_OF_WEIGHTED = (14, 16), (18, 20), 29
COARSEST_HISTOGRAM, COARSEST_WEIGHT = 6, 12

# Sums of G, and of H + 2 lambda, are below 2^SUM_BITS; so are those of a node times its power of two s, for which
# s (H + 2 lambda) is at least 2^NODE_HIGH.
SUM_BITS = 30
NODE_HIGH = SUM_BITS - 1
# The bits of the quotients by which categories are ordered.
ORDER_BITS = 40
# The ranking of candidates: units of a logarithm per octave; the smallest |u|, in units of the histogram, that differs
# from 0; and the most windows that this may take.
LOG_UNIT = 64
LEAST_U, WINDOWS_OF_U = 4, 9
# LOG_UNIT log2 LEAST_READ, rounded.
LOG_LEAST = 405
# Sides below FINE_SIDE, and G after the soft threshold by alpha, are read at a scale finer by FINER_SIDE bits. A
# logarithm of 0 is lower by ZERO_LOG.
FINE_SIDE, FINER_SIDE, ZERO_LOG = 128, 7, 3000

# Bounds of |g| of a row, in units of the gradients. A predicted count over the label scale is at most e^0.7
# (secure_tree/functions/curves.py, EXP); so is A of secure_tree/functions/powers.py, and B over its reach.
LARGEST_EXP = 2.02
GRADIENT_BOUND = {
    "binary:logistic": 1.0,
    "reg:logistic": 1.0,
    "multi:ova": 1.0,
    "multi:softprob": 1.0,
    "count:poisson": 2.02,
    "reg:pseudohubererror": 1.0,
}
LARGEST_COUNT = 0.7
# The most octaves of labels above their mean under reg:gamma and reg:tweedie, and the bits that sums have for them.
MOST_OCTAVES, OCTAVE_BITS = 10, 28
# The margin is multiplied by a power of POWER_SCALE bits.
POWER_MARGIN_BITS = 62 - POWER_SCALE
# secure_tree/functions/softmax.py compares margins in words of 32 bits.
MOST_SOFTMAX_BITS = 48
# Squared error: the factor by which boosting can raise the root mean square of the residuals. A leaf weight approaches
# the mean of its rows, of which a subsample contains only some.
OVERSHOOT, OVERSHOOT_OF_SAMPLES = 2.0, 8.0

# |g| / h <= e^12 + 1 because the margin is clipped to +-12. A sum of few stochastically rounded h can be less than its
# mean: by half if lambda + min_child_weight keeps denominators large, by far more if they are near zero.
CLIPPED_RATIO = exp(12) + 1
ROUNDING_SLACK, ROUNDING_SLACK_NEAR_ZERO = 2, 32
# The smallest max_delta_step, in units of the margins. A smaller one would have too few digits.
SMALLEST_STEP = 2.0**-10


@dataclass(frozen=True)
class OrderNumerics:
    """How -G / (H + smoothing) of categories is computed, with H + smoothing in 2^low .. 2^(high + 1).

    early: the bits that a floor removes from G s, and shift those that it removes from G s y. bits: differences of the
    results are below 2^bits.
    """

    smoothing: int
    low: int
    high: int
    early: int
    shift: int
    bits: int


@dataclass(frozen=True)
class Numerics:
    """Scales in fractional bits; thresholds in units of the histogram scale (see the header).

    low, high: H + lambda of a valid side is in 2^low .. 2^(high + 1). node_low: H + 2 lambda of a node that can be
    split is at least 2^node_low. side: the logarithm of H + lambda after a shift to the left by side_shift bits.
    slope: the logarithm of u, or with a largest step of p - d and p + d; split: without either, that of s a b, if it
    takes the place of those of a and b; shrunk: with an alpha, the logarithm of t - K and t + K
    (secure_tree/tree/score.py). largest_step: the largest |w| in units of 2^-STEP_SCALE, 0 if there is none.
    hessian_factor: e^max_delta_step in the same units, for counts. reach: with a power above 1, the bits of the largest
    B (secure_tree/functions/powers.py). margin_bound: the magnitude of a margin is
    below 2^margin_bound units. leaf_bits: that of a leaf weight times the learning rate is below 2^(leaf_bits - 2).
    """

    histogram_scale: int
    weight_scale: int
    low: int
    high: int
    node_low: int
    side_shift: int
    side: Logarithm
    slope: Logarithm
    split: Logarithm | None
    shrunk: Logarithm | None
    early_shift: int
    l2: int
    l1: int
    min_weight: int
    split_loss: int
    largest_step: int
    margin_bound: int
    hessian_factor: int
    reach: int
    leaf_bits: int

    def ranked(self, dealer: bool) -> Numerics:
        """Return the numerics of a search: without a dealer, a product of so many bits takes too many transfers."""
        return self if dealer else replace(self, split=None)

    @property
    def order(self) -> OrderNumerics:
        """How the categories of a column are ordered. H is smoothed by lambda and min_child_weight."""
        high = self.high + 1
        largest = SUM_BITS + high - self.low
        early = max(0, largest + RECIPROCAL_BITS - PRODUCT_BITS)
        product = largest - early + RECIPROCAL_BITS
        shift = max(1, product - ORDER_BITS)
        return OrderNumerics(self.min_weight, self.low, high, early, shift, product - shift + 1)

    @property
    def margin_bits(self) -> int:
        """The bits of comparisons with a margin."""
        return _margin_bits(self.margin_bound)

    @property
    def weight_shift(self) -> int:
        """The bits that a floor removes from G s y to give w at the weight scale."""
        return RECIPROCAL_BITS + self.high - self.early_shift - self.weight_scale

    @property
    def leaf_shift(self) -> int:
        """Likewise for a leaf weight at MARGIN_SCALE."""
        return RECIPROCAL_BITS + self.high - self.early_shift - MARGIN_SCALE

    @property
    def gain_scale(self) -> int:
        """The scale of G w."""
        return self.histogram_scale + self.weight_scale

    @property
    def bounded(self) -> bool:
        """Whether candidates are ranked by gains under the largest step. With an alpha, the step is ignored here."""
        return self.largest_step > 0 and self.shrunk is None

    @property
    def key_bits(self) -> int:
        """The bits of a candidate's key: its score, below 2^score_bits, and whether it is valid."""
        return self.score_bits + 1

    @property
    def score_bits(self) -> int:
        """The bits of a score (secure_tree/tree/score.py)."""
        if self.bounded:
            return (2 * self.slope.largest + self.side.largest + LOG_UNIT).bit_length()
        most = self.slope.largest
        if self.split is not None:
            return (most + self.split.largest).bit_length()
        if self.shrunk is not None:
            reach = 2 * (self.shrunk.largest + LOG_UNIT * (NODE_HIGH - self.node_low))
            most = max(most, reach + self.shrunk_offset) + LOG_UNIT
        return (most + 2 * self.side.largest).bit_length()

    @property
    def shrunk_offset(self) -> int:
        """The offset that brings the logarithms of t - K and t + K to the unit of 2 log |u| - log a - log b."""
        assert self.shrunk is not None, "there is an alpha"
        shifts = self.shrunk.place - FINER_SIDE - self.slope.place + self.side.place - self.side_shift
        return 2 * (LOG_UNIT * shifts + LOG_LEAST - self.shrunk.base)


@dataclass(frozen=True)
class Size:
    """The public size of a training.

    rows: of each block that makes up the table. masses: bounds of the sums of weights of these blocks, over the weight
    scale; None if no row has a weight. margin_unit, hessian_unit: as in `PublicFacts`.
    """

    rows: tuple[int, ...]
    masses: tuple[float, ...] | None = None
    margin_unit: float = 1.0
    hessian_unit: float = 1.0

    @property
    def mass(self) -> float:
        return sum(self.masses or self.rows)


def plan_numerics(config: TrainConfig, size: Size) -> Numerics:
    """Choose the scales for a training. Raises RangeError if the integers cannot fit the arithmetic."""
    _check_steps(config, size)
    finest, finest_weight = FINEST if config.logistic else FINEST_OF_NUMBERS
    # If a few rows have most of the weight, the others need finer units.
    extra = 0
    if size.masses is not None:
        finest, extra = FINEST_OF_WEIGHTED, max(0, ceil_log2(sum(size.rows) / size.mass))
    best: tuple[tuple[float, ...], Numerics] | None = None
    for f in range(finest, COARSEST_HISTOGRAM - 1, -1):
        for fw in range(finest_weight, COARSEST_WEIGHT - 1, -1):
            choice = _choose(config, size, f, fw)
            if choice is None:
                continue
            # Prefer scales without an extra floor, unless this costs the histogram more than two bits.
            merit = (min(f - extra, 12), -(choice.early_shift > 0), f, fw)
            if best is None or merit > best[0]:
                best = merit, choice
    if best is None:
        raise RangeError(
            f"{sum(size.rows)} rows with reg_lambda {config.reg_lambda:g} and min_child_weight "
            f"{config.min_child_weight:g} do not fit the 64-bit arithmetic of the split search"
        )
    return best[1]


def _check_steps(config: TrainConfig, size: Size) -> None:
    """Raise RangeError if leaf weights have no bound, or if max_delta_step is too small for the units."""
    step = config.max_delta_step / size.margin_unit
    if 0 < step < SMALLEST_STEP:
        raise RangeError(
            f"max_delta_step must be 0 or at least {SMALLEST_STEP * size.margin_unit:g} for labels of this spread, "
            f"got {config.max_delta_step:g}"
        )
    if _bounds(config, size, config.reg_lambda + config.min_child_weight, step) is None:
        raise RangeError(
            f"reg_lambda or min_child_weight must be above 0 under {config.objective}"
            f"{' with sample_weight' * config.squared}, got 0 for both: leaf weights would have no bound"
        )


@dataclass(frozen=True)
class _Bounds:
    """Bounds of |G|, of h of a row with weight 1, of |w| and of the gain, in units of gradients and margins."""

    G: float
    hessian: float
    weight: float
    gain: float


def _bounds(config: TrainConfig, size: Size, least: float, step: float) -> _Bounds | None:
    """Return the bounds, or None if leaf weights have none.

    `least` is lambda + min_child_weight, and `step` the largest |w|, or 0.
    """
    mass = size.mass
    slack = ROUNDING_SLACK if least >= 2**-6 else ROUNDING_SLACK_NEAR_ZERO
    if config.squared:
        # By Cauchy-Schwarz from sum w g^2 <= overshoot^2 mass, which the unit of margins ensures.
        overshoot = OVERSHOOT if config.subsample == 1 else OVERSHOOT_OF_SAMPLES
        if size.masses is None:
            # Hessians are exactly numbers of rows.
            least, slack = max(least, 1.0), 1
        if least == 0:
            return None
        G, hessian = overshoot * mass, 1.0
        weight, gain = slack * overshoot * math.sqrt(mass / least), slack * overshoot**2 * mass
    elif config.power and config.power > 1:
        # g = A - B and h = (2 - p) A + (p - 1) B, so |w| is at most 1 / (p - 1) upwards and 1 / (2 - p) downwards.
        up, down = 1 / (config.power - 1), 1 / (2 - config.power) if config.power < 2 else math.inf
        of_labels = LARGEST_EXP * 2.0 ** reach_bits(config, size) * mass
        of_means = mass * (LARGEST_EXP if config.power < 2 else 1.0)
        if least > 0:
            up, down = min(up, of_labels / least), min(down, of_means / least)
        if math.isinf(down):
            return None
        G, hessian = max(of_labels, of_means), max(of_labels, of_means) / mass
        weight, gain = slack * max(up, down), slack * max(of_labels * up, of_means * down)
    else:
        bound = GRADIENT_BOUND[config.objective]
        G, hessian = bound * mass, 0.25
        ratio = slack * CLIPPED_RATIO
        weight = min(ratio, G / least) if least > 0 else ratio
        if config.counts:
            hessian, weight = exp(LARGEST_COUNT + config.max_delta_step), math.inf
        if config.pseudo_huber or config.softmax:
            # Far from its label, a row has a gradient of 1 and hardly a hessian, or none.
            if least == 0:
                return None
            # The probabilities of a row, each rounded by itself, may add up to more than 1.
            hessian, weight = 0.75 if config.softmax else 1.0, G / least
        gain = G * weight
    if step and step < weight:
        # A gain is (2 G - B) w, where B is G clipped by the step: at most 2 |G| times the step.
        weight = min(2 * weight, 2.02 * step)
        gain = min(2 * gain, G * weight)
    return _Bounds(G, hessian, weight, gain)


def reach_bits(config: TrainConfig, size: Size) -> int:
    """Return the bits of the largest B that the sums leave room for; 0 without a power above 1."""
    if not config.power or config.power == 1:
        return 0
    octaves = min(MOST_OCTAVES, OCTAVE_BITS - COARSEST_HISTOGRAM - ceil_log2(max(size.mass, 1)))
    return max(0, math.floor((config.power - 1) * octaves))


def _choose(config: TrainConfig, size: Size, f: int, fw: int) -> Numerics | None:
    """Return the numerics at these scales of histograms and weights, or None if some integer would not fit."""
    unit, n = 1 << f, sum(size.rows)
    alpha = config.reg_alpha / size.hessian_unit / size.margin_unit
    l2 = round(config.reg_lambda / size.hessian_unit * unit)
    # A side without any hessian has no weight.
    min_weight = max(1, l2 + math.ceil(config.min_child_weight / size.hessian_unit * unit))
    step = config.max_delta_step / size.margin_unit
    bounds = _bounds(config, size, min_weight / unit, step)
    if bounds is None:
        return None
    # Each row may be rounded up by one unit.
    largest, largest_G = l2 + math.ceil(size.mass * bounds.hessian * unit) + n, math.ceil(bounds.G * unit) + n
    low, high = min(min_weight, largest).bit_length() - 1, largest.bit_length() - 1
    largest_step = round(step * (1 << STEP_SCALE)) if step < bounds.weight else 0
    if max(largest + l2, largest_G) >= 1 << SUM_BITS:
        return None
    if largest_step * (largest + l2) >= 1 << STEP_BITS + STEP_SCALE:
        return None
    weight_bits = max(1, ceil_log2(bounds.weight))
    early = max(0, weight_bits + high + RECIPROCAL_BITS - PRODUCT_BITS)
    if RECIPROCAL_BITS + high - early <= max(fw, MARGIN_SCALE) or early >= high:
        return None
    loss = min(config.min_split_loss / size.hessian_unit / (size.margin_unit * size.margin_unit), bounds.gain)
    # The unit of squared error depends on labels and must not change the shapes: reserve room for any min_split_loss.
    gain_bits = ceil_log2(bounds.gain + (bounds.gain if config.squared else loss))
    if gain_bits + f + fw > GAIN_BITS:
        return None
    margin_bound = _margin_bound(config, bounds.weight)
    if config.power and 1 < config.power < 2 and _margin_bits(margin_bound) > POWER_MARGIN_BITS:
        return None
    if config.softmax and _margin_bits(margin_bound) > MOST_SOFTMAX_BITS:
        return None
    min_weight = min(min_weight, largest + 1)
    side_shift = FINER_SIDE if min_weight < FINE_SIDE else 0
    sides = Logarithm.of(LOG_UNIT, min_weight << side_shift, largest << side_shift)
    return Numerics(
        histogram_scale=f,
        weight_scale=fw,
        low=low,
        high=high,
        node_low=min(NODE_HIGH, (2 * min_weight).bit_length() - 1),
        side_shift=side_shift,
        side=sides,
        slope=_slope(largest_G, largest_step > 0 and not alpha),
        # With s S in 2^NODE_HIGH .. 2^SUM_BITS, s a b is s S times a b / S, which is in min_weight / 2 .. S / 4.
        split=None
        if alpha or largest_step
        else Logarithm.of(LOG_UNIT, min_weight << NODE_HIGH - 1, largest + l2 << SUM_BITS - 2),
        shrunk=Logarithm.of(LOG_UNIT, LEAST_U << FINER_SIDE, 2 * largest_G << FINER_SIDE, True, ZERO_LOG)
        if alpha
        else None,
        early_shift=early,
        l2=l2,
        # No sum exceeds the largest, so a larger alpha has the same effect. A positive alpha must not round to 0.
        l1=min(max(round(alpha * unit), 1), largest_G) if alpha else 0,
        min_weight=min_weight,
        split_loss=math.ceil(math.ldexp(loss, f + fw)),
        largest_step=largest_step,
        margin_bound=margin_bound,
        hessian_factor=round(exp(config.max_delta_step) * (1 << STEP_SCALE)) if config.counts else 0,
        reach=reach_bits(config, size),
        leaf_bits=_leaf_bits(config, bounds.weight),
    )


def _slope(largest: int, bounded: bool) -> Logarithm:
    """Return the logarithm of u^2 for |u| up to the largest |G|, at the scale of the node.

    If bounded, it is instead the logarithm of one of the two factors, which are up to four times larger.
    """
    unit, more, base = (LOG_UNIT, 2, ZERO_LOG) if bounded else (2 * LOG_UNIT, 0, 0)
    least = LEAST_U << NODE_HIGH + more
    while True:
        log = Logarithm.of(unit, least, largest << SUM_BITS + more, signed=True, base=base)
        if log.count <= WINDOWS_OF_U:
            return log
        least *= 2


def _margin_bound(config: TrainConfig, weight_bound: float) -> int:
    """Return the bits of a margin's magnitude, which is the first margin plus the leaves of each round of trees."""
    grown = config.n_estimators * config.learning_rate * weight_bound
    first = MOST_SLOPES if config.pseudo_huber else FIRST_MARGIN_BOUND
    return MARGIN_SCALE + ceil_log2(first + grown)


def _margin_bits(margin_bound: int) -> int:
    return max(LEAST_MARGIN_BITS, margin_bound + 2)


def _leaf_bits(config: TrainConfig, weight_bound: float) -> int:
    """Return the bits of what a leaf adds to a margin, with room for twice its bound in either direction.

    They are at most 48, because the truncation after the product with the learning rate takes at most 62 bits.
    """
    rate = config.leaf_rate * (1 + 2.0**-RATE_BITS)
    return min(62 - RATE_BITS, max(8, MARGIN_SCALE + ceil_log2(2 * rate * weight_bound))) + 2


def leaf_rate(config: TrainConfig) -> tuple[int, int]:
    """Return the rate of leaf weights as an integer and its scale. The relative error is at most 2^-RATE_BITS."""
    scale = RATE_BITS - ceil_log2(config.leaf_rate)
    return round(math.ldexp(config.leaf_rate, scale)), scale


def given_margin(config: TrainConfig) -> int | None:
    """Return the margin of a given base_score of classes or counts at MARGIN_SCALE; None if it is estimated."""
    if config.squared or config.base_score is None:
        return None
    return round(config.base_margin / (config.huber_slope if config.pseudo_huber else 1.0) * (1 << MARGIN_SCALE))
