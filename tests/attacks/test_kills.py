"""A host is killed in any phase of a run: the others end at once and blame it, and the next run is not affected."""

import itertools
import os
import signal
import time

import numpy as np
import pytest

from mpc.errors import PeerFailure
from protocols.runtime import dealer_host as desk
from protocols.transport.tls import TlsLink
from secure_tree import SecureXGBClassifier
from sharewood.warming_up import warm_up
from tests.protocols.runtime.meeting import FORK, NAMES, dealing, honest, outcome

pytestmark = pytest.mark.long

KILLS = {"party_a": 22, "party_b": 22, "session": 12, "dealer": 6}
SECONDS = 60
RNG = np.random.default_rng(1)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


def training(party):
    """Return the fraction of this party's rows whose class is predicted."""
    rows = slice(20 * party.rank, 20 * party.rank + 20)
    model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=8, test_size=0.3, eval_epochs=1)
    return float(np.mean(model.fit(party, X[rows], Y[rows]).predict(party, X[rows]) == Y[rows]))


def count_calls(dies_at=None):
    """Count this process's calls on its sockets, and kill it at one of them."""
    counted = itertools.count(1)
    seen = [0]

    def watched(original):
        def call(*arguments):
            seen[0] = next(counted)
            if seen[0] == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments)

        return call

    TlsLink._send, TlsLink._receive = watched(TlsLink._send), watched(TlsLink._receive)
    return seen


def in_a_process(network, rank, dies_at=None):
    """Start a party's process; return it and the end of a pipe for its outcome and number of calls."""
    here, there = FORK.Pipe(duplex=False)

    def play():
        seen = count_calls(dies_at)
        found = outcome(network, rank, training)
        there.send((found if isinstance(found, float) else (isinstance(found, PeerFailure), repr(found)), seen[0]))

    process = FORK.Process(target=play)
    process.start()
    there.close()
    return process, here


def run(network, dies_at=(None, None)):
    """Return what the parties send, None for a party that is killed."""
    parties = [in_a_process(network, rank, dies_at[rank]) for rank in (0, 1)]
    found = []
    for process, pipe in parties:
        try:
            assert pipe.poll(SECONDS), "a party hangs"
            found.append(pipe.recv())
        except EOFError:
            found.append(None)
        finally:
            process.kill()
            process.join()
    return found


@pytest.fixture(scope="module", autouse=True)
def warm():
    warm_up()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make a folder whose file `session` has the number of the call at which the next session's process is killed."""
    serve, order = desk.serve, tmp_path / "session"

    def watched(*channels):
        dies_at = int(order.read_text()) if order.exists() else None
        order.unlink(missing_ok=True)
        seen = count_calls(dies_at)
        try:
            return serve(*channels)
        finally:
            (tmp_path / "calls").write_text(str(seen[0]))

    monkeypatch.setattr(desk, "serve", watched)
    return tmp_path


def blamed(ends, name):
    """Return whether every party that lives has a result, or a failure that names the killed one."""
    texts = [end[0] for end in ends if end]
    return all(isinstance(text, float) or (text[0] and name in text[1]) for text in texts)


@pytest.mark.timeout(3000)
def test_kills_in_every_phase(place):
    with dealing(place, patience=20) as dealer:
        ends = run(dealer.network())
        assert all(end and isinstance(end[0], float) and end[0] > 0.8 for end in ends), ends
        calls = {"party_a": ends[0][1], "party_b": ends[1][1], "session": int((place / "calls").read_text())}
        assert calls["session"] > 20 and min(calls["party_a"], calls["party_b"]) > 200, calls
        killed = 0
        for victim, count in calls.items():
            for dies_at in np.linspace(1, count, KILLS[victim]).astype(int).tolist():
                if victim == "session":
                    (place / "session").write_text(str(dies_at))
                ends = run(dealer.network(), [dies_at if name == victim else None for name in NAMES])
                killed += None in ends or victim == "session"
                assert blamed(ends, "dealer" if victim == "session" else victim), (victim, dies_at, ends)
                ends = run(dealer.network())
                assert all(end and isinstance(end[0], float) and end[0] > 0.8 for end in ends), (victim, dies_at, ends)
        assert killed >= sum(KILLS.values()) - KILLS["dealer"] - 4
        assert honest(dealer)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("share", np.linspace(0.0, 0.9, KILLS["dealer"]).tolist())
def test_kills_of_the_dealers_host(place, share):
    with dealing(place, patience=20) as dealer:
        began = time.monotonic()
        assert all(isinstance(end[0], float) for end in run(dealer.network()))
        seconds = time.monotonic() - began
    with pytest.raises(AssertionError, match="stop"), dealing(place, patience=20) as dealer:
        network = dealer.network(patience=5)
        parties = [in_a_process(network, rank) for rank in (0, 1)]
        time.sleep(share * seconds)
        dealer.process.kill()
        ends = []
        for process, pipe in parties:
            assert pipe.poll(SECONDS), "a party hangs"
            ends.append(pipe.recv())
            process.join()
        assert blamed(ends, "dealer"), ends
        raise AssertionError("stop")  # this dealer is dead at the end
    with dealing(place, patience=20) as dealer:
        assert honest(dealer)
