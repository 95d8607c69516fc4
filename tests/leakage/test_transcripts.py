"""Leakage assessment: no bit of a transcript distinguishes fixed inputs from random ones, and a planted leak is found.

The sender holds the whole input and the receiver's share is 0: a share that is uniform by itself would hide a leak.
Seeds are fixed; with fresh ones, the comparison of two groups would report a false leak once in 10^5 (see welch.py).
"""

from functools import partial, reduce

import numpy as np
import pytest

from mpc.arithmetic.beaver import Triples
from mpc.protocol.catalogue import calls, entries
from mpc.protocol.contract import REGISTRY
from mpc.rounds import open_shares
from mpc.shares import AShare, BShare
from mpc.words import U64, encode_signed
from protocols.testing.cases import RandomInputs, cases
from protocols.testing.two_parties import Recorder, run_both
from tests.leakage.welch import FixedInputs, Tally, leaking_positions

BATCH = 10_000
LANES = cases(entries(), lanes=True)
IDS = [case.name for case in LANES]


def held_by(sender, party, rng):
    """Inputs with a trivial sharing: `sender` has the values, the other party has zeros."""

    def ring_half(values, rank, dtype=U64, scale=0):
        words = encode_signed(np.asarray(values), dtype)
        return AShare(words if rank == sender else np.zeros_like(words), rank, scale)

    def bit_half(bits, rank):
        bits = np.asarray(bits, np.uint8)
        return BShare(bits if rank == sender else np.zeros_like(bits), rank)

    return RandomInputs(party, rng, ring_half, bit_half)


def tally(protocol, call, inputs, sender, lanes, first_seed):
    """Tally what `sender` sends in `lanes` runs, batch by batch; `inputs(batch)` makes their generator."""

    def job(party, batch):
        given = call.arguments(held_by(sender, party, inputs(batch)), min(lanes, BATCH))
        party.link = Recorder(party.link)
        protocol(party, *given, **call.named)
        return party.link.arrays

    tallies = []
    for batch in range(-(-lanes // BATCH)):
        seeds = tuple((first_seed + 4 * batch + rank).to_bytes(16, "little") for rank in (0, 1))
        messages = run_both(partial(job, batch=batch), seeds)[0][sender]
        tallies.append(Tally.by_lane(messages, min(lanes, BATCH)))
    return reduce(Tally.__add__, tallies)


def leaks(sender, protocol, call, lanes):
    """Return the positions that distinguish fixed inputs from random ones, and the number of positions."""
    fixed = tally(protocol, call, lambda _: FixedInputs(5), sender, lanes, 11)
    other = tally(protocol, call, lambda batch: np.random.default_rng([6, batch]), sender, lanes, 13)
    return leaking_positions(fixed, other).tolist(), fixed.ones.size


def assess(case, lanes):
    assessed = 0
    for sender in (0, 1):
        found, positions = leaks(sender, case.protocol, case.call, lanes)
        assert found == []
        assessed += positions
    assert assessed > 0


def test_every_protocol_is_assessed():
    assert {case.protocol.name for case in LANES} == set(REGISTRY)


@pytest.mark.parametrize("case", LANES, ids=IDS)
def test_no_bit_distinguishes_fixed_from_random(case):
    assess(case, 2_000)


@pytest.mark.long
@pytest.mark.parametrize("case", LANES, ids=IDS)
def test_no_bit_distinguishes_fixed_from_random_in_100000_runs(case):
    assess(case, 100_000)


def weak_mask(party, x, y):
    """A product whose first mask lacks its lowest bit."""
    a, b, _ = party.randomness.take(Triples(x.shape, x.ring))
    keep = np.uint64(0xFFFFFFFFFFFFFFFE)
    party.run(open_shares(x.map(lambda w: w - (a & keep)), y.map(lambda w: w - b)))


def test_a_planted_leak_is_found():
    (bits,) = calls(lambda i, n: [i.words(0, 2, n), i.words(0, 2, n)])
    for sender in (0, 1):
        assert leaks(sender, weak_mask, bits, 2_000) == ([0], 128)
