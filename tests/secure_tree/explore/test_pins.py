"""Rounds and bytes of the compositions of an exploration, to the byte, whatever the numbers are."""

import numpy as np
import pytest

from mpc.rings import Z32
from mpc.shares import AShare, BShare
from protocols.testing.two_parties import dealt, made_by_both, run_both
from secure_tree.explore import moments
from secure_tree.explore.noise import noisy
from secure_tree.functions.divergence import divergence, quotients
from secure_tree.owners.sums import _summed
from tests.secure_tree.explore.tables import ROWS, explored, parts, table

D, K, N = 5, 11, 60


def counts(party, *shape, seed=0, high=900):
    """Return shares of counts from 1, of which this party has a half."""
    return AShare(np.random.default_rng([seed, party.rank]).integers(1, high, shape).astype(np.uint64), party.rank)


COMPOSITIONS = {
    "divergence": lambda party, s: divergence(party, counts(party, D, K, seed=s), counts(party, D, K, seed=s + 1), 17),
    "quotients": lambda party, s: quotients(party, counts(party, 2, D, seed=s), counts(party, 2, D, seed=s + 1), 12),
    "noisy": lambda party, s: noisy(
        party, counts(party, 1, D, K, seed=s), counts(party, 1, D, K, seed=s + 1), np.full((1, D, K), -9 * s), 20
    ),
    "sums of an owner": lambda party, s: _summed(
        party,
        counts(party, N, D * K, seed=s).narrow(Z32),
        BShare(np.random.default_rng([s, party.rank]).integers(0, 2, (N, D * K), np.uint8), party.rank),
        counts(party, 1, N, seed=s),
    ),
    "crossed": lambda party, s: moments._crossed(party, columns(party, s), 40, 3, 2),
}


def columns(party, seed):
    return np.random.default_rng([seed, party.rank]).normal(size=(40, 3 - party.rank))


def cost(of, source=dealt, seed=1):
    _, parties = run_both(lambda party: party.run(of(party, seed)), source=source)
    totals = [party.meter.total for party in parties]
    return totals[0].rounds, totals[0].sent // 8, totals[0].received // 8


@pytest.mark.parametrize(
    ("name", "pinned"),
    [
        ("divergence", (22, 17070, 17070)),
        ("quotients", (13, 903, 903)),
        ("noisy", (3, 1348, 1348)),
        # Words of 64 bits: the masked columns of one party, those of the other.
        ("crossed", (2, 40 * 3 * 8, 40 * 2 * 8)),
        # Words of 32 bits: the bins, and a vector of labels; a bit for each sum.
        (
            "sums of an owner",
            (3, 4 * N * D * K + 4 * N + -(-2 * D * K // 8), 4 * N * D * K + 4 * N + -(-2 * D * K // 8)),
        ),
    ],
)
def test_compositions(name, pinned):
    assert cost(COMPOSITIONS[name]) == cost(COMPOSITIONS[name], seed=7) == pinned


def test_correlations_without_a_dealer_cost_one_bit_each_online():
    """The transfers are offline; online, a bit of each correlation widens it."""

    def crossed(party, seed):
        return moments._crossed_by_transfers(party, columns(party, seed), 40, 3, 2)

    assert cost(crossed, made_by_both) == (1, 1, 1)


def test_moments_by_rows_cost_nothing_per_row():
    def of(rows):
        X, y = table(rows=rows)
        asked = {"reveal": "numbers", "statistics": ("missing", "mean", "correlation")}
        _, parties = explored(parts(X, y, "horizontal"), **asked)
        total = parties[0].meter.total
        return total.rounds, total.sent // 8, total.received // 8

    assert of(ROWS) == of(ROWS + 400) == (117, 9130, 9130)
