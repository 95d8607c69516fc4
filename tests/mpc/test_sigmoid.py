"""Logistic function and derivative: over the series' range, at the clip, far outside, and its coefficients."""

from decimal import Decimal, localcontext

import numpy as np

from mpc import sigmoid as module
from mpc.rings import Z32, Z64
from mpc.sigmoid import sigmoid
from tests.mpc.twoparty import opened, ring_half, run_both


def evaluate(x, scale, ring=Z64, **named):
    words = np.round(x * 2.0**module.SCALE).astype(np.int64)
    results, parties = run_both(
        lambda party: sigmoid(party, ring_half(words, party.rank, scale=20), scale, ring, **named)
    )
    cost = sigmoid.cost(ring_half(words, 0), scale, ring, **named)
    for party in parties:
        assert (party.meter.total.rounds, party.meter.total.sent) == (cost.rounds, cost.bits[party.rank])
    assert results[0][0].scale == scale and results[0][0].ring == ring
    return [opened([r[k] for r in results]) / 2.0**scale for k in (0, 1)]


def test_inside_the_clip():
    x = np.concatenate([np.linspace(-12, 12, 4001), [0.0, 2.0**-20, -(2.0**-20)]])
    p, h = evaluate(x, 40)
    exact = 1 / (1 + np.exp(-x))
    assert np.abs(p - exact).max() < 3e-7
    assert np.abs(h - exact * (1 - exact)).max() < 7e-7 and h.min() > 0


def test_outside_the_clip_nothing_wraps():
    x = np.array([12.5, 16, 17, 31.9, 32, 44, 1000, 2.0**20])
    for sign in (1, -1):
        p, h = evaluate(sign * x, 40)
        assert np.abs(p - 1 / (1 + np.exp(-12.0 * sign))).max() < 1e-7
        assert (h > 0).all() and h.max() < 7e-6


def test_the_range_is_what_the_caller_asks_for():
    far = np.array([2.0**35, 2.0**30 + 3, 2.0**22])
    p, h = evaluate(np.concatenate([far, -far]), 40, bits=58)
    assert np.abs(p - np.repeat([1.0, 0.0], 3)).max() < 7e-6 and (h > 0).all() and h.max() < 7e-6


def test_the_values_at_the_clip_are_what_exact_arithmetic_gives():
    with localcontext(prec=60):
        small = Decimal(-module.CLIP).exp()
        exact = round(2**58 / (1 + small)), round(2**58 * small / (1 + small) ** 2)
    assert exact == (module.AT_CLIP, module.SLOPE_AT_CLIP)


def test_rounding_to_a_coarse_scale_is_unbiased():
    p, _ = evaluate(np.full(20000, 0.1), 8)
    exact = 1 / (1 + np.exp(-0.1))
    assert np.abs(p - exact).max() < 2.0**-8 and abs(p.mean() - exact) < 1e-4


def test_the_values_beyond_the_clip_are_rounded_without_bias():
    for sign in (1, -1):
        p, h = evaluate(np.full(40000, 13.0 * sign), 14, Z32)
        assert set(np.unique(h * 2**14)) == {0, 1}
        at_clip = np.exp(-12) / (1 + np.exp(-12))
        assert abs(h.mean() - at_clip) < 4e-7 and abs(p.mean() - (0.5 + sign * (0.5 - at_clip))) < 4e-7


def test_in_a_small_ring():
    x = np.concatenate([np.linspace(-12, 12, 801), [-2000, -12.5, 12.5, 2000]])
    p, h = evaluate(x, 28, Z32)
    exact = 1 / (1 + np.exp(-np.clip(x, -12, 12)))
    assert np.abs(p - exact).max() < 3e-7 and np.abs(h - exact * (1 - exact)).max() < 7e-7


def test_the_derivative_at_zero_never_falls_below_a_quarter():
    _, h = evaluate(np.zeros(20000), 14)
    assert (h >= 0.25).all() and (h == 0.25).mean() > 0.99


def test_the_coefficients_are_the_least_squares_fit():
    x = np.linspace(-12, 12, 40001)
    s = 1 / (1 + np.exp(-x))
    angles = 2 * np.pi / 32 * x[:, None] * np.arange(25)
    sines = np.linalg.lstsq(np.sin(angles[:, 1:]), s - 0.5, rcond=None)[0]
    at_zero = 0.25 + 2.0**-25
    others = np.linalg.lstsq(np.cos(angles[:, 1:]) - 1, s * (1 - s) - at_zero, rcond=None)[0]
    cosines = np.array([at_zero - others.sum(), *others])
    assert np.abs(module.SINES - sines * 2.0**28).max() < 1 and np.abs(module.COSINES - cosines * 2.0**28).max() < 1
