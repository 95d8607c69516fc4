"""Correlated OT of both kinds: the relation, the bits, sessions, and faults of the peer."""

import os
from itertools import pairwise

import numpy as np
import pytest

from mpc.errors import ProtocolDesync
from protocols.ot import base, ferret, softspoken
from protocols.ot.consistency import TAKEN
from protocols.ot.correlated import set_up
from protocols.testing.two_parties import run_both
from tests.protocols.ot.pairs import SESSION, check, correlated

KINDS = ("ferret", "softspoken")


def distinct(blocks):
    """Return whether no two blocks have the same upper word."""
    ordered = np.sort(blocks[:, 1])
    return bool((ordered[1:] != ordered[:-1]).all())


@pytest.mark.parametrize("kind", KINDS)
def test_millions_in_each_direction(kind):
    # The second count takes two iterations of Ferret.
    counts = 1, 2_300_000
    for delta, made in correlated(kind, counts):
        for count, (q, choices, t) in zip(counts, made, strict=True):
            assert q.shape[0] >= count
            check(delta, q, choices, t)
            # Within five standard deviations: the ones among the bits, and among those where a bit of q is set.
            for some in (
                choices,
                *(choices[q[:, w] >> np.uint64(b) & np.uint64(1) == 1] for w, b in ((0, 1), (1, 63))),
            ):
                assert abs(2 * some.mean() - 1) < 5 / some.size**0.5
            assert distinct(q)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_many_iterations(kind):
    for delta, made in correlated(kind, (10**7, 10**7)):
        for q, choices, t in made:
            check(delta, q, choices, t)


@pytest.mark.parametrize("kind", KINDS)
def test_sessions_and_directions_have_nothing_in_common(kind):
    def fixed(size):
        return bytes(i % 251 for i in range(size))

    first, second = (correlated(kind, (1,), session=bytes([i]) * 32, draw=fixed) for i in range(2))
    blocks = [made[0][0] for run in (first, second) for _, made in run]
    assert distinct(np.concatenate(blocks))


@pytest.mark.parametrize("kind", KINDS)
def test_the_bits_are_independent_of_either_delta(kind):
    (first, ((_, bits, _),)), (second, ((_, others, _),)) = correlated(kind, (10**6,))
    for delta in (first, second):
        ones = np.unpackbits(delta.view(np.uint8), bitorder="little")
        for choices in (bits, others):
            agreement = choices[: choices.size // 128 * 128].reshape(-1, 128) == ones
            assert abs(2 * agreement.mean() - 1) < 5 / agreement.size**0.5


def test_no_counter_is_encrypted_twice_under_a_key(monkeypatch):
    used, folds, adds = [], softspoken.fold_streams, ferret.add_rows

    def streams(schedules, first, blocks, *sums):
        used.extend((key.tobytes(), first, first + blocks.shape[1]) for key in schedules)
        folds(schedules, first, blocks, *sums)

    def rows(out, leaves, table, schedules, first, lowest):
        # Two blocks per sum.
        used.extend((key.tobytes(), 2 * first, 2 * (first + len(out))) for key in schedules)
        adds(out, leaves, table, schedules, first, lowest)

    monkeypatch.setattr(softspoken, "fold_streams", streams)
    monkeypatch.setattr(ferret, "add_rows", rows)
    correlated("softspoken", (1, 20000))
    correlated("ferret", (1, 1), session=bytes(32))
    # Ferret's public code is the same at sender and receiver; every other key is drawn by one party.
    spans = sorted(set(used))
    assert len(spans) > 1000
    for (key, _, end), (other, start, _) in pairwise(spans):
        assert key != other or end <= start


def test_each_iteration_starts_from_blocks_that_nobody_else_has():
    rng = np.random.default_rng(4)
    sender = ferret.FerretSender(
        SESSION, rng.integers(0, 2**64, 2, np.uint64), rng.integers(0, 2**64, (ferret.KEPT, 2), np.uint64)
    )
    blocks = [sender._state._kept]
    for count in (1, ferret.FRESH + 1):
        steps = sender.extend(count)
        next(steps)
        steps.send([])
        steps.send([np.zeros(24, np.uint8)])
        with pytest.raises(StopIteration) as done:
            steps.send([])
        blocks += [done.value.value, sender._state._kept]
    everything = np.concatenate(blocks)
    assert len(everything) == 3 * ferret.FRESH + 3 * ferret.KEPT - 2 * TAKEN and distinct(everything)


def test_trees_of_each_iteration_have_a_permutation_of_their_own(monkeypatch):
    keys, plain = [], ferret.permutation_key
    monkeypatch.setattr(ferret, "permutation_key", lambda *names: keys.append(plain(*names)) or keys[-1])
    correlated("ferret", (1, 1))
    # Two directions and iterations, each group of trees and the code, each at sender and receiver.
    groups = ferret.TREES // ferret._GROUP
    assert len(keys) == 8 * (groups + 1) and len(set(keys)) == 4 * (groups + 1)


def flipped(sums, arguments):
    return sums ^ np.uint64(2)


def beside(grown, arguments):
    missing, known = grown
    return missing ^ 1, known


def flipped_if_subtracted(keys, arguments):
    return keys ^ np.uint8(arguments[2] < 0) * LAST


# Only in the seed, every value of which is valid.
LAST = np.arange(1184) == 1183
FAULTS = {
    "sum of keys in base OT": ("softspoken", base, "_sum", flipped_if_subtracted),
    "sums of trees": ("softspoken", softspoken, "grow", flipped),
    "missing leaf": ("softspoken", softspoken, "grow_punctured", beside),
    "sums of half-trees": ("ferret", ferret, "grow", flipped),
    "place of the noise": ("ferret", ferret, "grow_punctured", beside),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(monkeypatch, fault):
    kind, module, name, change = FAULTS[fault]
    correct = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *arguments: change(correct(*arguments), arguments))
    with pytest.raises(ProtocolDesync, match="contradict each other"):
        correlated(kind, (1,))


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_of_another_length(kind):
    """The peer extends by a different number of COTs."""

    def job(party):
        sender, receiver = party.run(set_up(party.rank, SESSION, kind, os.urandom))
        more = (softspoken.BATCH if kind == "softspoken" else ferret.FRESH) + 1
        party.run(receiver.extend(more) if party.rank else sender.extend(1))

    with pytest.raises(ProtocolDesync, match=r"expected .*, got"):
        run_both(job)
