"""Behaviour of TLS over TCP only: who may connect, and what the records cost."""

import contextlib
import re
import socket
import ssl
import struct
import time
from types import SimpleNamespace

import pytest
import trustme

from mpc.errors import ConfigError, PeerFailure, PeerTimeout
from protocols.transport import tcp, tls, waiting
from protocols.transport.certificates import Credentials, make_credentials
from protocols.transport.frames import VERSION
from protocols.transport.tcp import connect, listen
from tests.protocols.transport.conftest import both

LOOPBACK = ("127.0.0.1", 0)


def meeting(first, second, patience=1.0):
    """Listen as party_a for party_b, and connect with `second`; return what each gets."""
    with listen(LOOPBACK, first) as listener:
        return both(
            lambda: listener.accept("party_b", patience=patience),
            lambda: connect(listener.address, second, "party_a", patience=patience),
        )


def test_a_wrong_name_is_refused_by_both_names(credentials, caplog):
    at_a, at_c = meeting(credentials["party_a"], credentials["party_c"])
    assert type(at_a) is PeerTimeout and type(at_c) is PeerFailure
    assert "certificate name: expected party_b, got party_c" in caplog.text
    assert str(at_c) == "party_a does not expect the name in this host's certificate"
    at_c, at_b = meeting(credentials["party_c"], credentials["party_b"])
    assert str(at_b) == "certificate name: expected party_a, got party_c"
    assert "party_b does not expect the name in this host's certificate" in caplog.text


def test_an_untrusted_authority_is_refused_on_both_sides(credentials, caplog):
    stranger = make_credentials(["party_b"])["party_b"]
    half = Credentials(stranger.certificate, stranger.private_key, credentials["party_a"].authority)
    for client in (stranger, half):
        caplog.clear()
        at_a, at_b = meeting(credentials["party_a"], client)
        assert type(at_a) is PeerTimeout and type(at_b) is PeerFailure
        assert "TLS with party_b failed in TLS handshake" in caplog.text
        assert "TLS with party_a failed in TLS handshake" in str(at_b)
        said = f"{caplog.text} {at_b}"
        assert "this host's authority.crt has no root that signed it" in said
        assert "ALERT_UNKNOWN_CA: its authority.crt has no root that signed this host's certificate" in said


def test_certificates_of_another_authority_work(tmp_path):
    authority = trustme.CA()
    credentials = []
    for name in ("party-a.example", "party-b.example"):
        issued = authority.issue_cert(name, common_name="anything")
        for file, blob in (("cert", issued.cert_chain_pems[0]), ("key", issued.private_key_pem)):
            blob.write_to_path(tmp_path / f"{name}.{file}")
        (tmp_path / f"{name}.key").chmod(0o600)
        authority.cert_pem.write_to_path(tmp_path / "ca")
        credentials.append(Credentials.from_files(tmp_path / f"{name}.cert", tmp_path / f"{name}.key", tmp_path / "ca"))
    with listen(LOOPBACK, credentials[0]) as listener:
        a, b = both(
            lambda: listener.accept("party-b.example", patience=5),
            lambda: connect(listener.address, credentials[1], "party-a.example", patience=5),
        )
    with a, b:
        assert (a.peer, b.peer) == ("party-b.example", "party-a.example")


def test_a_listener_names_its_peer(credentials):
    with listen(LOOPBACK, credentials["party_a"]) as listener:
        a, c = both(
            lambda: listener.accept("party_b", "party_c", patience=5),
            lambda: connect(listener.address, credentials["party_c"], "party_a", patience=5),
        )
    with a, c:
        assert a.peer == "party_c"


def http(address):
    plain = socket.create_connection(address)
    plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
    return plain


def reset(address):
    plain = socket.create_connection(address)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.close()
    return plain


def close_at_once(address):
    plain = socket.create_connection(address)
    plain.close()
    return plain


def half_a_hello(address):
    plain = socket.create_connection(address)
    plain.sendall(b"\x16\x03\x01\x02\x00\x01")
    return plain


@pytest.mark.parametrize("stranger", [http, reset, close_at_once, half_a_hello, socket.create_connection])
def test_the_wait_goes_on_past_strangers(credentials, stranger):
    with listen(LOOPBACK, credentials["party_a"]) as listener, contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(stranger(listener.address))
        a, b = both(
            lambda: listener.accept("party_b", patience=10),
            lambda: connect(listener.address, credentials["party_b"], "party_a", patience=10),
        )
        with a, b:
            assert (a.peer, b.peer) == ("party_b", "party_a")


def test_the_oldest_handshake_makes_room(credentials, caplog):
    with listen(LOOPBACK, credentials["party_a"]) as listener, contextlib.ExitStack() as stack:
        for _ in range(tcp.HANDSHAKES + 20):
            stack.enter_context(socket.create_connection(listener.address))
        a, b = both(
            lambda: listener.accept("party_b", patience=10),
            lambda: connect(listener.address, credentials["party_b"], "party_a", patience=10),
        )
        with a, b:
            assert a.peer == "party_b"
    assert caplog.text.count("too many handshakes at once") == 21


def test_a_slow_handshake_has_no_more_time_than_an_idle_one(credentials, monkeypatch, caplog):
    monkeypatch.setattr(tcp, "HANDSHAKE_SECONDS", 0.4)

    def drip():
        with socket.create_connection(listener.address) as plain:
            for byte in b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03":
                plain.sendall(bytes([byte]))
                time.sleep(0.1)

    with listen(LOOPBACK, credentials["party_a"]) as listener:
        at_a, _ = both(lambda: listener.accept("party_b", patience=1), drip)
    assert type(at_a) is PeerTimeout and "silent or slow in TLS handshake" in caplog.text


