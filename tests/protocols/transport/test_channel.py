"""Behaviour of every channel, in memory and over TLS."""

import re

import numpy as np
import pytest

from mpc.errors import PeerTimeout, PeerVanished, ProtocolDesync
from mpc.host.streaming import Pieces
from protocols.transport import frames
from tests.protocols.transport.conftest import both

TAG = "test.step uint64[3]"
LARGE = 5_000_000  # words: 40 MB


def words(count, start=0):
    return np.arange(start, start + count, dtype=np.uint64)


def test_exchange_swaps_arrays_of_any_dtype(pair):
    a, b = pair
    mine = [np.array([[True], [False]]), np.float32(2.5).reshape(()), words(6).reshape(2, 3).T, words(0)]
    theirs = [~mine[0], mine[1] + 1, mine[2] * 2, mine[3]]
    from_b, from_a = both(lambda: a.exchange(TAG, mine), lambda: b.exchange(TAG, theirs))
    for got, expected in zip(from_b + from_a, theirs + mine, strict=True):
        assert got.dtype == expected.dtype and got.flags.writeable
        np.testing.assert_array_equal(got, expected)


# In the last case, the bytes are a whole number of the chunks that a link sends.
@pytest.mark.parametrize("rows", [0, 3, 700, 5000, 1 << 15])
def test_pieces_are_sent_as_the_array_would_be(pair, rows):
    a, b = pair
    array = words(rows * 37).reshape(rows, 37)
    on_wire = [a.wire_sent]
    for sent in (array, Pieces(rows, array.shape[1] * 8, lambda at: array[at])):
        _, (received,) = both(
            lambda sent=sent: a.exchange(TAG, [words(5), sent, words(9)], like=[]),
            lambda: b.exchange(TAG, [], like=[(5 + array.size + 9, np.uint64)]),
        )
        assert np.array_equal(received, np.concatenate([words(5), array.reshape(-1), words(9)]))
        on_wire.append(a.wire_sent)
    assert on_wire[1] - on_wire[0] == on_wire[2] - on_wire[1]


def test_the_peer_gets_a_copy(pair):
    a, b = pair
    mine = words(3)
    _, (from_a,) = both(lambda: a.exchange(TAG, [mine]), lambda: b.exchange(TAG, [words(3)]))
    from_a += 1
    np.testing.assert_array_equal(mine, words(3))


@pytest.mark.parametrize(("count_a", "count_b"), [(LARGE, LARGE), (LARGE, 3), (3, LARGE), (0, LARGE), (9000, 9000)])
def test_exchange_is_full_duplex(pair, count_a, count_b):
    a, b = pair
    (from_b,), (from_a,) = both(
        lambda: a.exchange(TAG, [words(count_a)], like=[(count_b, np.uint64)]),
        lambda: b.exchange(TAG, [words(count_b, 1)], like=[((count_a,), "u8")]),
    )
    assert np.array_equal(from_a, words(count_a)) and np.array_equal(from_b, words(count_b, 1))


def test_a_round_may_go_one_way(pair):
    a, b = pair
    for _ in range(3):
        sent, received = both(
            lambda: a.exchange(TAG, [words(100), words(20_000)], like=[]),
            lambda: b.exchange(TAG, [], like=[(100, np.uint64), ((2, 10_000), np.uint64)]),
        )
        assert sent == []
        np.testing.assert_array_equal(received[1], words(20_000).reshape(2, 10_000))
    assert (a.payload_sent, a.payload_received) == (b.payload_received, b.payload_sent) == (3 * 160_800, 0)


def test_trees_are_sent_ahead_and_received_in_order(pair):
    a, b = pair
    trees = [None, {"seed": b"\0" * 32, "plan": [("triple", (2, 3)), words(1000)]}, [words(3), -1, 0.5]]
    for tree in trees:
        a.send("plan", tree)
    received = [b.receive("plan") for _ in trees]
    assert received[0] is None
    assert received[1]["plan"][0] == ("triple", (2, 3))
    np.testing.assert_array_equal(received[1]["plan"][1], words(1000))
    received[2][0] += 1
    assert received[2][1:] == [-1, 0.5]


def test_a_large_tree_passes(pair):
    a, b = pair
    _, received = both(lambda: a.send("stream", [words(LARGE)]), lambda: b.receive("stream"))
    assert np.array_equal(received[0], words(LARGE))


@pytest.mark.parametrize("size", [0, 40_000_000])
def test_trees_are_exchanged_at_the_same_time(pair, size):
    a, b = pair
    from_b, from_a = both(
        lambda: a.exchange_public("facts", ["a", bytes(size)]), lambda: b.exchange_public("facts", ["b", bytes(size)])
    )
    assert (from_a, from_b) == (["a", bytes(size)], ["b", bytes(size)])


def test_the_meter_counts_both_ways(pair):
    a, b = pair
    both(
        lambda: a.exchange(TAG, [words(3)], like=[(2, np.uint64)]),
        lambda: b.exchange(TAG, [words(2)], like=[(3, np.uint64)]),
    )
    b.send("more", b"12345")
    a.receive("more")
    assert (a.rounds, b.rounds) == (1, 1)
    assert (a.payload_sent, a.payload_received) == (b.payload_received, b.payload_sent) == (24, 16 + 14)
    assert (a.wire_sent, b.wire_sent) == (b.wire_received, a.wire_received)
    assert a.wire_sent >= 24 + frames.HEADER.size + len(TAG)


