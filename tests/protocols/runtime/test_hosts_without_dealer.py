"""Two hosts without a dealer: a session, disagreements, and a peer that ends while material is made."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mpc.arithmetic.beaver import Triples
from mpc.errors import ConfigError, PeerFailure
from mpc.rings import Z64
from protocols.runtime.hosts import Network, _meet
from protocols.runtime.settings import Offline
from tests.ports import free_port
from tests.protocols.runtime.meeting import CREDENTIALS, FORK, NAMES, SQUARES, both, outcome


@pytest.fixture
def network():
    address = "127.0.0.1", free_port()
    return Network(NAMES, address, None, patience=40, timeout=40, offline=Offline("pairwise", "softspoken"))


def test_a_session_without_a_dealer(network):
    assert both(network) == [SQUARES] * 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"offline": Offline("pairwise", "ferret")},
            "the hosts disagree on ot: 'softspoken' here, 'ferret' at party_b",
        ),
        ({"offline": Offline("dealer")}, "the hosts disagree on offline: 'pairwise' here, 'dealer' at party_b"),
    ],
)
def test_what_the_hosts_disagree_on_is_named(network, change, sentence):
    at_a, at_b = both(network, networks=(network, replace(network, **change)))
    assert type(at_a) is type(at_b) is ConfigError and str(at_a) == sentence


def test_the_reason_of_a_refusal_is_told_although_the_second_channel_ends_first(network):
    def refuse():
        with _meet(network, 1, CREDENTIALS["party_b"], supplied=True) as (peer, _, second):
            second.close()
            time.sleep(0.3)
            peer.end("it refused its own files")

    with ThreadPoolExecutor(1) as pool:
        refused = pool.submit(refuse)
        failure = outcome(network, 0)
        refused.result()
    assert str(failure) == "party_b ended the session: it refused its own files"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("last", [0, 1])
def test_a_peer_that_ends_while_material_is_made_is_reported_in_one_sentence(network, how, last):
    """The party `last` is left waiting for material, and gets an error within the time-out."""
    network = replace(network, timeout=4)
    triples = Triples((1 << 14,), Z64)
    here, there = FORK.Pipe(duplex=False)

    def wait(party):
        party.randomness.provide([([triples], 1000)])
        party.randomness.take(triples)
        if party.rank != last:
            there.send(None)
        for _ in range(999):
            party.randomness.take(triples)

    peer = FORK.Process(target=lambda: outcome(network, 1 - last, wait))
    peer.start()

    def end():
        assert here.poll(60)
        os.kill(peer.pid, how)
        return time.monotonic()

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(end)
        failure = outcome(network, last, wait)
        seconds = time.monotonic() - ended.result()
    peer.kill()
    peer.join()
    assert isinstance(failure, PeerFailure) and NAMES[1 - last] in str(failure) and "\n" not in str(failure)
    assert seconds < 12
