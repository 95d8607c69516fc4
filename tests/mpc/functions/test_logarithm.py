"""Logarithms over their whole range: the stated error, equality with the twin, and the edges of every window."""

import math

import numpy as np
import pytest

from mpc.errors import RangeError
from mpc.functions.logarithm import (
    BELOW,
    LEADING,
    LEAST_READ,
    STEP,
    UNIT_MOST,
    Logarithm,
    LogarithmMasks,
    _apart,
    logarithm,
    rounded_logarithm,
)
from mpc.shares import AShare
from mpc.words import decode_signed
from protocols.testing.two_parties import Dealt, opened, ring_half, run_both

RNG = np.random.default_rng(5)


def in_range(log, most):
    """Return powers of two and their neighbours, and numbers of every magnitude; of both signs if `log` is signed."""
    powers = [2**k + d for k in range(62) for d in (-1, 0, 1)]
    places = [log.place + BELOW + STEP * j for j in range(log.count)]
    edges = [v << p for p in places for v in range(LEADING - 2, LEADING + 3)]
    drawn = np.exp2(RNG.uniform(0, np.log2(most), 3000)).astype(np.int64)
    x = np.concatenate([[0, most], powers, edges, drawn])
    x = x[(x >= 0) & (x <= most)]
    return np.concatenate([x, -x]) if log.signed else x


LOGARITHMS = [
    (Logarithm.of(64, 4000, 2**23, signed=True), 2**23),
    (Logarithm.of(32, 2000, 2**23), 2**23),
    (Logarithm.of(64, 80, 495, signed=True), 495),
    (Logarithm.of(32, 80, 1007), 1007),
    (Logarithm.of(32, 80, 1008), 1008),
    (Logarithm.of(160, 80 << 27, 2**61, signed=True), 2**61),
    (Logarithm.of(64, 80 << 25, 2**60), 2**60),
]


def exact(x, log):
    least = LEAST_READ << log.place
    return log.unit * np.log2(np.maximum(np.abs(x.astype(float)), least) / least)


def away(x, log):
    """Exclude the range in which the logarithm may be 0."""
    least = LEAST_READ << log.place
    return (np.abs(x) <= least) | (np.abs(x) >= 1.2 * least)


@pytest.mark.parametrize(("log", "most"), LOGARITHMS)
def test_the_error_is_as_stated_and_the_twin_is_equal(log, most):
    x = in_range(log, most)

    def job(party):
        party.randomness = Dealt(party.randomness)
        return logarithm(party, ring_half(x, party.rank), log), party.randomness.given

    results, parties = run_both(job)
    found = decode_signed(opened([share for share, _ in results]))
    ((_, first),), ((_, second),) = (
        [(request, part) for request, part in given if isinstance(request, LogarithmMasks)] for _, given in results
    )
    r = first[0] + second[0]
    assert np.array_equal(found, rounded_logarithm(x, r, log))
    least = LEAST_READ << log.place
    assert np.abs(found - exact(x, log))[away(x, log)].max() <= 0.019 * log.unit + 0.5
    assert (found[np.abs(x) <= least] == 0).all()
    assert found.max() <= log.largest
    assert parties[0].meter.total.rounds == (4 if log.count == 1 else 5 + log.signed)


def test_every_number_and_many_masks_in_the_clear():
    log = Logarithm.of(64, 80, 2**13, signed=True)
    assert log.count == 3
    x = np.arange(-(2**13), 2**13 + 1)
    for _ in range(40):
        found = rounded_logarithm(x, RNG.integers(0, 2**63, x.shape).astype(np.uint64), log)
        assert np.abs(found - exact(x, log))[away(x, log)].max() <= 0.019 * 64 + 0.5


def test_tables_are_rounded_as_by_the_library():
    (table,) = Logarithm.of(128, 80, 254).value.tables
    assert list(table[LEAST_READ:]) == [round(128 * math.log2(v / LEAST_READ)) for v in range(LEAST_READ, len(table))]


@pytest.mark.parametrize(("unit", "least", "most"), [(UNIT_MOST + 1, 80, 99), (32, 79, 99), (32, 80, 2**60)])
def test_parameters_out_of_range_are_refused(unit, least, most):
    with pytest.raises(RangeError):
        Logarithm.of(unit, least, most)


@pytest.mark.parametrize("base", [0, 3000])
@pytest.mark.parametrize("signed", [False, True])
def test_an_audit_allows_what_coins_do_and_no_more(signed, base):
    """Of signed numbers, one of the smallest logarithms may be 0; nothing else may differ by more than the coins."""
    log = Logarithm(64, 4, 5, signed, base)
    coins, most = 4, base + 20
    large = most + 500
    allowed = [(large, large + d) for d in (-coins, 0, coins)] + [(0, 0)]
    refused = [(large, large + d) for d in (-coins - 1, coins + 1, 512, -large, 1 << 14, -2 * large, 1 << 15)]
    (allowed if signed else refused).extend([(0, most), (most, 0)])
    refused += [(0, most + 1), (most + 1, 0), (most, -most - 1)]
    pairs = np.array(allowed + refused)

    def job(party):
        first, second = (ring_half(column, party.rank, np.dtype(np.uint16)) for column in pairs.T)
        return party.run(_apart(party, first, second, AShare(np.zeros(len(pairs), np.uint64), party.rank), log))

    found = opened(run_both(job)[0]).any(axis=-1)
    assert found.tolist() == [False] * len(allowed) + [True] * len(refused)