def test_another_step_is_a_desync_on_both_sides(pair):
    a, b = pair
    for _ in range(16):
        both(lambda: a.exchange(TAG, [words(3)]), lambda: b.exchange(TAG, [words(3)]))
    at_a, at_b = both(
        lambda: a.exchange("beaver.multiply uint64[2,128]", [words(256)]),
        lambda: b.exchange("reveal uint64[128]", [words(128)]),
    )
    assert type(at_a) is type(at_b) is ProtocolDesync
    assert str(at_a) == "round 17: expected beaver.multiply uint64[2,128], got reveal uint64[128]"
    assert str(at_b) == "round 17: expected reveal uint64[128], got beaver.multiply uint64[2,128]"


def test_a_run_between_hosts_names_the_peer_of_a_desync(pair):
    a, b = pair
    b.send("another", None)
    sentence = f"{a.peer}: received message 0: expected {TAG}, got another"
    with pytest.raises(ProtocolDesync, match=f"^{re.escape(sentence)}$"), a.explained():
        a.receive(TAG)


def test_another_length_is_a_desync(pair):
    a, b = pair
    at_a, at_b = both(lambda: a.exchange(TAG, [words(3)]), lambda: b.exchange(TAG, [words(4)]))
    assert type(at_a) is type(at_b) is ProtocolDesync
    assert str(at_a) == f"round 1: {TAG}: expected a payload of 24 bytes, got 32"


def test_a_tree_is_not_an_exchange(pair):
    a, b = pair
    a.send(TAG, None)
    with pytest.raises(ProtocolDesync, match=r"round 1: .*payload kind"):
        b.exchange(TAG, [words(3)])


def test_another_version_is_a_desync(pair, monkeypatch):
    a, b = pair
    with monkeypatch.context() as patch:
        patch.setattr(frames, "VERSION", 9)
        a.send(TAG, None)
    with pytest.raises(ProtocolDesync, match=r"^received message 0: protocol version: expected 4, got 9$"):
        b.receive(TAG)


def test_a_lost_frame_is_a_desync(pair):
    a, b = pair
    a._frames_sent += 1
    a.send(TAG, None)
    with pytest.raises(ProtocolDesync, match="frame number: expected 0, got 1"):
        b.receive(TAG)


def test_a_payload_over_the_limit_is_refused(make_pair):
    a, b = make_pair(limit=1000)
    a.send(TAG, bytes(1000))
    with pytest.raises(ProtocolDesync, match="payload of 1009 bytes announced, at most 1000 allowed"):
        b.receive(TAG)


def test_a_message_has_its_own_limit(pair):
    a, b = pair
    a.send(TAG, bytes(1000))
    with pytest.raises(ProtocolDesync, match="payload of 1009 bytes announced, at most 100 allowed"):
        b.receive(TAG, 100)


def test_the_limit_holds_for_the_memory_of_the_values_too(make_pair):
    a, b = make_pair(limit=1_000_000)
    a.send(TAG, [[]] * 100_000)
    with pytest.raises(ProtocolDesync, match="more memory than allowed"):
        b.receive(TAG)


@pytest.mark.parametrize("step", [lambda end: end.receive(TAG), lambda end: end.exchange(TAG, [words(3)])])
def test_the_last_frame_names_who_ended_the_session_and_why(pair, step):
    a, b = pair
    a.end("dealer silent for 600 s in dealer.batch: " + 300 * "é" + "\udcff\n")
    with pytest.raises(PeerVanished, match="party_a ended the session: dealer silent for 600 s"):
        step(b)


def test_a_payload_that_is_not_a_tree_is_refused(pair, monkeypatch):
    a, b = pair
    monkeypatch.setattr("protocols.transport.channel.encode", lambda tree: [b"\xff\xff"])
    a.send(TAG, None)
    with pytest.raises(ProtocolDesync, match="received message 0: malformed data"):
        b.receive(TAG)


def test_objects_are_not_exchanged(pair):
    with pytest.raises(TypeError, match="dtype object cannot be sent"):
        pair[0].exchange(TAG, [np.array([object()])])


@pytest.mark.parametrize("count", [3, LARGE])
def test_a_closed_peer_is_named_with_the_step(pair, count):
    a, b = pair
    b.close()
    for _ in range(2):
        with pytest.raises(PeerVanished, match=rf"party_b closed the connection in {TAG[:9]}"):
            a.exchange(TAG, [words(count)])


def test_what_was_sent_before_closing_still_arrives(pair):
    a, b = pair
    with a:
        a.send("last", "words")
    assert b.receive("last") == "words"
    with pytest.raises(PeerVanished, match="received message 1: party_a closed"):
        b.receive("more")


def test_a_closed_channel_says_so(pair):
    a, _ = pair
    a.close()
    a.close()
    for call in (lambda: a.send(TAG, None), lambda: a.receive(TAG), lambda: a.exchange(TAG, [])):
        with pytest.raises(PeerVanished, match="the channel to party_b is closed in"):
            call()


def test_a_silent_peer_times_out(make_pair):
    a, _ = make_pair(timeout=0.1)
    with pytest.raises(PeerTimeout, match=r"^round 1: party_b silent for 0\.1 s in test\.step uint64\[3\]$"):
        a.exchange(TAG, [words(3)])
