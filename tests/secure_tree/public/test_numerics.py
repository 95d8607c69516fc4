"""Scales and ranges: every stage fits its integers at the extremes, from one row to two million."""

import numpy as np
import pytest

from mpc.errors import RangeError
from secure_tree.data.bins import bin_rows, make_bins, order_key, order_value
from secure_tree.public.config import TrainConfig
from secure_tree.public.numerics import GAIN_BITS, MARGIN_SCALE, SUM_BITS, Size, plan_numerics, reach_bits
from secure_tree.twin import search


def largest_sum(config, size, H):
    """Return the largest |G| that is possible with this H, in units of gradients."""
    limit = (0.98 * config.max_delta_step or 2 * (np.exp(12) + 1)) * (H + config.reg_lambda / size.hessian_unit)
    if config.squared:
        largest = 2 * np.sqrt(size.mass * max(H, 0 if size.masses else 1))
        return min(largest, limit) if config.max_delta_step else largest
    if config.power and config.power > 1:
        over = min(2.02 * 2 ** reach_bits(config, size) * size.mass, H / (config.power - 1))
        if config.power == 2:
            return min(max(over, size.mass), limit) if config.max_delta_step else max(over, size.mass)
        largest = max(over, min(2.02 * size.mass, H / (2 - config.power)))
        return min(largest, limit) if config.max_delta_step else largest
    return min((2.02 if config.counts else 1.0) * size.mass, limit)


@pytest.mark.parametrize("n", [2, 100, 569, 10_000, 100_000, 1_000_000, 2_000_000])
@pytest.mark.parametrize(
    "objective", ["binary:logistic", "reg:squarederror", "count:poisson", "reg:gamma", "reg:tweedie"]
)
@pytest.mark.parametrize("heaviest", [None, 1.0, 1e4, 1e6])
@pytest.mark.parametrize(
    "extra", [{}, {"reg_lambda": 1e6}, {"min_child_weight": 100}, {"min_split_loss": 1e9}, {"max_delta_step": 0.6}]
)
def test_corners(n, objective, heaviest, extra):
    config = TrainConfig.of(objective=objective, **extra)
    rows = n // 2, n - n // 2
    # All weights are 1, except `heaviest` in the last row of the second party.
    masses = None if heaviest is None else (rows[0] / heaviest, 1 + rows[1] / heaviest)
    size = Size(rows, masses, 1.0, heaviest or 1.0)
    numerics = plan_numerics(config, size)
    unit = 1 << numerics.histogram_scale
    of_counts = np.exp(0.7 + config.max_delta_step)
    of_power = 2.02 * 2**numerics.reach
    hessian = {"binary:logistic": 0.25, "reg:squarederror": 1.0, "count:poisson": of_counts}.get(objective, of_power)
    for m, r in zip(masses or rows, rows, strict=True):
        largest = {"reg:squarederror": 2 * np.sqrt(m * size.mass), "count:poisson": 2.02 * m}.get(objective, m)
        if objective in ("reg:gamma", "reg:tweedie"):
            largest = of_power * m
        assert max(largest, hessian * m) * unit + r < 2**30, "a block's sums fit a 32-bit word with a bit to spare"
    # The largest gain: all of G on one side, with the smallest and the largest hessian of a valid side.
    largest = round(size.mass * hessian * unit)
    for H in (min(numerics.min_weight - numerics.l2, largest), largest):
        G = np.array([round(largest_sum(config, size, H / unit) * unit)])
        for sign in (1, -1):
            exact = sign * int(G[0]) / (H + numerics.l2)
            by_weight, *weights, heavy = search.weights(numerics, sign * G, np.array([H]))
            assert heavy[0] or H + numerics.l2 < numerics.min_weight
            for w, scale in zip(weights, (numerics.weight_scale, MARGIN_SCALE), strict=True):
                assert abs(w[0] / 2**scale - exact) <= abs(exact) * 2**-15 + 2.0**-scale
            gain = int(by_weight[0]) * int(weights[0][0])
            assert 0 <= gain + numerics.split_loss < 2**GAIN_BITS
    # The words of the ranking of candidates.
    S = largest + 2 * numerics.l2
    assert 2**SUM_BITS > S and 2 * numerics.min_weight >= 2**numerics.node_low
    largest_G = max(round(largest_sum(config, size, largest / unit) * unit), 1)
    assert largest_G < 2**SUM_BITS
    assert numerics.slope.bits <= 64 and max(numerics.key_bits, numerics.ranked(False).key_bits) <= 15
    if numerics.split is not None:
        # Narrow words, and their comparison with min_weight.
        assert numerics.slope.bits > 32 and numerics.split.bits <= 64 and numerics.high + 3 <= 32
    if numerics.bounded:
        assert 2 * numerics.slope.largest + numerics.side.largest < 2**14, "the range of a sum of two logarithms"


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e12])
def test_penalties_are_held_to_what_sums_can_reach(unit):
    size = Size((1000, 1000), margin_unit=unit)
    config = TrainConfig.of(objective="reg:squarederror", reg_alpha=1e6, min_child_weight=1e6, min_split_loss=1e9)
    numerics = plan_numerics(config, size)
    largest = 2000 << numerics.histogram_scale
    assert 0 < numerics.l1 <= 2.1 * largest and numerics.l1 < 2**32
    assert largest < numerics.min_weight <= 1.1 * largest + numerics.l2
    small = plan_numerics(TrainConfig.of(objective="reg:squarederror", reg_alpha=1e-30), size)
    assert small.l1 == 1, "an alpha never rounds to 0: rounds do not depend on the unit"


