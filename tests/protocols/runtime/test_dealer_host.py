"""A dealer's host and its visitors: strangers, dead and hostile parties, and several sessions at once."""

import contextlib
import os
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mpc.arithmetic.beaver import Triples
from mpc.errors import PeerFailure, PeerTimeout, PeerVanished
from mpc.rings import Z64
from protocols.offline.dealer.server import NONCE_BYTES, NOTICE
from protocols.runtime import dealer_host as desk
from protocols.runtime.dealer_host import run_dealer
from protocols.transport import frames
from protocols.transport.codec import encode
from protocols.transport.link import Intake
from protocols.transport.tcp import connect, listen
from tests.protocols.runtime.meeting import CREDENTIALS, NAMES, both, dealing, honest, until

SESSION = b"a session of two"
PLAN = "dealer.plan"


@pytest.fixture
def dealer(tmp_path):
    with dealing(tmp_path, patience=30, memory=2_000_000_000) as dealer:
        yield dealer


def opened(dealer, session=SESSION):
    """Return two channels of a session that the dealer has started."""
    channels = [dealer.channel(name, session) for name in NAMES]
    for channel in channels:
        channel.send("dealer.hello", bytes(NONCE_BYTES))
    for channel in channels:
        channel.receive("dealer.session")
    return channels


def test_a_dead_connection_is_not_paired(dealer):
    dealer.channel("party_a", SESSION).close()
    until(dealer, "party_a closed the connection")
    assert honest(dealer)


def test_a_waiting_party_is_not_paired_with_another_session(dealer):
    with dealer.channel("party_a", SESSION) as waiting:
        assert honest(dealer) and honest(dealer)
        assert not waiting.hung_up


def test_parties_of_different_sessions_are_not_paired(tmp_path):
    with dealing(tmp_path, patience=0.5) as dealer:
        ends = [dealer.channel(name, name[-1].encode() * 16) for name in NAMES]
        for channel, other in zip(ends, reversed(NAMES), strict=True):
            with channel:
                channel.send("dealer.hello", bytes(NONCE_BYTES))
                assert f"{other} did not join the session" in str(channel.last_words("waiting"))


def test_a_party_that_connects_twice_replaces_only_itself(dealer):
    first, other = (dealer.channel("party_a", session) for session in (SESSION, b"another session!"))
    second = dealer.channel("party_a", SESSION)
    with first, other, second, dealer.channel("party_b", SESSION):
        with pytest.raises(PeerVanished):
            first.receive("dealer.session")
        assert not other.hung_up and not second.hung_up


def test_a_party_whose_peer_does_not_connect_is_told(tmp_path):
    said = r"dealer ended the session: party_a did not join the session within 0\.3 s"
    with dealing(tmp_path, patience=0.3) as dealer, dealer.channel("party_b", SESSION) as channel:
        failure = channel.last_words("waiting")
    assert type(failure) is PeerVanished and re.search(said, str(failure))


def test_a_party_that_names_no_session_is_sent_away(dealer):
    with connect(dealer.address, CREDENTIALS["party_a"], "dealer", patience=30) as channel:
        assert "its hello names no session" in str(channel.last_words("waiting"))


