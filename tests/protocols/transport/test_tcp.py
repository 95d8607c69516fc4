"""What only TLS over TCP does: who may connect, and what the records cost."""

import socket
import ssl
import time

import numpy as np
import pytest
import trustme

from mpc.errors import ConfigError, PeerFailure, PeerTimeout, PeerVanished
from mpc.party import Party
from protocols.transport.certificates import Credentials, make_credentials
from protocols.transport.frames import HEADER
from protocols.transport.tcp import connect, listen
from tests.protocols.transport.conftest import both, tcp_pair

LOOPBACK = ("127.0.0.1", 0)


def test_a_wrong_name_is_refused_by_both_names(credentials):
    at_a, at_c = tcp_pair(credentials["party_a"], credentials["party_c"])
    assert type(at_a) is PeerFailure and isinstance(at_c, PeerFailure)
    assert str(at_a) == "certificate name: expected party_b, got party_c"
    at_c, at_b = tcp_pair(credentials["party_c"], credentials["party_b"])
    assert str(at_b) == "certificate name: expected party_a, got party_c"
    assert isinstance(at_c, PeerVanished)


def test_an_untrusted_authority_is_refused_on_both_sides(credentials):
    stranger = make_credentials(["party_b"])["party_b"]
    half = Credentials(stranger.certificate, stranger.private_key, credentials["party_a"].authority)
    for client in (stranger, half):
        at_a, at_b = tcp_pair(credentials["party_a"], client)
        assert type(at_a) is type(at_b) is PeerFailure
        assert "TLS with party_b failed in TLS handshake" in str(at_a)
        assert "TLS with party_a failed in TLS handshake" in str(at_b)
        assert "ALERT_UNKNOWN_CA" in f"{at_a} {at_b}"


def test_certificates_of_another_authority_work(tmp_path):
    authority = trustme.CA()
    credentials = []
    for name in ("party-a.example", "party-b.example"):
        issued = authority.issue_cert(name, common_name="anything")
        for file, blob in (("cert", issued.cert_chain_pems[0]), ("key", issued.private_key_pem)):
            blob.write_to_path(tmp_path / f"{name}.{file}")
        authority.cert_pem.write_to_path(tmp_path / "ca")
        credentials.append(Credentials.from_files(tmp_path / f"{name}.cert", tmp_path / f"{name}.key", tmp_path / "ca"))
    with listen(LOOPBACK, credentials[0]) as listener:
        a, b = both(
            lambda: listener.accept("party-b.example", patience=5),
            lambda: connect(listener.address, credentials[1], "party-a.example", patience=5),
        )
    with a, b:
        assert (a.peer, b.peer) == ("party-b.example", "party-a.example")


def test_a_listener_tells_who_came(credentials):
    with listen(LOOPBACK, credentials["party_a"]) as listener:
        a, c = both(
            lambda: listener.accept("party_b", "party_c", patience=5),
            lambda: connect(listener.address, credentials["party_c"], "party_a", patience=5),
        )
    with a, c:
        assert a.peer == "party_c"


def test_a_peer_without_tls_is_refused(credentials):
    with (
        listen(LOOPBACK, credentials["party_a"]) as listener,
        socket.create_connection(listener.address) as plain,
    ):
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(PeerFailure, match="TLS with party_b failed in TLS handshake"):
            listener.accept("party_b", patience=5)


def test_a_peer_that_connects_and_says_nothing_times_out(credentials):
    with (
        listen(LOOPBACK, credentials["party_a"]) as listener,
        socket.create_connection(listener.address),
        pytest.raises(PeerTimeout, match=r"party_b silent for 0\.1 s in TLS handshake"),
    ):
        listener.accept("party_b", patience=0.1)


def test_older_tls_is_refused(credentials):
    context = credentials["party_b"].context(server=False)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2

    def client():
        with socket.create_connection(listener.address) as plain:
            context.wrap_socket(plain).close()

    with listen(LOOPBACK, credentials["party_a"]) as listener:
        at_a, at_b = both(lambda: listener.accept("party_b", patience=5), client)
    assert isinstance(at_a, PeerFailure) and isinstance(at_b, ssl.SSLError)


def test_nobody_connects(credentials):
    with (
        listen(LOOPBACK, credentials["party_a"]) as listener,
        pytest.raises(PeerTimeout, match=r"party_b did not connect to 127\.0\.0\.1:\d+ within 0\.1 s"),
    ):
        listener.accept("party_b", patience=0.1)


def test_nobody_listens(credentials):
    with listen(LOOPBACK, credentials["party_a"]) as listener:
        address = listener.address
    with pytest.raises(PeerTimeout, match=r"no connection to party_a at 127\.0\.0\.1:\d+ in 0\.2 s: .*refused"):
        connect(address, credentials["party_b"], "party_a", patience=0.2)


def test_connect_waits_for_a_late_listener(credentials):
    with listen(LOOPBACK, credentials["party_a"]) as listener:
        address = listener.address

    def late():
        time.sleep(0.2)
        with listen(address, credentials["party_a"]) as listener:
            return listener.accept("party_b", patience=5)

    a, b = both(late, lambda: connect(address, credentials["party_b"], "party_a", patience=5))
    with a, b:
        assert a.peer == "party_b"


def test_a_taken_port_is_a_config_error(credentials):
    with (
        listen(LOOPBACK, credentials["party_a"]) as listener,
        pytest.raises(ConfigError, match="cannot listen at"),
    ):
        listen(listener.address, credentials["party_b"])


def test_unusable_credentials_are_config_errors(credentials, tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        Credentials.from_files(tmp_path / "none", tmp_path / "none", tmp_path / "none")
    good, other = credentials["party_a"], credentials["party_b"]
    for bad in (
        Credentials(b"no pem", good.private_key, good.authority),
        Credentials(good.certificate, other.private_key, good.authority),
        Credentials(good.certificate, good.private_key, b"no pem"),
    ):
        with pytest.raises(ConfigError, match="credentials"):
            listen(LOOPBACK, bad)


def test_files_that_do_not_fit_each_other_are_named(credentials, tmp_path):
    good, other = credentials["party_a"], credentials["party_b"]
    good.save(tmp_path, "party_a")
    assert Credentials.load(tmp_path, "party_a") == good
    (tmp_path / "party_a.key").write_bytes(other.private_key)
    with pytest.raises(ConfigError, match=r"party_a\.crt, party_a\.key and authority\.crt .* do not fit each other"):
        Credentials.load(tmp_path, "party_a")


def test_the_key_stays_out_of_sight(credentials):
    assert "PRIVATE" not in repr(credentials["party_a"])


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
    """Puts an attacker on the line, who flips a bit in everything that `link` sends."""
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
    facts = [f"a feature with a name of some length {number}" for number in range(400_000)]
    a, b = tcp_pair(credentials["party_a"], credentials["party_b"], timeout=3)
    with a, b:
        told = both(lambda: Party(0, a, None).swap("facts", facts), lambda: Party(1, b, None).swap("facts", facts))
    assert told == (facts, facts)
