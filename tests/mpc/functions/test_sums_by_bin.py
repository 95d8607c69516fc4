"""Sums of one party's numbers by the other's bins: both owners, bits and numbers, with a dealer and without."""

import numpy as np
import pytest

from mpc.errors import ProtocolDesync, ShapeMismatch
from mpc.functions import sums_by_bin as module
from mpc.functions.sums_by_bin import ChosenSums, sums_by_bin
from mpc.rings import Z8
from protocols.offline.dealer.local_dealer import LocalDealer
from protocols.testing.two_parties import SEEDS, dealt, made_by_both, opened, run_both

D, K = 5, 4


def sums(bins, numbers):
    return np.stack([[np.bincount(bins[:, f], row, K) for f in range(D)] for row in numbers])


def run(rows, owner, count, bits, source=dealt, seed=1):
    rng = np.random.default_rng(seed)
    columns, numbers = rng.integers(0, K, (rows, D)), rng.integers(0, 1 << bits, (count, rows))

    def job(party):
        own = (columns.astype(np.uint8), None) if party.rank == owner else (None, numbers.astype(np.uint16))
        return sums_by_bin(party, owner, *own, rows, D, K, count, bits)

    halves, parties = run_both(job, source=source)
    assert np.array_equal(opened(halves), sums(columns, numbers))
    return halves, parties


@pytest.mark.parametrize("source", [dealt, made_by_both])
@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize(("rows", "count", "bits"), [(1, 1, 1), (126, 1, 1), (127, 2, 1), (1000, 3, 1), (300, 2, 12)])
def test_sums(source, owner, rows, count, bits):
    run(rows, owner, count, bits, source)


def test_full_blocks_of_the_largest_numbers():
    """A block of one more row would not fit: `widen` needs two bits to spare."""
    rows = 3 * 126 + 5
    assert module._blocks(module.Z8, 1) == 126 and module._blocks(module.Z32, 16) == 32768
    columns, ones = np.zeros((rows, D), np.uint8), np.ones((1, rows), np.uint16)

    def job(party):
        own = (columns, None) if party.rank == 0 else (None, ones)
        return sums_by_bin(party, 0, *own, rows, D, K)

    assert np.array_equal(opened(run_both(job)[0]), sums(columns, ones))


def test_portions_of_features_are_joined(monkeypatch):
    monkeypatch.setattr(module, "PORTION", 200 * K * 2)
    for source in (dealt, made_by_both):
        run(200, 0, 2, 1, source)


def test_the_bytes_of_a_cell():
    """One byte per row, feature and bin one way, one byte per row back, and one bit per sum of a block each way."""
    rows = 1260
    _, parties = run(rows, 0, 1, 1)
    total = parties[0].meter.total
    assert (total.rounds, total.sent // 8, total.received // 8) == (3, rows * D * K + 10 * D * K // 8, rows + 25)


@pytest.mark.parametrize("rows", [0, 7])
def test_a_party_without_features_has_no_sums(rows):
    def job(party):
        own = (np.zeros((rows, 0), np.uint8), None) if party.rank == 0 else (None, np.zeros((1, rows), np.uint8))
        return sums_by_bin(party, 0, *own, rows, 0, K)

    halves, parties = run_both(job)
    assert halves[0].shape == (1, 0, K) and parties[0].meter.total.rounds == 0


def test_bad_shapes_are_refused():
    with pytest.raises(ShapeMismatch, match=r"must have the shape \(9, 5\)"):
        run_both(lambda party: sums_by_bin(party, 0, np.zeros((8, D), np.uint8), np.zeros((1, 9), np.uint8), 9, D, K))


def test_a_dealer_refuses_sums_by_transfers():
    with pytest.raises(ProtocolDesync, match="need no dealer"):
        LocalDealer(0, SEEDS, bytes(16)).take(ChosenSums(1, 0, 9, D * K, 1, 126, Z8))
