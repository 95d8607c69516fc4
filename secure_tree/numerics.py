"""Scales and ranges of the split search, chosen from public numbers so that no integer leaves 62 bits.

G, H are integers at `histogram_scale`; a weight w = G / (H + lambda) at `weight_scale`; a gain G_L w_L + G_R w_R at
`gain_scale`; a key is (gain << rank_bits) + tie rank. Scale and error of every stage: docs/numerics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mpc.errors import RangeError
from mpc.sigmoid import RANGE_BITS
from secure_tree.config import MAX_DELTA_STEP, TrainConfig
from secure_tree.public import ceil_log2, exp

KEY_BITS = 62
PRODUCT_BITS = 61
MARGIN_SCALE = 20
LEAF_SCALE = 20
RATE_SCALE = 16
WEIGHT_INPUT_SCALE = 16
RECIPROCAL_BITS = 18
STEP_SCALE = 16
# The logit of any float, or a base score over the label scale, is well below 2^10.
FIRST_MARGIN_BOUND = 1024.0
LEAST_MARGIN_BITS = RANGE_BITS
FINEST_HISTOGRAM, COARSEST_HISTOGRAM = 14, 8
FINEST_WEIGHT, COARSEST_WEIGHT = 16, 12

# |g| is at most 1 under logistic loss. Squared error is normalised by the label scale; 4 leaves room for overshoot.
# A count over the label scale is held to e^0.7, its hessian to e^1.4 (secure_tree/curves.py, EXP).
GRADIENT_BOUND = {"binary:logistic": 1.0, "multi:ova": 1.0, "reg:squarederror": 4.0, "count:poisson": 2.02}
HESSIAN_BOUND = {"binary:logistic": 0.25, "multi:ova": 0.25, "reg:squarederror": 1.0, "count:poisson": 4.06}

# |g| / h <= e^12 + 1 once the margin is clipped to +-12. A sum of few stochastically rounded h can fall short of
# its mean: by half where lambda + min_child_weight keeps denominators large, by far more where they are near zero.
CLIPPED_RATIO = exp(12) + 1
ROUNDING_SLACK, ROUNDING_SLACK_NEAR_ZERO = 2, 32


@dataclass(frozen=True)
class Numerics:
    """Scales in fractional bits, thresholds in units of the histogram scale (see the header).

    largest_step: the largest |w| in units of 2^-STEP_SCALE, 0 where there is none. margin_bits: of comparisons with a
    margin, which is below 2^(margin_bits - 2) units in either direction.
    """

    histogram_scale: int
    weight_scale: int
    gain_scale: int
    rank_bits: int
    low: int
    high: int
    early_shift: int
    l2: int
    l1: int
    min_weight: int
    split_loss: int
    largest_step: int
    margin_bits: int

    @property
    def weight_shift(self) -> int:
        """Bits that a floor takes off G s y to give w at the weight scale."""
        return RECIPROCAL_BITS + self.high - self.early_shift - self.weight_scale

    @property
    def leaf_shift(self) -> int:
        """The same for a leaf weight at LEAF_SCALE."""
        return RECIPROCAL_BITS + self.high - self.early_shift - LEAF_SCALE

    @property
    def gain_shift(self) -> int:
        """Bits that a floor takes off G w."""
        return self.histogram_scale + self.weight_scale - self.gain_scale


def plan_numerics(
    config: TrainConfig, rows: tuple[int, ...], candidates: int, label_scale: float = 1.0, weighted: bool = False
) -> Numerics:
    """The scales for a training on blocks of `rows` that make up the table; `candidates` a node, with the null split.

    Raises RangeError where the rows are too many, or n and lambda too far apart, for the arithmetic.
    """
    best: tuple[tuple, Numerics] | None = None
    for f in range(FINEST_HISTOGRAM, COARSEST_HISTOGRAM - 1, -1):
        for fw in range(FINEST_WEIGHT, COARSEST_WEIGHT - 1, -1):
            choice = _choose(config, rows, candidates, label_scale, weighted, f, fw)
            if choice is None:
                continue
            # Fewer extra floors first, unless that costs the histogram more than two bits.
            floors = (choice.early_shift > 0) + (choice.gain_shift > 0)
            merit = (min(f, 12), -floors, f + min(choice.gain_scale, 24), fw)
            if best is None or merit > best[0]:
                best = merit, choice
    if best is None:
        raise RangeError(
            f"{sum(rows)} rows with reg_lambda {config.reg_lambda:g} and min_child_weight "
            f"{config.min_child_weight:g} do not fit the 64-bit arithmetic of the split search"
        )
    return best[1]


def _choose(
    config: TrainConfig, rows: tuple[int, ...], candidates: int, label_scale: float, weighted: bool, f: int, fw: int
) -> Numerics | None:
    n = sum(rows)
    bound = GRADIENT_BOUND[config.objective]
    unit = 1 << f
    if max(rows) * (max(bound, HESSIAN_BOUND[config.objective]) * unit + 1) >= 1 << 30:
        return None
    l2 = round(config.reg_lambda * unit)
    least = l2 + math.ceil(config.min_child_weight * unit)
    largest = l2 + math.ceil(n * (HESSIAN_BOUND[config.objective] * unit + 1))
    low, high = max(1, min(least, largest)).bit_length() - 1, largest.bit_length() - 1
    if high > 44:
        return None
    weight_bound = _weight_bound(config, n, least / unit, weighted)
    weight_bits = max(1, ceil_log2(weight_bound))
    early = max(0, weight_bits + high + RECIPROCAL_BITS - PRODUCT_BITS)
    if RECIPROCAL_BITS + high - early <= max(fw, LEAF_SCALE) or early >= high:
        return None
    largest_gain = n * bound * weight_bound
    loss = min(config.min_split_loss / (label_scale * label_scale), largest_gain)
    gain_bits = ceil_log2(largest_gain + loss)
    rank_bits = candidates.bit_length()
    gain_scale = min(f + fw, KEY_BITS - rank_bits - gain_bits)
    if gain_bits + f + fw > KEY_BITS or gain_scale < 1:
        return None
    return Numerics(
        histogram_scale=f,
        weight_scale=fw,
        gain_scale=gain_scale,
        rank_bits=rank_bits,
        low=low,
        high=high,
        early_shift=early,
        l2=l2,
        l1=round(config.reg_alpha / label_scale * unit),
        min_weight=least,
        split_loss=math.ceil(math.ldexp(loss, f + fw)),
        largest_step=round(MAX_DELTA_STEP * (1 << STEP_SCALE)) if config.counts else 0,
        margin_bits=_margin_bits(config, weight_bound),
    )


def _margin_bits(config: TrainConfig, weight_bound: float) -> int:
    """Bits of a comparison with a margin: the first one and a leaf from every round of trees, in either direction."""
    grown = config.n_estimators * config.learning_rate * weight_bound
    return max(LEAST_MARGIN_BITS, MARGIN_SCALE + ceil_log2(FIRST_MARGIN_BOUND + grown) + 2)


def _weight_bound(config: TrainConfig, n: int, least: float, weighted: bool) -> float:
    """Largest |G / (H + lambda)| of a valid candidate, `least` being lambda + min_child_weight."""
    bound = GRADIENT_BOUND[config.objective]
    if config.counts:
        # Twice the largest step: a gain has 2 G - (the G that the step allows) times w, at most 2 |G| w.
        return 2.02 * MAX_DELTA_STEP
    if not config.logistic and not weighted:
        return bound * 1.01
    slack = ROUNDING_SLACK if least >= 2**-6 else ROUNDING_SLACK_NEAR_ZERO
    ratio = slack * (CLIPPED_RATIO if config.logistic else bound)
    return min(ratio, n * bound / least) if least > 0 else ratio