def test_what_the_arithmetic_cannot_hold_is_refused():
    for config, n in ((TrainConfig(reg_lambda=0, min_child_weight=0), 20_000_000), (TrainConfig(), 20_000_000)):
        with pytest.raises(RangeError, match=f"{n} rows with reg_lambda .* do not fit the 64-bit arithmetic"):
            plan_numerics(config, Size((n // 2, n - n // 2)))
    numbers = TrainConfig.of(objective="reg:squarederror", reg_lambda=0, min_child_weight=0)
    plan_numerics(numbers, Size((50, 50)))
    with pytest.raises(RangeError, match="reg_lambda or min_child_weight must be above 0"):
        plan_numerics(numbers, Size((50, 50), (50.0, 50.0)))
    with pytest.raises(RangeError, match=r"max_delta_step must be 0 or at least 1 for .* got 0.7"):
        plan_numerics(TrainConfig.of(objective="reg:squarederror", max_delta_step=0.7), Size((50, 50), None, 1024))


RATIO = np.exp(12) + 1
LONG = {"n_estimators": 10_000, "learning_rate": 1.0}


@pytest.mark.parametrize(
    ("parameters", "n", "leaf"),
    [
        ({}, 10_000, 10_000 / 1.5),
        (LONG, 500_000, 500_000 / 1.5),
        ({**LONG, "min_child_weight": 9}, 500_000, 50_000),
        ({**LONG, "reg_lambda": 0, "min_child_weight": 0}, 50, 50 * 2**14),
        ({**LONG, "objective": "count:poisson"}, 500_000, 0.7),
    ],
)
def test_comparisons_with_margins_hold_the_largest_leaf_of_every_tree(parameters, n, leaf):
    config = TrainConfig(**parameters)
    numerics = plan_numerics(config, Size((n // 2, n - n // 2)))
    bits = numerics.margin_bits
    reached = 745 + config.n_estimators * config.learning_rate * min(leaf, 32 * RATIO)
    assert (reached + 12) * 2**MARGIN_SCALE < 2.0 ** (bits - 1)
    assert 42 <= bits <= 58 and (parameters or bits == 42)
    one = config.learning_rate * min(leaf, 32 * RATIO)
    assert one * 2**MARGIN_SCALE < 2.0 ** (numerics.leaf_bits - 2) <= 8 * one * 2**MARGIN_SCALE


def test_order_keys_keep_order_and_come_back():
    rng = np.random.default_rng(1)
    values = np.concatenate([
        rng.normal(size=1000), rng.normal(size=100) * 1e-42, [0, np.float32(1e38), -1e38, 1, -1, 3.4e38, -3.4e38]
    ]).astype(np.float32)  # fmt: skip
    keys = order_key(values)
    assert np.array_equal(np.argsort(keys, kind="stable"), np.argsort(values, kind="stable"))
    assert keys.min() >= 1 and keys.max() <= 2**32
    assert np.array_equal(order_value(keys), values)
    assert order_key(np.array([-0.0])) == order_key(np.array([0.0]))


def test_a_frequent_value_leaves_its_places_to_others():
    rng = np.random.default_rng(3)
    column = np.where(rng.random(1000) < 0.98, 0, rng.gamma(1, size=1000)).astype(np.float32)
    (edges,) = make_bins(column[:, None], 8).edges
    rest = column[column > 0]
    assert edges[0] == 0 and np.array_equal(
        edges[1:], np.quantile(rest, np.arange(1, 8) / 8, method="inverted_cdf").astype(np.float32)
    )


def test_bins_hold_what_they_say():
    rng = np.random.default_rng(2)
    features = np.stack([rng.normal(size=200), rng.integers(0, 5, 200), np.ones(200)], axis=1).astype(np.float32)
    bins = make_bins(features, 16)
    assert np.array_equal(make_bins(features, 16, 3).edges, bins.edges)
    for f in range(3):
        edges, numbers = bins.edges[f], bins.numbers[:, f].astype(int)
        assert (edges[numbers] <= features[:, f]).all()
        upper = np.append(edges, np.inf)[numbers + 1]
        assert ((features[:, f] < upper) | (upper == edges[-1])).all()
        for b in np.unique(numbers):
            values = np.sort(features[numbers == b, f])
            assert bins.medians[f, b] == values[(values.size - 1) // 2]
        assert (bins.medians[f][1:] >= bins.medians[f][:-1]).all()
    assert set(bins.edges[1]) == {0, 1, 2, 3, 4} and set(bins.edges[2]) == {1}
    assert bin_rows(np.array([[-9, -9, -9.0]], np.float32), bins.edges).tolist() == [[0, 0, 0]]
