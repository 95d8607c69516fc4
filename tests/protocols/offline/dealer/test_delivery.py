"""Material is received while the program runs: how much is requested, in which order, and how failures end it."""

import threading
import time

import numpy as np
import pytest

from mpc.arithmetic.beaver import Triples
from mpc.errors import PeerFailure, PeerTimeout, PeerVanished, ProtocolDesync
from mpc.meter import Stage
from mpc.rings import Z64
from mpc.sharing import ZeroShares
from protocols.offline import bounded_queue
from protocols.offline.dealer import client as dealt
from protocols.offline.dealer import delivery
from protocols.offline.dealer.client import FromDealer
from protocols.offline.plan import decode_plan
from protocols.offline.sizes import portions, request_bytes
from protocols.transport.codec import decode
from protocols.transport.memory import memory_pair
from tests.protocols.offline.dealer.test_server import with_dealer

REQUEST, LARGE = Triples((125,), Z64), Triples((1000,), Z64)
SIZE = request_bytes(REQUEST).held
NEXT = 0.3


class FakeDealer:
    """Answers `answered` requests of party 1 with zeros, then closes its end; with None, all of them."""

    def __init__(self, answered=None, timeout=5):
        self.channel, self._its = memory_pair(("party_b", "dealer"), timeout=timeout)
        self.asked, self._left = [], answered
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        nonce = self._its.receive("dealer.hello")
        self._its.send("dealer.session", {"seed": bytes(16), "nonce": bytes(32) + nonce})
        try:
            while (plan := self._its.receive("dealer.plan")) is not None:
                ((requests, times),) = decode_plan(decode(plan))
                assert times == 1
                self.asked += requests
                for request in requests:
                    if self._left == 0:
                        return
                    if self._left:
                        self._left -= 1
                    size = request_bytes(request).corrections[1]
                    self._its.send("dealer.batch", {"sizes": np.array([size]), "data": np.zeros(size, np.uint8)})
        except PeerFailure:
            pass
        finally:
            self._its.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()
        self._thread.join(10)
        assert not self._thread.is_alive()


def held(request):
    return request_bytes(request).held


def test_requests_are_cut_into_portions_by_their_bytes_and_their_number():
    plan = [([REQUEST] * 2, 3), ([LARGE], 1), ([REQUEST], 1)]
    assert [len(each.requests) for each in portions(plan, 4 * SIZE, 100, held)] == [4, 2, 1, 1]
    assert [len(each.requests) for each in portions(plan, 1 << 30, 3, held)] == [2, 2, 2, 1, 1]
    assert [len(each.requests) for each in portions(plan, 0, 100, held)] == [1] * 8
    assert list(portions([], 100, 100, held)) == list(portions([([], 3)], 100, 100, held)) == []


def test_no_more_is_requested_than_the_window_holds(monkeypatch):
    monkeypatch.setattr(delivery, "PORTION", SIZE)
    monkeypatch.setattr(dealt, "WINDOW", 4 * SIZE)
    with FakeDealer() as dealer:
        randomness = FromDealer(1, dealer.channel)
        randomness.provide([([REQUEST], 300)])
        for taken in range(8):
            randomness.settle()
            assert len(dealer.asked) == taken + 4 and randomness._window.held == 4 * SIZE
            randomness.take(REQUEST)
        for _ in range(292):
            randomness.take(REQUEST)
            assert randomness._window.held <= 4 * SIZE
        randomness.close()
        assert len(dealer.asked) == 300 and randomness._window.held == 0
        assert randomness.dealt == 300 * 1000 and randomness.used == 300 * 1000


def test_no_more_is_under_way_than_fits_the_buffers_of_a_socket(monkeypatch):
    monkeypatch.setattr(delivery, "UNDER_WAY", 10)
    with FakeDealer(answered=0) as dealer:
        randomness = FromDealer(1, dealer.channel)
        randomness.provide([([ZeroShares((1,), Z64)], 1000)])
        with pytest.raises(PeerVanished):
            randomness.take(ZeroShares((1,), Z64))
        assert len(dealer.asked) == 10


def test_a_request_larger_than_the_window_comes_when_it_is_alone(monkeypatch):
    monkeypatch.setattr(delivery, "PORTION", SIZE)
    monkeypatch.setattr(dealt, "WINDOW", SIZE)

    def job(randomness, rank):
        randomness.provide([([REQUEST, LARGE, REQUEST], 2)])
        return [randomness.take(each) for each in [REQUEST, LARGE, REQUEST] * 2]

    (first, second), errors = with_dealer(job)
    assert not errors
    for mine, theirs in zip(first, second, strict=True):
        a, b, ab = (x + y for x, y in zip(mine, theirs, strict=True))
        assert np.array_equal(a * b, ab)


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_party_far_ahead_waits_for_the_other_but_not_forever(monkeypatch, ahead):
    """The party ahead uses up its window; the other takes nothing for longer than any single wait."""
    monkeypatch.setattr(delivery, "PORTION", SIZE)
    monkeypatch.setattr(dealt, "WINDOW", 4 * SIZE)
    counts = [0, 0]

    def job(randomness, rank):
        randomness.provide([([REQUEST], 40)])
        if rank != ahead:
            time.sleep(NEXT)
            assert counts[ahead] == 4, "the dealer deals what both have room for"
        for _ in range(40):
            randomness.take(REQUEST)
            counts[rank] += 1
        return randomness.waited

    results, errors = with_dealer(job)
    assert not errors and counts == [40, 40] and results[ahead] > NEXT / 2