def test_sessions_leave_no_descriptor_open_and_no_process(dealer):
    def held():
        proc = Path(f"/proc/{dealer.process.pid}")
        targets = []
        for descriptor in (proc / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed after it was listed
                targets.append(os.readlink(descriptor))
        return Counter(targets), (proc / "task" / proc.name / "children").read_text()

    def settled():
        """Return once every session's process has been reaped."""
        end = time.monotonic() + 30
        while (found := held())[1] and time.monotonic() < end:
            time.sleep(0.02)
        return found

    # With the first session, the dealer opens its log and whatever else it opens once.
    assert honest(dealer)
    before, _ = settled()
    for _ in range(8):
        assert honest(dealer)
    for failure in (lambda party: party.randomness.take(Triples((3 + party.rank,), Z64)), _fail):
        assert all(isinstance(end, Exception) for end in both(dealer.network(), failure))
    after, children = settled()
    # Descriptors that the process inherited may be closed meanwhile.
    assert not after - before and not children


def _fail(party):
    raise ValueError("a fault of a party")


def test_an_open_session_does_not_delay_others(dealer):
    first, second = opened(dealer)
    with first, second:
        assert honest(dealer) and honest(dealer)


def test_a_party_that_is_done_can_leave_before_the_other(dealer):
    first, second = opened(dealer)
    first.send(PLAN, None)
    first.close()
    time.sleep(2.5 * NOTICE)
    with second:
        second.send(PLAN, None)
        until(dealer, "dealt 0 requests to party_a and party_b")


def test_sessions_have_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "SESSIONS", 1)
    with dealing(tmp_path, patience=30) as dealer:
        first, second = opened(dealer)
        with first, second, pytest.raises(PeerVanished, match="as many sessions as it may"):
            opened(dealer, b"another session!")
        assert any(honest(dealer) for _ in range(50)), "there is room again once the first has ended"


def test_waiting_parties_have_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "WAITING", 3)
    with dealing(tmp_path, patience=30) as dealer:
        channels = [dealer.channel("party_a", bytes([1, n] * 8)) for n in range(5)]
        until(dealer, "connected 3 times since")
        assert honest(dealer)
        for channel in channels:
            channel.close()


def test_a_party_that_hangs_up_ends_a_session_that_is_at_work(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "_GRACE", 0.3)
    with dealing(tmp_path, patience=30) as dealer:
        first, second = opened(dealer)
        plan = [[[["MatrixMasks", 3000, 3000, 3000, "uint64"]], 50]]
        for channel in (first, second):
            channel.send(PLAN, b"".join(encode(plan)))
        time.sleep(0.5)
        first.close()
        until(dealer, "killed the session's process")
        until(dealer, "the process of a session ended with status -9")
        assert sum("killed the session's process" in line for line in dealer.lines) == 1
        with second, pytest.raises(PeerVanished):
            while True:
                second.receive("dealer.batch")
        assert honest(dealer)


HOSTILE = {
    "an array": np.zeros(3),
    "an unknown matrix": [[[["MatrixVectors", 7, 0, 3, 3, "uint64", 1]], 1]],
    "an owner that does not exist": [[[["InputMask", 7, [3], "uint64"]], 1]],
    "many dimensions": [[[["Triples", [1] * 65, "uint64"]], 1]],
    "bool triples": [[[["Triples", [3], "bool"]], 1]],
    "a huge shape": [[[["Triples", [1 << 36], "uint64"]], 1]],
    "a huge product": [[[["MatrixMasks", 1 << 20, 1 << 20, 1 << 20, "uint64"]], 1]],
    "many times": [[[["ZeroShares", [0], "uint64"]], 1 << 36]],
    "no kind": [[[["os.system", "true"]], 1]],
    "text": "Triples",
}


@pytest.mark.parametrize("plan", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_plan_ends_its_own_session_only(dealer, plan):
    channels = opened(dealer)
    for channel in channels:
        channel.send(PLAN, b"".join(encode(plan)))
    for channel in channels:
        with channel, pytest.raises(PeerFailure):
            while True:
                channel.receive("dealer.batch")
    assert honest(dealer)


def test_a_message_longer_than_due_is_refused_before_memory_is_allocated(dealer):
    channels = [dealer.channel(name, SESSION) for name in NAMES]
    for channel in channels:
        head = frames.head(frames.Kind.TREE, "dealer.hello", 0, 8 << 30)
        channel._link.transfer([head], Intake(iter(())), "dealer.hello")
    until(dealer, "payload of 8589934592 bytes announced, at most 4096 allowed")
    for channel in channels:
        channel.close()
    assert honest(dealer)


def test_an_idle_dealer_ends(tmp_path):
    with (
        listen(("127.0.0.1", 0), CREDENTIALS["dealer"]) as listener,
        pytest.raises(PeerTimeout, match=r"party_a and party_b did not both connect to the dealer within 0\.2 s"),
    ):
        run_dealer(listener, NAMES, idle=0.2)
