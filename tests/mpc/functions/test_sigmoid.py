"""Logistic function and derivative: over the range of the series, at the clip, far outside, and the coefficients."""

from decimal import Decimal, localcontext

import numpy as np

from mpc.functions import sigmoid as module
from mpc.functions.sigmoid import sigmoid
from mpc.functions.sigmoid_table import CLIP, SCALE
from mpc.rings import Z32, Z64
from protocols.testing.two_parties import opened, ring_half, run_both


def evaluate(x, scale, ring=Z64, **named):
    words = np.round(x * 2.0**SCALE).astype(np.int64)
    results, parties = run_both(
        lambda party: sigmoid(party, ring_half(words, party.rank, scale=20), scale, ring, **named)
    )
    cost = sigmoid.cost(ring_half(words, 0), scale, ring, **named)
    for party in parties:
        assert (party.meter.total.rounds, party.meter.total.sent) == (cost.rounds, cost.bits[party.rank])
    assert results[0][0].scale == scale and results[0][0].ring == ring
    return [opened([r[k] for r in results]) / 2.0**scale for k in (0, 1)]


def sigma(x):
    """Return the exact value and derivative."""
    p = 1 / (1 + np.exp(-x))
    return p, p * (1 - p)


def on_grid(x):
    return np.round(x * 2.0**20) / 2.0**20


def test_inside_the_clip():
    x = on_grid(np.concatenate([np.linspace(-12, 12, 40001), np.linspace(-0.3, 0.3, 4001), [2.0**-20, -(2.0**-20)]]))
    p, h = evaluate(x, 40)
    value, slope = sigma(x)
    assert np.abs(p - value).max() < 4e-7
    assert np.abs(h - slope).max() < 6e-7 and h.min() > 4e-6


def test_the_mean_at_any_argument():
    for x in on_grid(np.array([0.0, 0.1, 1.0, -3.3, 8.0, -10.6, 11.9])):
        p, h = evaluate(np.full(2000, x), 40)
        value, slope = sigma(x)
        assert abs(p.mean() - value) < 2e-7 and abs(h.mean() - slope) < 4e-7, x


def test_between_the_clip_and_a_step_beyond_it():
    x = on_grid(np.linspace(11.9, 12.6, 4001))
    for sign in (1, -1):
        p, h = evaluate(sign * x, 40)
        exact, clipped = sigma(sign * x), sigma(sign * 12.0)
        near = np.minimum(np.abs([p - exact[0], h - exact[1]]), np.abs([p - clipped[0], h - clipped[1]]))
        assert near[0].max() < 4e-7 and near[1].max() < 6e-7
        assert np.abs(p - exact[0])[x <= 12].max() < 4e-7 and np.abs(p - clipped[0])[x >= 12.25].max() < 1e-9


def test_outside_the_clip_nothing_wraps():
    x = np.array([12.5, 16, 17, 31.9, 32, 44, 1000, 2.0**20])
    for sign in (1, -1):
        p, h = evaluate(sign * x, 40)
        assert np.abs(p - 1 / (1 + np.exp(-12.0 * sign))).max() < 1e-7
        assert (h > 0).all() and h.max() < 7e-6


def test_the_caller_sets_the_range():
    far = np.array([2.0**35, 2.0**30 + 3, 2.0**22])
    p, h = evaluate(np.concatenate([far, -far]), 40, bits=58)
    assert np.abs(p - np.repeat([1.0, 0.0], 3)).max() < 7e-6 and (h > 0).all() and h.max() < 7e-6


def test_the_values_at_the_clip_are_those_of_exact_arithmetic():
    with localcontext(prec=60):
        small = Decimal(-CLIP).exp()
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
    value, slope = sigma(np.clip(x, -12, 12))
    assert np.abs(p - value).max() < 4e-7 and np.abs(h - slope).max() < 6e-7


def test_the_derivative_at_zero_never_falls_below_a_quarter():
    _, h = evaluate(np.zeros(20000), 14)
    assert (h >= 0.25).all() and (h == 0.25).mean() > 0.99


def test_the_coefficients_are_the_least_squares_fit():
    x = np.linspace(-0.3, 12.3, 40001)
    value, slope = sigma(x)
    angles = 2 * np.pi * 13 / 2**8 * x[:, None] * np.arange(12)
    cosines, sines = np.cos(angles), np.sin(angles[:, 1:])
    fit = np.linalg.lstsq(np.hstack([cosines, sines]), value - 0.5, rcond=None)[0]
    at_zero = 0.25 + 2.0**-22
    others = np.linalg.lstsq(np.hstack([cosines[:, 1:] - 1, sines]), slope - at_zero, rcond=None)[0]
    exact = [fit[:12], fit[12:], np.array([at_zero - others[:11].sum(), *others[:11]]), others[11:]]
    tables = [module.VALUE_COSINES, module.VALUE_SINES, module.SLOPE_COSINES, module.SLOPE_SINES]
    for table, coefficients in zip(tables, exact, strict=True):
        assert np.abs(table - coefficients * 2.0**28).max() < 1
