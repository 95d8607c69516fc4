"""Softmax and the logarithm of its sum, beside float64, over the whole range of margins."""

import numpy as np
import pytest

from mpc.rings import Z32, Z64
from mpc.words import decode_signed
from protocols.testing.two_parties import dealt, made_by_both, opened, ring_half, run_both
from secure_tree.functions.softmax import curvature, log_sum, softmax
from secure_tree.public.numerics import LEAST_MARGIN_BITS, MARGIN_SCALE, MOST_SOFTMAX_BITS

UNIT = 1 << MARGIN_SCALE


def margins_of(classes, n=4000, seed=1):
    """Return margins whose differences are of every size, some of them far from 0."""
    rng = np.random.default_rng(seed)
    away = rng.normal(size=(classes, n)) * rng.choice([0.01, 1, 4, 100], n) + rng.choice([0, 0, -1e4, 1e5], n)
    away[:, :3] = [-(2.0**19), 2.0**19, 0]
    away[0, :3] -= 3
    return np.round(away * UNIT) / UNIT


def exact(margins):
    grown = np.exp(margins - margins.max(axis=0))
    return grown / grown.sum(axis=0)


def on_shares(job, margins, source):
    return run_both(
        lambda party: party.run(job(party, ring_half(margins * UNIT, party.rank, scale=MARGIN_SCALE))), source=source
    )[0]


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_probabilities(classes):
    margins = margins_of(classes, 4000 if classes < 1000 else 60)
    p = exact(margins)
    found = opened(on_shares(lambda party, m: softmax(party, m, LEAST_MARGIN_BITS, 20), margins, dealt))
    off = found / 2**20 - p
    assert (np.abs(off) < 5e-3 * p + 1.2e-3 * p.max(axis=0) * p + 7e-6 + 2.0**-20).all()
    near = p > p.max(axis=0) / 100
    assert (np.abs(off) < 1.6e-3 * p + 2.0**-20)[near].all()
    assert (found >= 0).all() and np.abs(off.mean(axis=1)).max() < 1e-4
    assert np.abs(found.sum(axis=0) / 2**20 - 1).max() < 6e-5 + classes * 2.0**-20


def test_without_a_third_party_and_with_most_bits():
    margins = margins_of(3, 200)
    margins[:, 5] = [2.0**25, -(2.0**25), 2.0**25]
    found = opened(on_shares(lambda party, m: softmax(party, m, MOST_SOFTMAX_BITS, 20), margins, made_by_both))
    assert np.abs(found / 2**20 - exact(margins)).max() < 2e-3


@pytest.mark.parametrize(("scale", "ring"), [(14, Z32), (6, Z32), (20, Z64)])
def test_probabilities_and_curvatures_of_a_round(scale, ring):
    margins = margins_of(5, 20_000)

    def job(party, m):
        p = yield from softmax(party, m, LEAST_MARGIN_BITS, scale, ring)
        return p, (yield from curvature(party, p, scale))

    halves = on_shares(job, margins, dealt)
    words = [decode_signed(opened([half[i] for half in halves]).astype(f"u{ring.bits // 8}")) for i in (0, 1)]
    (found, curved), p = (w / 2.0**scale for w in words), exact(margins)
    h, unit = 2 * p * (1 - p), 2.0**-scale
    assert np.abs(found - p).max() < unit + 3e-4 and (curved >= 0).all()
    # The probabilities of a row may add up to a few units more than 1.
    assert np.abs(curved - h).max() < 7 * unit + 6e-4 and curved.max() < 0.5 + 5 * unit + 1e-4
    # Rounding is without bias, also in the product.
    assert np.abs((curved - h).mean(axis=1)).max() < 1e-4 + 4 * unit / 140


@pytest.mark.parametrize("classes", [2, 10])
def test_the_logarithm_of_the_sum(classes):
    margins = margins_of(classes, 1000)
    found = opened(on_shares(lambda party, m: log_sum(party, m, LEAST_MARGIN_BITS), margins, dealt)) / UNIT
    largest = margins.max(axis=0)
    assert np.abs(found - largest - np.log(np.exp(margins - largest).sum(axis=0))).max() < 1e-3