def test_plans_are_dealt_in_order_and_repeated(monkeypatch):
    monkeypatch.setattr(delivery, "PORTION", 3 * SIZE)
    kinds = [Triples((n,), Z64) for n in range(1, 6)]
    with FakeDealer() as dealer:
        randomness = FromDealer(1, dealer.channel)
        randomness.provide([(kinds[:2], 2), (kinds[2:3], 3)])
        randomness.provide([(kinds[3:], 2)])
        order = [*kinds[:2] * 2, *kinds[2:3] * 3, *kinds[3:] * 2]
        for kind in order:
            randomness.take(kind)
        randomness.close()
        assert dealer.asked == order


def test_a_dealer_that_dies_in_the_middle_is_blamed_once_its_material_is_needed(monkeypatch):
    monkeypatch.setattr(delivery, "PORTION", SIZE)
    with FakeDealer(answered=5) as dealer:
        randomness = FromDealer(1, dealer.channel)
        randomness.provide([([REQUEST], 9)])
        with pytest.raises(PeerVanished, match=r"dealer closed the connection in dealer\.batch"):
            randomness.settle()
        for _ in range(5):
            randomness.take(REQUEST)
        with pytest.raises(PeerVanished, match=r"dealer closed the connection in dealer\.batch"):
            randomness.take(REQUEST)


def beside_a_silent_dealer(timeout, peer=None):
    """Return a party's randomness from a dealer that opens the session and then stays silent."""
    first, second = memory_pair(("party_b", "dealer"), timeout=timeout)

    def serve():
        nonce = second.receive("dealer.hello")
        second.send("dealer.session", {"seed": bytes(16), "nonce": bytes(32) + nonce})

    dealer = threading.Thread(target=serve)
    dealer.start()
    randomness = FromDealer(1, first, peer)
    dealer.join()
    return randomness


def test_a_dealer_that_is_silent_is_a_time_out():
    randomness = beside_a_silent_dealer(NEXT)
    time.sleep(2 * NEXT)  # nothing is due
    with pytest.raises(PeerTimeout, match=r"dealer silent for 0\.3 s in dealer\.batch"):
        randomness.take(REQUEST)


def test_a_party_that_waits_for_the_dealer_notices_that_its_peer_has_died(monkeypatch):
    monkeypatch.setattr(bounded_queue, "LOOK", 0.01)

    class Gone:
        peer, hung_up = "party_a", True

        def why_gone(self, awaited):
            return PeerVanished(f"party_a closed the connection in waiting for {awaited}")

    with (
        pytest.raises(PeerVanished, match="party_a closed the connection in waiting for dealer"),
        beside_a_silent_dealer(20, Gone()) as randomness,
    ):
        randomness.take(REQUEST)


@pytest.mark.parametrize("asked", [0, 3])
def test_a_failed_program_leaves_the_channel_open_for_the_reason(asked):
    with FakeDealer(answered=None) as dealer:
        with pytest.raises(ProtocolDesync), FromDealer(1, dealer.channel) as randomness:
            randomness.provide([([REQUEST], asked)])
            raise ProtocolDesync("planted")
        assert not randomness._thread.is_alive()
        dealer.channel.end("planted")


def test_what_is_left_of_a_plan_is_dealt_before_a_party_is_done(monkeypatch):
    monkeypatch.setattr(delivery, "PORTION", SIZE)
    monkeypatch.setattr(dealt, "WINDOW", 2 * SIZE)

    def job(randomness, rank):
        randomness.provide([([REQUEST], 30)])
        randomness.take(REQUEST)
        if rank == 0:
            time.sleep(NEXT)

    results, errors = with_dealer(job)
    assert results == [None, None] and not errors


def test_provision_counts_towards_the_stage_of_its_request():
    with FakeDealer() as dealer:
        randomness = FromDealer(1, dealer.channel)
        offline, online = Stage(), Stage()
        randomness.billed = offline
        randomness.provide([([REQUEST], 3)])
        randomness.billed = online
        randomness.settle()
        randomness.close()
        assert online == Stage()
        assert offline.bytes_dealt > 3000 and 0 < offline.seconds < 5
        assert (offline.rounds, offline.bytes_sent, offline.bytes_received) == (0, 0, 0)


def test_a_request_that_waits_for_its_turn_holds_no_batch():
    request = delivery.Request(0, REQUEST, None, request_bytes(REQUEST))
    batch = np.zeros(1 << 20, np.uint8)

    class Later:
        def deal(self, view):
            raise delivery.NotYet

    request.correlation = Later()
    first, _ = memory_pair()
    streams = dealt.Streams(bytes(16), bytes(48))
    delivery.Delivery(1, first, streams, {}, bounded_queue.BoundedQueue(0))._expand(request, batch[:1000])
    assert request.corrections.base is None and request.corrections.size == 1000
