"""Logistic function by a table: over its range, at the clip, far outside, its means, and when it is selected."""

import numpy as np
import pytest

from mpc.functions import sigmoid_table as module
from mpc.functions.sigmoid import sigmoid
from mpc.functions.sigmoid_table import GRID, sigmoid_table
from mpc.rings import Z32, Z64
from protocols.testing.two_parties import dealt, made_by_both, opened, ring_half, run_both

AT_CLIP = 1 / (1 + np.exp(12.0))


def evaluate(x, scale, ring=Z64, source=dealt, by=sigmoid_table, **named):
    words = np.round(x * 2.0**module.SCALE).astype(np.int64)
    results, parties = run_both(
        lambda party: by(party, ring_half(words, party.rank, scale=20), scale, ring, **named), source=source
    )
    assert results[0][0].scale == scale and results[0][0].ring == ring
    return [opened([r[k] for r in results]) / 2.0**scale for k in (0, 1)], parties


def sigma(x):
    p = 1 / (1 + np.exp(-x))
    return p, p * (1 - p)


@pytest.mark.parametrize(("scale", "ring"), [(2, Z32), (14, Z32), (20, Z64), (30, Z32), (40, Z64), (57, Z64)])
def test_zero_is_exact(scale, ring):
    (p, h), _ = evaluate(np.zeros(500), scale, ring)
    assert (p == 0.5).all() and (h == 0.25).all()


def test_multiples_of_the_grid_are_within_half_a_unit_of_the_table():
    for x in (np.arange(-12, 13), np.arange(-48, 49) / 4):
        (p, h), _ = evaluate(x, 40)
        value, slope = sigma(x)
        assert np.abs(p - value).max() < 2.4e-7 / 2 + 1e-12 and np.abs(h - slope).max() < 2.4e-7 / 2 + 1e-12


def test_inside_the_clip_the_result_is_a_neighbour_on_the_grid():
    x = np.round(np.linspace(-12, 12, 40001) * 2.0**20) / 2.0**20
    (p, h), _ = evaluate(x, 40)
    value, slope = sigma(x)
    assert np.abs(p - value).max() < 0.0125 and np.abs(h - slope).max() < 0.0049 and h.min() > 5.9e-6
    near = [
        np.abs([p - end[0], h - end[1]]) for end in map(sigma, (np.floor(x * GRID) / GRID, np.ceil(x * GRID) / GRID))
    ]
    assert np.minimum(*near).max() < 2.4e-7
    assert abs((p - value).mean()) < 2e-5 and abs((h - slope).mean()) < 2e-5


@pytest.mark.parametrize("x", [0.025, -0.025, 0.61, 1.33, -3.28, 7.01, -11.99])
def test_the_mean_at_any_argument(x):
    """The bound is six standard deviations of the rounding, plus the error of linear interpolation between entries."""
    x, count = round(x * 2**20) / 2**20, 40000
    (p, h), _ = evaluate(np.full(count, x), 40)
    value, slope = sigma(x)
    assert abs(p.mean() - value) < 3.1e-5 + 6 * p.std() / count**0.5
    assert abs(h.mean() - slope) < 4e-5 + 6 * h.std() / count**0.5


def test_the_error_of_interpolation_is_as_stated():
    x = np.linspace(-12, 12, 24 * GRID * 50 + 1)
    knots = np.arange(-12 * GRID, 12 * GRID + 1)
    (table,) = module.table().tables
    entries = np.array(table)[knots]
    values = [(entries & (1 << 22) - 1) / 2**22, 0.25 - (entries >> 22) / 2**22]
    for line, exact, most in zip(values, sigma(x), (3.1e-5, 4e-5), strict=True):
        assert np.abs(np.interp(x, knots / GRID, line) - exact).max() < most


def test_at_and_beyond_the_clip():
    for sign in (1, -1):
        (p, h), _ = evaluate(sign * np.linspace(12, 13, 2001), 40)
        assert np.abs(p - sigma(12.0 * sign)[0]).max() < 2.4e-7 and np.abs(h - sigma(12.0)[1]).max() < 2.4e-7
        far = np.array([12.8, 16, 25.5, 25.6, 44, 1000, 2.0**20])
        (p, h), _ = evaluate(sign * far, 40)
        assert np.abs(p - sigma(12.0 * sign)[0]).max() < 2.4e-7 and np.abs(h - sigma(12.0)[1]).max() < 2.4e-7


def test_the_caller_sets_the_range():
    far = np.array([2.0**35, 2.0**30 + 3, 2.0**22])
    (p, h), _ = evaluate(np.concatenate([far, -far]), 40, bits=58)
    assert np.abs(p - np.repeat([1.0, 0.0], 3)).max() < 6.5e-6 and np.abs(h - AT_CLIP).max() < 2.4e-7


def test_rounding_to_a_coarse_scale_is_unbiased():
    (p, h), _ = evaluate(np.full(40000, 13.0), 14, Z32)
    assert set(np.unique(h * 2**14)) == {0, 1} and abs(h.mean() - AT_CLIP) < 6e-7
    assert abs(p.mean() - (1 - AT_CLIP)) < 6e-7


def test_two_parties_without_a_dealer_use_this_sigmoid():
    x = np.concatenate([np.linspace(-13, 13, 301), [0, 2.0**20, -(2.0**20)]])
    (p, h), parties = evaluate(x, 20, source=made_by_both, by=sigmoid)
    value, slope = sigma(np.clip(x, -12, 12))
    assert np.abs(p - value).max() < 0.0125 and np.abs(h - slope).max() < 0.0049 and h[301] == 0.25 and p[301] == 0.5
    assert "windows.look_up" in parties[0].meter.by_protocol


def test_the_table_equals_that_of_a_library():
    (entries,) = module.table().tables
    places = (np.arange(512) ^ 256) - 256
    value, slope = sigma(np.clip(places / GRID, -12, 12))
    assert np.abs((np.array(entries) & (1 << 22) - 1) - value * 2**22).max() < 0.501
    assert np.abs((np.array(entries) >> 22) - (0.25 - slope) * 2**22).max() < 0.501
