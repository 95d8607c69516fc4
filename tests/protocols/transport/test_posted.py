"""Rounds that go on while the caller computes: their order, both directions at once, and their failures."""

import numpy as np
import pytest

from mpc.errors import PeerFailure, PeerVanished
from protocols.transport.memory import memory_pair
from tests.protocols.transport.conftest import both, tcp_pair

LARGE = 40_000_000  # bytes, more than the buffers of a socket hold


@pytest.fixture(params=["memory", "tcp"])
def pair(request, credentials):
    names = "party_a", "party_b"
    a, b = memory_pair() if request.param == "memory" else tcp_pair(*(credentials[name] for name in names))
    with a, b:
        yield a, b


def test_rounds_are_answered_in_order(pair):
    def rounds(channel, own):
        waiting = [channel.post(f"step {i}", [np.full(1 + 100_000 * (i % 3), own + i)]) for i in range(9)]
        first = [result()[0] for result in waiting]
        (last,) = channel.exchange("last", [np.array([own])])
        return first, last, channel.rounds, channel.payload_received

    (at_a, b, rounds_of_a, received), (at_b, a, *_) = both(lambda: rounds(pair[0], 10), lambda: rounds(pair[1], 50))
    assert [set(each.tolist()) for each in at_a] == [{50 + i} for i in range(9)]
    assert [set(each.tolist()) for each in at_b] == [{10 + i} for i in range(9)] and (a, b) == (10, 50)
    assert rounds_of_a == 10 and received == 8 * (sum(1 + 100_000 * (i % 3) for i in range(9)) + 1)


def test_a_round_goes_on_while_the_caller_does_something_else(credentials):
    a, b = tcp_pair(credentials["party_a"], credentials["party_b"])
    with a, b:
        large = np.arange(LARGE // 8)
        from_a = a.post("first", [large], [])
        from_b = b.post("first", [], [(large.shape, large.dtype)])
        # B's message is under way before that of A has arrived at the caller, in the other direction of the same line.
        back = b.post("second", [large], []), a.post("second", [], [(large.shape, large.dtype)])
        assert from_a() == [] and np.array_equal(from_b()[0], large)
        assert back[0]() == [] and np.array_equal(back[1]()[0], large)


def test_a_failure_ends_all_rounds_under_way(credentials):
    a, b = tcp_pair(credentials["party_a"], credentials["party_b"])
    with a:
        with b:
            waiting = [a.post(f"step {i}", [np.zeros(3)]) for i in range(3)]
            b.exchange("step 0", [np.zeros(3)])
            waiting[0]()
        for result in waiting[1:]:
            with pytest.raises(PeerVanished, match="party_b"):
                result()
        with pytest.raises(PeerFailure):
            a.post("step 3", [np.zeros(3)])()


def test_a_message_of_another_step_is_refused(pair):
    a, b = pair
    mine, theirs = a.post("one", [np.zeros(3)]), b.post("two", [np.zeros(3)])
    with pytest.raises(PeerFailure, match="round 1: expected one, got two"):
        mine()
    with pytest.raises(PeerFailure, match="round 1: expected two, got one"):
        theirs()


def test_a_wait_ends_when_the_channel_is_deafened(pair):
    waiting = pair[0].post("step", [np.zeros(3)])
    pair[0].deafen()
    with pytest.raises(PeerVanished):
        waiting()
