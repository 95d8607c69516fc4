"""Quadratics between knots and the logarithm, over their ranges."""

import numpy as np

from secure_tree.curves import EXP, EXP_LAST, LOG_SIGMOID, SOFTPLUS, logarithm, quadratics
from secure_tree.numerics import MARGIN_SCALE
from tests.mpc.twoparty import opened, ring_half, run_both

UNIT = 1 << MARGIN_SCALE


def on_shares(function, words, *arguments):
    results, _ = run_both(lambda party: party.run(function(party, ring_half(words, party.rank), *arguments)))
    return opened(results) / UNIT


def test_quadratics():
    x = np.concatenate([np.linspace(-20, 20, 4001), [-2000, 2000]])
    assert np.abs(on_shares(quadratics, np.round(x * UNIT), SOFTPLUS) - np.logaddexp(0, x)).max() < 1e-4
    grown = np.exp(np.minimum(x, EXP_LAST))
    assert (np.abs(on_shares(quadratics, np.round(x * UNIT), EXP) - grown) < 2e-4 * grown + 3e-5).all()
    clipped = 12 - np.logaddexp(0, -np.clip(x, -12, 12))
    assert np.abs(on_shares(quadratics, np.round(x * UNIT), LOG_SIGMOID) - clipped).max() < 1e-4


def test_logarithm():
    x = np.unique(np.round(np.geomspace(1 << 6, (1 << 29) - 1, 3000)).astype(int))
    assert np.abs(on_shares(logarithm, x, 6, 28) - np.log(x)).max() < 1e-4
