"""A job of two party processes and a dealer, with the documented interface."""

import inspect
import os
import time

import numpy as np
import pytest

from mpc.arithmetic.beaver import Triples
from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.host import process
from mpc.rings import Z64
from protocols.offline.supply import AHEAD
from protocols.runtime import run_local
from protocols.runtime.hosts import Network, joined

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
    monkeypatch.setattr(process, "machine_memory", lambda: 400_000_000)
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


def test_a_message_takes_half_of_a_round_trip():
    def job(party):
        started = time.monotonic()
        for i in range(4):
            party.exchange_public("step", i)
        return time.monotonic() - started

    assert min(run_local(job, round_trip=0.1)) >= 4 * 0.1 / 2


def test_a_line_has_a_shape_or_is_refused():
    with pytest.raises(ConfigError, match="rate must be bits per second, more than 0, got -1"):
        run_local(lambda party: None, rate=-1)
    with pytest.raises(ConfigError, match="leave out shards"):
        run_local(lambda party: None, round_trip=0.01, shards=2)


def drawn(party):
    """Return what is random in a run: shares of inputs, of a product and of a comparison, and private bytes."""
    x, y = held(party, 0, X), held(party, 1, Y)
    return [(*(share.words.tobytes() for share in (x, y, x * y)), party.draw(16)), (x < y).bits.tobytes()]


@pytest.mark.parametrize(("offline", "different"), [("dealer", 8), ("pairwise", None)])
def test_a_seed_repeats_a_run(offline, different):
    first, second, other = (run_local(drawn, offline=offline, seed=seed) for seed in (7, 7, different))
    assert first == second
    for mine, theirs in zip(first, other, strict=True):
        assert not set(mine[0]) & set(theirs[0])
    assert not set(first[0][0]) & set(first[1][0])


def test_a_seed_is_for_one_machine_only(caplog):
    assert not {"seed"} & {*inspect.signature(joined).parameters, *inspect.signature(Network).parameters}
    with pytest.raises(ConfigError, match="seed must be an integer, got 'a'"):
        run_local(lambda party: None, seed="a")
    with pytest.raises(ConfigError, match="leave out shards"):
        run_local(lambda party: None, seed=1, shards=2)
    run_local(lambda party: None, seed=1)
    assert "for tests and notebooks only" in caplog.text


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"offline": "nobody"}, "offline must be dealer or pairwise, got 'nobody'"),
        ({"ot": "none"}, "ot must be ferret or softspoken, got 'none'"),
        ({"audit": True, "shards": 2}, "an audit must be used with one process at each party: leave out shards"),
    ],
)
def test_settings_that_do_not_go_together(how, sentence):
    with pytest.raises(ConfigError, match=sentence):
        run_local(lambda party: None, **how)
