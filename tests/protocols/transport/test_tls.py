"""A TLS link after its handshake: the meter, the ways it ends, and the peers that it watches."""

import socket
import time

import numpy as np
import pytest

from mpc.errors import PeerFailure, PeerTimeout, PeerVanished
from mpc.party import Party
from protocols.transport.channel import first_to_speak
from protocols.transport.frames import HEADER
from protocols.transport.tcp import connect, listen
from tests.protocols.transport.conftest import both, tcp_pair

LOOPBACK = ("127.0.0.1", 0)


@pytest.mark.parametrize(("words", "records"), [(1, 1), (2048, 2), (1 << 16, 1 + 32), ((1 << 16) + 1, 1 + 33)])
def test_the_meter_counts_the_bytes_of_tls_records(credentials, words, records):
    a, b = tcp_pair(credentials["party_a"], credentials["party_b"])
    with a, b:
        both(lambda: a.exchange("step", [np.zeros(words)]), lambda: b.exchange("step", [np.zeros(words)]))
        expected = HEADER.size + len("step") + 8 * words + 22 * records
        assert a.wire_sent == a.wire_received == b.wire_sent == b.wire_received == expected


def test_a_tampered_record_is_refused(credentials):
    a, b = tcp_pair(credentials["party_a"], credentials["party_b"])
    with a, b:
        flip_last_bits(b._link)
        b.send("step", "secret")
        with pytest.raises(PeerFailure, match=r"received message 0: TLS with party_b failed in step: .*MAC"):
            a.receive("step")


def flip_last_bits(link):
    """Flip a bit in everything that `link` sends, like an attacker on the line."""
    send = link._send
    link._send = lambda data: send(memoryview(bytes(data[:-1]) + bytes([data[-1] ^ 1])))


def test_the_meter_is_exact_even_when_the_peer_is_ahead(credentials):
    a, b = tcp_pair(credentials["party_a"], credentials["party_b"])
    with a, b:
        for _ in range(5):
            a.send("plan", b"x" * 1000)
        before = b.wire_received
        b.receive("plan")
        assert before == 0 and b.wire_received * 5 == a.wire_sent


def test_parties_tell_each_other_many_facts_at_the_same_time(credentials):
    many = [f"a feature with a name of some length {number}" for number in range(400_000)]
    a, b = tcp_pair(credentials["party_a"], credentials["party_b"], timeout=3)
    with a, b:
        told = both(*(lambda end=end: Party(0, end, None).exchange_public("facts", many) for end in (a, b)))
    assert told == (many, many)


@pytest.fixture
def three(credentials):
    """Yield channels from party_a to party_b and party_c, and their other ends."""
    pairs = [tcp_pair(credentials["party_a"], credentials["party_b"], timeout=20)]
    with listen(LOOPBACK, credentials["party_a"]) as listener:
        pairs.append(
            both(
                lambda: listener.accept("party_c", patience=5, timeout=20),
                lambda: connect(listener.address, credentials["party_c"], "party_a", patience=5, timeout=20),
            )
        )
    yield [channel for pair in pairs for channel in pair]
    for channel in sum(pairs, ()):
        channel.close()


def raised(failure):
    raise failure


def test_a_wait_for_one_peer_notices_that_another_has_gone(three):
    b, _, c, c_end = three
    c_end.send("never read", bytes(100_000))
    c_end.end("its disk is full")
    c_end.close()
    with (
        b.watching(c, raised),
        pytest.raises(PeerVanished, match="its disk is full; until then, this party waited for party_b"),
    ):
        b.receive("never sent")


def test_a_watched_peer_that_has_gone_without_a_reason(three):
    b, _, c, c_end = three
    c_end.close()
    with (
        b.watching(c, raised),
        pytest.raises(PeerVanished, match="party_c closed the connection in waiting for party_b"),
    ):
        b.receive("never sent")


def test_a_watched_peer_that_has_gone_and_is_not_needed(three):
    b, b_end, c, c_end = three
    gone = []
    c_end.close()

    def late():
        time.sleep(0.3)
        b_end.send("late", 1)

    with b.watching(c, gone.append):
        assert both(late, lambda: b.receive("late"))[1] == 1
    assert len(gone) == 1 and isinstance(gone[0], PeerVanished)


def test_the_first_to_send_or_hang_up_is_first(three):
    b, b_end, c, c_end = three
    assert not c.hung_up and first_to_speak([b, c], 0.01) is None
    c_end.send("word", 1)
    assert first_to_speak([b, c]) is c and c.receive("word") == 1
    b_end.close()
    assert first_to_speak([b, c]) is b and b.hung_up


def test_no_last_frame_follows_a_message_that_was_cut_short(credentials):
    """The peer would read it as the rest of that message."""
    a, b = tcp_pair(credentials["party_a"], credentials["party_b"], timeout=0.3)
    with a, b:
        with pytest.raises(PeerTimeout):
            a.send("step", bytes(50_000_000))
        sent = a.wire_sent
        a.end("it gives up")
        assert a.wire_sent == sent


def test_a_block_that_fails_is_explained(credentials):
    for error, reason in (
        (PeerTimeout("dealer silent for 9 s"), "dealer silent for 9 s"),
        (ValueError("secret"), "it failed; its log has the reason"),
    ):
        a, b = tcp_pair(credentials["party_a"], credentials["party_b"], timeout=20)
        with b:
            with pytest.raises(type(error)), a.explained():
                raise error
            with pytest.raises(PeerVanished, match=f"party_a ended the session: .*{reason}") as seen:
                b.receive("step")
            assert "secret" not in str(seen.value)


def test_a_host_that_is_dead_is_probed(credentials):
    a, b = tcp_pair(credentials["party_a"], credentials["party_b"], timeout=100)
    with a, b, socket.socket(fileno=socket.dup(a._link.fileno())) as seen:
        assert seen.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        often = seen.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        probes = seen.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        assert seen.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) + often * probes == 100


def test_a_link_sends_no_faster_than_its_pace(credentials):
    a, b = tcp_pair(credentials["party_a"], credentials["party_b"])
    with a, b:
        a.pace(10e6)
        began = time.monotonic()
        both(lambda: a.send("step", bytes(4_000_000)), lambda: b.receive("step"))
        assert time.monotonic() - began > 0.3
        for pace in (None, 1e12):  # as fast as possible
            a.pace(pace)
            both(lambda: a.send("step", bytes(4_000_000)), lambda: b.receive("step"))
