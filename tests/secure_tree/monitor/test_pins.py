"""Rounds and bytes of the compositions of a monitoring, to the byte, whatever the numbers are."""

import numpy as np
import pytest

from mpc.shares import AShare, BShare
from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree.monitor import calibration, scores
from secure_tree.monitor.drift import drift
from secure_tree.monitor.fairness import fairness
from secure_tree.monitor.known import Known
from secure_tree.public.layout import Layout
from tests.secure_tree.monitor.rows import config

N, K = 600, 3
LAYOUT = Layout("vertical", (N, N), (1, 1), (4, 4))


def words(party, *shape, seed=0, bits=24, scale=0):
    """Return shares of numbers from 0, of which this party has a half."""
    rng = np.random.default_rng([seed, party.rank])
    return AShare(rng.integers(1, 1 << bits, shape).astype(np.uint64), party.rank, scale)


def bits(party, *shape, seed=0):
    return BShare(np.random.default_rng([seed, party.rank]).integers(0, 2, shape).astype(np.uint8), party.rank)


def known(party, seed, together):
    rng = np.random.default_rng(seed)
    labels, places = rng.integers(0, 2, N).astype(np.uint8), rng.integers(0, K, N)
    holder = 1 if together else 0
    scored = scores.Scored(words(party, N), LAYOUT, 30, "")
    return Known.of(
        party.rank, scored, labels if party.rank == holder else None, places if party.rank == 1 else None, K, together
    )


def between_groups(party, seed, together=False, loss=True):
    asked = config(statistics=("parity", "odds", "calibration", *(["loss"] if loss else [])))
    p = words(party, N, seed=seed, bits=11, scale=12)
    losses = words(party, N, seed=seed, bits=20, scale=20) if loss else None
    return fairness(party, asked, known(party, seed, together), bits(party, N, seed=seed), p, losses)


COMPOSITIONS = {
    "counts": lambda party, s: scores.counts(party, bits(party, N, 7, seed=s)),
    "bins": lambda party, s: scores.bins(party, words(party, N, scale=20), bits(party, N, 2, seed=s), (-6.0, 6.0), 96),
    "fairness": between_groups,
    "fairness together": lambda party, s: between_groups(party, s, True, False),
    "classes": lambda party, s: calibration.class_counts(party, bits(party, N, 12, seed=s), bits(party, N, seed=s)),
    "curves": lambda party, s: calibration.curves(
        party, config(statistics=("auc", "ks")), words(party, 2, 96, seed=s, bits=4), N, words(party, 2, 96, bits=4)
    ),
    "calibration error": lambda party, s: calibration.calibration_error(
        party,
        config(statistics=("ece",)),
        bits(party, N, 12, seed=s),
        words(party, 2, 12, bits=5),
        words(party, N, seed=s, bits=11, scale=12),
    ),
    "slope": lambda party, s: calibration.slope(
        party,
        config(statistics=("slope",)),
        bits(party, N, seed=s),
        words(party, bits=8),
        words(party, N, seed=s, bits=11, scale=12),
    ),
    "drift": lambda party, s: drift(
        party, config(statistics=("scores",)), "scores", words(party, 1, 12, bits=5), words(party, 1, 12, bits=5), N
    ),
}


def cost(of, source=dealt, seed=1):
    _, parties = run_both(lambda party: party.run(of(party, seed)), source=source)
    total = parties[0].meter.total
    return total.rounds, total.sent // 8, total.received // 8


@pytest.mark.parametrize(
    ("name", "pinned"),
    [
        ("counts", (2, 530, 530)),
        ("bins", (4, 10950, 10950)),
        ("fairness", (24, 9363, 9363)),
        ("fairness together", (22, 4718, 4718)),
        ("classes", (3, 2790, 2790)),
        ("curves", (22, 15639, 15639)),
        ("calibration error", (6, 2928, 2928)),
        ("slope", (22, 14650, 14650)),
        ("drift", (22, 3238, 3238)),
    ],
)
def test_compositions(name, pinned):
    assert cost(COMPOSITIONS[name]) == cost(COMPOSITIONS[name], seed=7) == pinned


@pytest.mark.parametrize(("name", "pinned"), [("counts", (2, 530, 530)), ("fairness", (24, 9363, 9363))])
def test_without_a_dealer(name, pinned):
    assert cost(COMPOSITIONS[name], made_by_both) == pinned