def test_the_wait_for_a_silent_listener_ends_in_time(credentials):
    with (
        socket.create_server(LOOPBACK) as silent,
        pytest.raises(PeerTimeout, match=r"no connection to party_a at 127\.0\.0\.1:\d+: silent in TLS handshake"),
    ):
        connect(silent.getsockname(), credentials["party_b"], "party_a", patience=0.3)


def test_a_listener_that_is_replaced_is_found(credentials):
    """As behind a proxy that accepts connections for a host that is not up yet."""
    with socket.create_server(LOOPBACK) as proxy:
        address = proxy.getsockname()

        def later():
            for _ in range(3):
                proxy.accept()[0].close()
            proxy.close()
            with listen(address, credentials["party_a"]) as listener:
                return listener.accept("party_b", patience=10)

        a, b = both(later, lambda: connect(address, credentials["party_b"], "party_a", patience=10))
    with a, b:
        assert a.peer == "party_b"


def test_another_version_of_the_protocol_is_named(credentials, monkeypatch, caplog):
    pack = tls._HELLO.pack
    versions = iter([VERSION, VERSION + 1])
    packing = SimpleNamespace(
        size=tls._HELLO.size,
        unpack=tls._HELLO.unpack,
        pack=lambda name, _, *said: pack(name, next(versions, VERSION), *said),
    )
    monkeypatch.setattr(tls, "_HELLO", packing)
    at_a, at_b = meeting(credentials["party_a"], credentials["party_b"], patience=0.5)
    said = f"{caplog.text} {at_a} {at_b}"
    assert f"speaks version {VERSION + 1} of the protocol, this host version {VERSION}" in said


@pytest.mark.parametrize("address", [("::1", 0), ("::", 0), ("localhost", 0)])
def test_ipv6_and_names(credentials, address):
    with listen(address, credentials["party_a"]) as listener:
        host, port = listener.address
        target = {"::": "127.0.0.1"}.get(address[0], address[0])
        a, b = both(
            lambda: listener.accept("party_b", patience=5),
            lambda: connect((target, port), credentials["party_b"], "party_a", patience=5),
        )
    with a, b:
        assert a.peer == "party_b"
        assert tcp.address_text((host, 7)) in ("[::1]:7", "[::]:7", "127.0.0.1:7")


@pytest.mark.parametrize("host", ["no.such.host.invalid", "x" * 70 + ".com", "nul\0byte"])
def test_an_impossible_host_is_named(credentials, host):
    with pytest.raises(ConfigError, match="cannot listen at"):
        listen((host, 1), credentials["party_a"])
    with pytest.raises((ConfigError, PeerTimeout), match=re.escape(host)):
        connect((host, 1), credentials["party_a"], "party_b", patience=0.1)


def test_the_connecting_side_names_the_session(credentials):
    with listen(LOOPBACK, credentials["party_a"]) as listener:
        a, b = both(
            lambda: listener.accept("party_b", patience=5),
            lambda: connect(listener.address, credentials["party_b"], "party_a", patience=5, session=b"s" * 16),
        )
    with a, b:
        assert a.session == b"s" * 16


def test_a_wait_is_logged(credentials, monkeypatch, caplog):
    monkeypatch.setattr(waiting.Wait.__init__, "__defaults__", (0.1, 0.1))
    caplog.set_level("INFO", "sharewood")
    with listen(LOOPBACK, credentials["party_a"]) as listener, pytest.raises(PeerTimeout):
        listener.accept("party_b", patience=0.5)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) >= 2 and all("waiting for party_b to connect to 127.0.0.1:" in line for line in said)


def test_older_tls_is_refused(credentials, caplog):
    context = credentials["party_b"].context(server=False)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2

    def client():
        with socket.create_connection(listener.address) as plain:
            context.wrap_socket(plain).close()

    with listen(LOOPBACK, credentials["party_a"]) as listener:
        at_a, at_b = both(lambda: listener.accept("party_b", patience=0.5), client)
    assert isinstance(at_a, PeerTimeout) and isinstance(at_b, ssl.SSLError)


def test_nobody_connects(credentials):
    with (
        listen(LOOPBACK, credentials["party_a"]) as listener,
        pytest.raises(PeerTimeout, match=r"party_b did not connect to 127\.0\.0\.1:\d+ within 0\.1 s"),
    ):
        listener.accept("party_b", patience=0.1)


def test_a_time_out_is_told_in_round_numbers(credentials):
    with listen(LOOPBACK, credentials["party_a"]) as listener, pytest.raises(PeerTimeout, match=r" within 0\.1 s$"):
        listener.accept("party_b", patience=0.0998765)


def test_a_port_that_is_taken_is_named_once(credentials):
    with listen(LOOPBACK, credentials["party_a"]) as first:
        said = f"^cannot listen at 127.0.0.1:{first.address[1]}: Address already in use$"
        with pytest.raises(ConfigError, match=said):
            listen(first.address, credentials["party_a"])


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


def test_files_that_do_not_match_are_named(credentials, tmp_path):
    good, other = credentials["party_a"], credentials["party_b"]
    good.save(tmp_path, "party_a")
    assert Credentials.load(tmp_path, "party_a") == good
    (tmp_path / "party_a.key").write_bytes(other.private_key)
    with pytest.raises(
        ConfigError,
        match=r"party_a\.crt, party_a\.key and authority\.crt .* do not match \(key values mismatch\)$",
    ):
        Credentials.load(tmp_path, "party_a")


def test_the_key_stays_out_of_sight(credentials):
    assert "PRIVATE" not in repr(credentials["party_a"])
