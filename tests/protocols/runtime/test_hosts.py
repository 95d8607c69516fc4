"""Two parties and a dealer on separate hosts: how they connect, and whom they blame for a failure."""

import os
import signal
import socket
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mpc.arithmetic.beaver import Triples
from mpc.errors import ConfigError, DataError, PeerFailure, PeerTimeout, PeerVanished, ProtocolDesync
from mpc.rings import Z64
from protocols.offline.dealer.client import FromDealer
from protocols.runtime import hosts
from protocols.runtime.hosts import _at_first_hand, parse_address, run_pair
from protocols.runtime.settings import Link
from protocols.transport.frames import _ended
from protocols.transport.tcp import connect, listen
from tests.protocols.runtime.meeting import (
    CREDENTIALS,
    FORK,
    SQUARES,
    X,
    both,
    dealing,
    honest,
    outcome,
    squares,
    until,
)


@pytest.fixture
def dealer(tmp_path):
    with dealing(tmp_path, patience=30) as dealer:
        yield dealer


def test_one_session_after_another(dealer):
    assert honest(dealer) and honest(dealer)
    assert dealer.lines[0] == f"dealer for party_a and party_b listens at 127.0.0.1:{dealer.address[1]}"


def test_a_party_at_the_dealer_blames_the_one_that_does_not_come(tmp_path):
    with dealing(tmp_path, patience=2) as dealer, socket.create_server(("127.0.0.1", 0)) as silent:
        network = dealer.network(timeout=1, patience=20)
        at_a, at_b = both(network, networks=(network, replace(network, dealer=silent.getsockname()[:2])))
    assert type(at_a) is PeerVanished
    assert "dealer ended the session: party_b did not join the session within 2 s" in str(at_a)
    assert type(at_b) is PeerVanished and str(at_b) == f"party_a ended the session: {at_a}"


def test_a_party_that_sends_the_dealer_no_plan_is_blamed_and_not_the_dealer(dealer):
    def frozen(party):
        time.sleep(2.5)
        return squares(party)

    at_a, _ = both(dealer.network(timeout=1), squares, frozen)
    assert type(at_a) is PeerTimeout and str(at_a) == "party_b sent dealer no plan for 1.25 s"


def test_two_pairs_at_one_dealer_at_once(dealer):
    all_four = threading.Barrier(4)

    def job(party):
        first = squares(party)
        all_four.wait(20)
        return first, squares(party)

    found = []
    pairs = [threading.Thread(target=lambda: found.append(both(dealer.network(), job))) for _ in range(2)]
    for pair in pairs:
        pair.start()
    for pair in pairs:
        pair.join(60)
    assert found == [[(SQUARES, SQUARES)] * 2] * 2


def test_hosts_that_expect_different_things_say_so(dealer):
    network = dealer.network()
    at_a, at_b = both(network, networks=(network, replace(network, dealer_name="other")))
    assert type(at_a) is type(at_b) is ConfigError
    assert str(at_a) == "the hosts disagree on dealer: 'dealer' here, 'other' at party_b"


def test_hosts_state_the_same_link(dealer):
    network = dealer.network()
    slow = replace(network, link=Link(0.04, 1e8))
    at_a, at_b = both(network, networks=(slow, replace(network, link=Link(0.02, 1e8))))
    assert type(at_a) is type(at_b) is ConfigError
    assert str(at_a) == "the hosts disagree on link: [0.04, 100000000.0] here, [0.02, 100000000.0] at party_b"
    _, at_b = both(network, networks=(slow, network))
    assert type(at_b) is ConfigError and str(at_b) == "the hosts disagree on link: only party_a states its link"


def test_a_job_without_a_dealer_does_not_meet_one_with(dealer):
    network = dealer.network()
    found = []
    party_a = threading.Thread(target=lambda: found.append(outcome(network, 0)))
    party_a.start()
    with pytest.raises(ConfigError, match="the hosts disagree on offline: None here, 'dealer' at party_a"):
        run_pair(network, 1, CREDENTIALS["party_b"], lambda peer: None)
    party_a.join()
    assert type(found[0]) is ConfigError


HELLO = {
    "parties": ["party_a", "party_b"],
    "offline": "dealer",
    "ot": None,
    "audit": False,
    "dealer": "dealer",
}


