"""Leakage assessment: no bit of a transcript tells fixed inputs from random ones, and a planted leak is found.

The sender holds the whole input and the receiver's share is 0: a share that is uniform by itself would hide a leak.
"""

import numpy as np
import pytest

from mpc.beaver import Triples
from mpc.party import open_shares
from mpc.ring import U64, encode_signed
from mpc.shares import AShare, BShare
from tests.leakage.welch import FixedInputs, by_lane, leaking_positions
from tests.mpc import cases
from tests.mpc.cases import CASES, IDS
from tests.mpc.twoparty import Recorder, run_both

# Matrices are one input, not one a lane, and what reveals tells its result by design.
LANES = [
    pytest.param(case, id=name)
    for name, case in zip(IDS, CASES, strict=True)
    if not any(part in name for part in ("fixed_operand", "linear_map", "matmul", "reveal", "bit_product.select"))
]


def held_by(sender, monkeypatch):
    """Let the cases share every input trivially: `sender` has it, the other party has zeros."""

    def ring_half(values, rank, dtype=U64, scale=0):
        words = encode_signed(np.asarray(values), dtype)
        return AShare(words if rank == sender else np.zeros_like(words), rank, scale)

    def bit_half(bits, rank):
        bits = np.asarray(bits, np.uint8)
        return BShare(bits if rank == sender else np.zeros_like(bits), rank)

    monkeypatch.setattr(cases, "ring_half", ring_half)
    monkeypatch.setattr(cases, "bit_half", bit_half)


def transcripts(protocol, arguments, named, inputs, seed, lanes):
    def job(party):
        given = arguments(party, inputs, lanes)
        party.link = Recorder(party.link)
        protocol(party, *given, **named)
        return party.link.arrays

    seeds = (seed.to_bytes(16, "little"), (seed + 1).to_bytes(16, "little"))
    return [by_lane(messages, lanes) if any(messages) else None for messages in run_both(job, seeds)[0]]


def leaks(sender, protocol, arguments, named, lanes):
    fixed = transcripts(protocol, arguments, named, FixedInputs(5), 11, lanes)[sender]
    other = transcripts(protocol, arguments, named, np.random.default_rng(6), 13, lanes)[sender]
    return [] if fixed is None else leaking_positions(fixed, other).tolist()


def assess(case, lanes, monkeypatch):
    for sender in (0, 1):
        held_by(sender, monkeypatch)
        assert leaks(sender, case.protocol, case.arguments, case.named, lanes) == []


@pytest.mark.parametrize("case", LANES)
def test_no_bit_tells_fixed_from_random(case, monkeypatch):
    assess(case, 2_000, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("case", LANES)
def test_no_bit_tells_fixed_from_random_in_100000_runs(case, monkeypatch):
    assess(case, 100_000, monkeypatch)


def weak_mask(party, x, y):
    """A product whose first mask has lost its lowest bit."""
    a, b, _ = party.randomness.take(Triples(x.shape, x.dtype))
    keep = np.uint64(0xFFFFFFFFFFFFFFFE)
    party.run(open_shares("leak", x.map(lambda w: w - (a & keep)), y.map(lambda w: w - b)))


def test_a_planted_leak_is_found(monkeypatch):
    for sender in (0, 1):
        held_by(sender, monkeypatch)
        assert leaks(sender, weak_mask, cases.ring(0, 2, count=2), {}, 2_000) == [0]
