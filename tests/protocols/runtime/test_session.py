"""A job of two party processes and a dealer, with the documented interface."""

import os

import numpy as np
import pytest

from mpc.beaver import Triples
from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.rings import Z64
from protocols.randomness.supply import AHEAD
from protocols.runtime import memory, run_local

X, Y = np.array([[3, -4], [5, 6]]), np.array([[1, 7], [5, -2]])


def held(party, owner, values):
    return party.share(values if party.rank == owner else None, owner=owner)


def test_operators_on_shares_within_a_job():
    def job(party):
        x, y = held(party, 0, X), held(party, 1, Y)
        told = [x + y, x * y, x @ y, x.sum(axis=0), x < y]
        opened = [party.reveal(share, what="a result").astype(np.int64) for share in told]
        return opened, party.reveal(x, to=1, what="x")

    (first, nothing), (second, opened) = run_local(job)
    assert nothing is None and (opened == X).all()
    for mine, theirs, expected in zip(first, second, [X + Y, X * Y, X @ Y, X.sum(axis=0), X < Y], strict=True):
        assert (mine == expected).all() and (theirs == expected).all()


def test_a_removed_option_is_refused_with_what_to_use():
    with pytest.raises(ConfigError, match=r"check_dealer no longer exists: .* an audit finds faults"):
        run_local(lambda party: None, check_dealer=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'check_delaer'"):
        run_local(lambda party: None, check_delaer=True)


def test_the_owner_passes_the_values():
    with pytest.raises(DataError, match="party 0 must pass the values"):
        run_local(lambda party: party.share(X, owner=0).rank)
    with pytest.raises(DataError, match="owner must be party 0 or 1, got 2"):
        run_local(lambda party: party.share(X, owner=2).rank)


def test_a_job_too_large_for_the_dealer_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 400_000_000)
    small, large = ([([Triples((words,), Z64)], 1)] for words in (1_000, 100_000_000))
    run_local(lambda party: party.randomness.provide(small))
    with pytest.raises(ProtocolDesync, match="dealer: the dealer has too little memory for Triples"):
        run_local(lambda party: party.randomness.provide(large))


def test_work_ahead_has_a_lower_priority_than_the_program():
    def job(party):
        threads = [os.getpriority(os.PRIO_PROCESS, int(tid)) for tid in os.listdir("/proc/self/task")]
        return os.getpriority(os.PRIO_PROCESS, 0), max(threads)

    here = os.getpriority(os.PRIO_PROCESS, 0)
    assert run_local(job) == ((here, min(19, here + AHEAD)),) * 2


def test_only_shares_are_revealed():
    with pytest.raises(DataError, match="reveal takes a share, got list"):
        run_local(lambda party: party.reveal([1, 2], what="a list"))