@pytest.mark.parametrize(
    ("lie", "ends"),
    [
        (None, False),
        ({}, False),
        (HELLO, False),
        ({**HELLO, "nonce": bytes(15)}, False),
        ({**HELLO, "nonce": np.zeros(16, np.uint8)}, False),
        (bytes(5000), False),
        ({**HELLO, "dealer": {}, "nonce": bytes(16)}, True),
        ({**HELLO, "parties": np.array([1, 2]), "nonce": bytes(16)}, True),
        ({**HELLO, "parties": [np.array([1, 2]), "party_b"], "nonce": bytes(16)}, True),
    ],
    ids=lambda lie: repr(lie)[:60],
)
def test_a_malformed_hello_does_not_end_the_wait_and_a_valid_one_does(dealer, lie, ends):
    network = dealer.network()
    found = []
    party_a = threading.Thread(target=lambda: found.append(outcome(network, 0)))
    party_a.start()
    with connect(network.meeting, CREDENTIALS["party_b"], "party_a", patience=30) as peer:
        peer.send("session.hello", lie)
        if not ends:
            assert outcome(network, 1) == SQUARES
        party_a.join()
    assert type(found[0]) is ConfigError if ends else found == [SQUARES]


@pytest.mark.parametrize(
    "lie", [None, ["x"], ["x", "y"], ["x", 0], ["x", 1 << 16], [7, 7], ("x", 7), np.zeros(2)], ids=repr
)
def test_a_lie_about_where_the_dealer_is(dealer, lie):
    network = replace(dealer.network(), dealer=None)
    found = []
    party_b = threading.Thread(target=lambda: found.append(outcome(network, 1)))
    party_b.start()
    with listen(network.meeting, CREDENTIALS["party_a"]) as listener, listener.accept("party_b", patience=30) as peer:
        peer.exchange_public("session.hello", {**HELLO, "nonce": bytes(16)})
        peer.send("dealer.address", lie)
        party_b.join()
    assert type(found[0]) is ProtocolDesync and "must name the address of a dealer" in str(found[0])


def test_a_peer_that_leaves_before_its_hello_does_not_end_the_wait(dealer):
    network = dealer.network()

    def come_and_go():
        for _ in range(3):
            connect(network.meeting, CREDENTIALS["party_b"], "party_a", patience=30).close()

    visitor = threading.Thread(target=come_and_go)
    visitor.start()
    found = []
    party_a = threading.Thread(target=lambda: found.append(outcome(network, 0)))
    party_a.start()
    visitor.join()
    assert outcome(network, 1) == SQUARES
    party_a.join()
    assert found == [SQUARES]


def test_a_party_that_waits_for_the_dealer_notices_that_its_peer_has_died(dealer):
    """The peer ends after the parties have met and before it connects to the dealer."""
    network = dealer.network()

    def end_after_the_meeting():
        hosts.connect = lambda address, *rest, **waits: (
            connect(address, *rest, **waits) if address == network.meeting else os.kill(os.getpid(), signal.SIGKILL)
        )
        outcome(network, 1)

    peer = FORK.Process(target=end_after_the_meeting)
    peer.start()
    failure = outcome(network, 0)
    peer.join()
    assert type(failure) is PeerVanished and "party_b" in str(failure) and "dealer closed" not in str(failure)
    assert honest(dealer)


def test_a_party_whose_peer_dies_before_its_plan_notices_it(dealer):
    network = dealer.network()

    def wait(party):
        party.randomness.take(Triples((3,), Z64))

    def die(party):
        party.exchange_public("never", None) if party.rank == 0 else os.kill(os.getpid(), signal.SIGKILL)

    peer = FORK.Process(target=lambda: outcome(network, 1, die))
    peer.start()
    failure = outcome(network, 0, wait)
    peer.join()
    assert type(failure) is PeerVanished and "party_b closed the connection" in str(failure)
    assert honest(dealer)
    until(dealer, "party_b closed the connection")
    until(dealer, "dealt ")
    assert len([line for line in dealer.lines if line.startswith("dealt")]) == 1


def test_a_party_that_fails_is_blamed_by_name_without_its_error(dealer):
    def fail(party):
        if party.rank == 1:
            raise DataError("row 3 has the value 4711")
        party.exchange_public("never", None)

    at_a, at_b = both(dealer.network(), fail)
    assert type(at_b) is DataError and type(at_a) is PeerVanished
    assert "party_b ended the session: it failed; its log has the reason" in str(at_a)
    assert not any("4711" in text for text in [str(at_a), *dealer.lines])


def test_a_party_that_loses_the_dealer_says_so_to_its_peer(dealer):
    def lose(party):
        if party.rank == 1:
            party.randomness._dealer.close()
            party.randomness.take(Triples((3,), Z64))
        party.exchange_public("never", None)

    at_a, at_b = both(dealer.network(), lose)
    assert "the channel to dealer is closed" in str(at_b)
    assert "party_b ended the session" in str(at_a) and "the channel to dealer is closed" in str(at_a)


def test_a_dealer_that_dies_after_its_last_batch_costs_nothing(tmp_path, caplog):
    def job(party):
        party.randomness.provide([([Triples(X.shape, Z64)], 1)])
        party.randomness.settle()
        party.exchange_public("before", None)
        if party.rank == 0:
            dealer.process.kill()
            dealer.process.join()
        party.exchange_public("after", None)
        return 7

    with pytest.raises(AssertionError), dealing(tmp_path) as dealer:  # the dealer is dead at the end
        assert both(dealer.network(), job) == [7, 7]
        raise AssertionError


def test_a_peer_that_dies_at_the_end_leaves_a_result_and_a_warning(dealer, caplog):
    network = dealer.network()

    def done_or_dead(party):
        if party.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return 7

    peer = FORK.Process(target=lambda: outcome(network, 1, done_or_dead))
    peer.start()
    assert outcome(network, 0, done_or_dead) == 7
    peer.join()
    assert "this party is done, but party_b did not confirm that it is" in caplog.text


def test_a_run_may_be_longer_than_the_time_out(tmp_path):
    def job(party):
        first = squares(party)
        for _ in range(16):
            time.sleep(0.25)
            party.exchange_public("still.here", None)
        return first, squares(party)

    with dealing(tmp_path, timeout=3.0, patience=3.0) as dealer:
        assert honest(dealer)
        assert both(dealer.network(timeout=3.0), job) == [(SQUARES, SQUARES)] * 2


def test_silence_while_a_message_is_due_is_a_time_out(dealer):
    def job(party):
        if party.rank == 0:
            party.exchange_public("due", None)
        else:
            time.sleep(2)

    at_a, _ = both(dealer.network(timeout=1.0), job)
    assert type(at_a) is PeerTimeout and "party_b silent for 1 s in due" in str(at_a)


def test_a_dealer_that_pairs_wrongly_is_found_out(dealer, monkeypatch):
    class Elsewhere(FromDealer):
        @property
        def session(self):
            return os.urandom(32)

        @session.setter
        def session(self, value):
            pass

    monkeypatch.setattr(hosts, "FromDealer", Elsewhere)
    failures = both(dealer.network())
    assert any(type(f) is PeerFailure and "the dealer paired this party" in str(f) for f in failures)


@pytest.mark.parametrize(
    ("text", "address"),
    [("192.0.2.1:50", ("192.0.2.1", 50)), ("[::1]:50", ("::1", 50)), (" a.example:50 ", ("a.example", 50))],
)
def test_addresses(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["::1:50", "a.example", "a:0", "a:65536", "[::1]", "a b:5", ""])
def test_malformed_addresses(text):
    with pytest.raises(ConfigError, match="an address must be host:port"):
        parse_address(text)


def test_a_party_that_the_dealer_says_is_gone_is_named_first():
    peer, dealer = (SimpleNamespace(peer=name) for name in ("party_b", "dealer"))
    told = _ended("dealer", bytearray(b"received message 0: party_b closed the connection in dealer.plan"))
    with pytest.raises(PeerVanished) as named, _at_first_hand(peer, dealer):
        raise told
    assert str(named.value) == "party_b closed the connection in dealer.plan (as dealer says)"
    with pytest.raises(PeerVanished) as other, _at_first_hand(peer, dealer):
        raise _ended("dealer", bytearray(b"it failed"))
    assert str(other.value) == "dealer ended the session: it failed"
